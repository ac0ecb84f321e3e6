import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.registry import CollectorRegistry

from docs.generators.series import catalogue, to_markdown
from monitor.alarms.settings import WebhookSettings
from monitor.alarms.webhooks import Target, Webhook
from monitor.clock import ManualClock, SystemClock
from monitor.events.model import TopicPartition
from monitor.events.strata import Cap
from monitor.http.request_log import RefusedRequests, RequestTraffic
from monitor.measures import MEASURES
from monitor.metrics.alerts import AlertFamilies
from monitor.metrics.evidence import EvidenceFamilies
from monitor.metrics.exposition import Exposition
from monitor.metrics.measures import STATISTICS, measure_series
from monitor.metrics.refits import RefitFamilies
from monitor.metrics.series import Families, Level
from monitor.metrics.service import backlog_families, http_families, pipeline_families, role_families
from monitor.metrics.windows import DIAGNOSIS
from monitor.reports.evaluation.report import Diagnosis, MeasureResult, Report
from monitor.store.alert import Alert, AlertState
from monitor.store.base import CapUse
from monitor.store.model_evidence import Shock
from monitor.store.webhooks import WebhookStore
from monitor.stream.status import Phase, PipelineStatus, Unread
from monitor.windows.snapshot import Snapshot
from tests.alarms.findings import NOW_MS, finding
from tests.http.refits import nobodys
from tests.live_states import Maps, state
from tests.metrics.library import ExpositionCollector
from tests.snapshots import (
    Evaluations,
    cohorts,
    evidence,
    evidence_level,
    measure,
    report,
    result,
    snapshot,
    window_families,
    with_evidence,
)

ROOT = Path(__file__).parents[2]


def whole_report() -> Report:
    """A report with everything that a report can hold."""
    return replace(report(measures=MEASURES.values(), bins=10), canonical={"skce": result("ratio", 0.25)})


def whole_snapshot() -> Snapshot:
    """A snapshot with everything that one can hold of a version."""
    of_version = evidence(Shock(0.08, 0.03, 0.15, 14, 0.05), calibration=evidence_level(raised=True))
    return with_evidence(snapshot([whole_report()], coverage={("churn", "7"): cohorts()}), {("churn", "7"): of_version})


def parts(evaluations: Evaluations, status: PipelineStatus) -> list[Families]:
    """All that is exported besides the build and the process."""
    maps = Maps(state(MEASURES.values()))
    traffic = RequestTraffic()
    traffic.count("GET", "/metrics", 200, 0.25)
    webhook = Webhook(
        Target("oncall", WebhookSettings(url="http://127.0.0.1:1/")),
        WebhookStore(nobodys().database.database),
        owner="a",
        clock=ManualClock(),
    )
    found = finding(7.2, document={"label": "both", "after": {"offset": 0.1, "slope": 1.2}})
    alert = Alert(id="al_1", state=AlertState.FIRING, finding=found, pending_ms=NOW_MS)
    return [
        AlertFamilies(lambda: {("churn", "7", "map"): alert}, lambda: {"churn"}, [webhook]),
        EvidenceFamilies(lambda: evaluations.latest),
        window_families(evaluations, MEASURES.values()),
        RefitFamilies(lambda: maps.latest, MEASURES.values(), lambda: maps.known, level=Level.ALL),
        pipeline_families(lambda: status),
        backlog_families(lambda: {TopicPartition("events", 0): Unread(3, 100)}),
        http_families(traffic.requests, traffic.seconds, RefusedRequests(clock=SystemClock()).counts),
        role_families(["consume"]),
    ]


def test_names_follow_the_conventions_of_prometheus() -> None:
    for series in catalogue(MEASURES.values()):
        assert re.fullmatch(r"(calibration|process)_[a-z][a-z0-9_]*", series.name)
        assert series.name.endswith("_total") == (series.kind == "counter")
        assert series.name.endswith("_info") == (series.kind == "info")
        assert series.meaning.endswith(".")
        assert not series.name.endswith(("_percent", "_ms", "_count", "_sum", "_bucket"))


def test_no_name_is_listed_twice() -> None:
    names = [series.name for series in catalogue(MEASURES.values())]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["tce_ratio", "kce", "smce", "intce", "surrogate_intce", "ece"])
def test_the_names_that_charts_rely_on_are_there(name: str) -> None:
    names = {series.name for series in catalogue(MEASURES.values())}
    assert {
        f"calibration_{name}{end}" for end in ("", "_lower", "_upper", "_null_mean", "_null_q95", "_p_value")
    } <= names


def test_one_declaration_adds_a_measure_and_percent_becomes_a_ratio() -> None:
    in_percent = replace(report(), measures={"xce": result("percent", 20.0)})
    values = {series.name: series.read(in_percent) for series in measure_series([measure("xce", "percent", 5)])}
    assert values["calibration_xce_ratio"] == 0.2
    assert values["calibration_xce_ratio_lower"] == 0.1
    assert values["calibration_xce_ratio_p_value"] == 0.005


def test_only_shares_have_the_unit_ratio() -> None:
    units = {series.name: series.unit for series in catalogue(MEASURES.values())}
    assert units["calibration_log_loss"] == units["calibration_spiegelhalter_null_q95"] == ""
    assert units["calibration_brier"] == units["calibration_log_loss_p_value"] == "ratio"


def test_every_number_of_a_diagnosis_has_a_series() -> None:
    """But for smCE, which is a measure, standard errors, which intervals are made of, and what frames the verdict."""
    numbers = set(Diagnosis.__dataclass_fields__) - {"verdict", "sentence", "error", "offset_error", "slope_error"}
    numbers -= {"tolerance", "detectable_offset", "detectable_slope_below", "detectable_slope_above"}
    names = {series.name for series in DIAGNOSIS}
    assert {f"calibration_{name}{'_logit' * (name == 'offset')}" for name in numbers} <= names


def test_every_number_of_a_result_has_a_series() -> None:
    assert set(STATISTICS) == set(MeasureResult.__dataclass_fields__) - {"unit"}


def test_every_exported_series_is_listed_and_vice_versa() -> None:
    evaluations = Evaluations()
    evaluations.show(whole_snapshot())
    status = PipelineStatus(
        phase=Phase.RUNNING,
        lag={TopicPartition("events", 0): 3},
        checkpoint_ms=1_800_000_000_000,
        state_bytes={"join": 70_000, "candidates": 90_000},
        caps={Cap("versions", "churn"): CapUse(20, 20, folded=7)},
    )
    registry = CollectorRegistry()
    registry.register(ExpositionCollector(Exposition(parts(evaluations, status))))
    exported = {sample.name for metric in registry.collect() for sample in metric.samples}
    assert exported == {series.name for series in catalogue(MEASURES.values())}


def test_labels_are_those_listed() -> None:
    evaluations = Evaluations()
    evaluations.show(whole_snapshot())
    status = PipelineStatus(lag={TopicPartition("events", 0): 3})
    exposition = Exposition(parts(evaluations, status))
    labels = {series.name: set(series.labels) for series in catalogue(MEASURES.values())}
    for metric in ExpositionCollector(exposition).collect():
        for sample in metric.samples:
            assert set(sample.labels) == labels[sample.name]


def test_the_documented_command_makes_the_page_as_it_stands() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "docs.generators.series"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert made.stdout == (ROOT / "docs" / "series.md").read_text()
    for series in catalogue(MEASURES.values()):
        assert f"| `{series.name}` | {series.kind} |" in made.stdout


def test_a_pipe_in_a_meaning_would_break_the_table() -> None:
    rows = [line for line in to_markdown(MEASURES.values()).splitlines() if line.startswith("| `")]
    assert all(row.count("|") == 7 for row in rows)
