"""What Prometheus sees of sequential evidence."""

from dataclasses import replace

from monitor.metrics.evidence import EvidenceFamilies
from monitor.metrics.exposition import Exposition
from monitor.store.model_evidence import NO_EVIDENCE, Shock
from monitor.windows.snapshot import Snapshot
from tests.metrics.library import ExpositionCollector
from tests.real.promtool import check_metrics
from tests.snapshots import (
    HOUR_MS,
    NOW_MS,
    evidence,
    evidence_level,
    report,
    snapshot,
    with_evidence,
)

LABELS = ("model", "version", "detector")
SHOCK = Shock(0.08, 0.03, 0.15, 14, 0.05)


def samples(of: Snapshot) -> dict[tuple[str, ...], float]:
    exposition = Exposition([EvidenceFamilies(lambda: of)])
    said = check_metrics(exposition.render()[0])
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    return {
        (
            sample.name.removeprefix("calibration_"),
            *(sample.labels[name] for name in LABELS if name in sample.labels),
        ): sample.value
        for metric in ExpositionCollector(exposition, process=False).collect()
        for sample in metric.samples
        if not sample.name.startswith("calibration_build")
    }


def test_evidence_its_line_and_its_change_point_are_exported() -> None:
    of_seven = evidence(
        SHOCK,
        calibration=evidence_level(-1.0, raised=True),
        prevalence=evidence_level(3.0),
        change=evidence_level(2.9),
        serving_map=evidence_level(NO_EVIDENCE),
    )
    churn = with_evidence(snapshot([report()]), {("churn", "7"): of_seven, ("churn", "8"): evidence()})
    settled, change = (NOW_MS - HOUR_MS) / 1000, (NOW_MS - 5 * HOUR_MS) / 1000
    expected: dict[tuple[str, ...], float] = {
        ("evidence", "churn", "7", "calibration"): -1.0,
        ("evidence", "churn", "7", "prevalence"): 3.0,
        ("evidence", "churn", "7", "change"): 2.9,
        # The logarithm of 0 is absent.
        **{("evidence_line", "churn", "7", name): 4.0 for name in of_seven.levels},
        # One fires; one is within a factor of ten of its line.
        ("change_point_timestamp_seconds", "churn", "7", "calibration"): change,
        ("change_point_timestamp_seconds", "churn", "7", "prevalence"): change,
        ("evidence_settled_timestamp_seconds", "churn", "7"): settled,
        ("evidence_settled_timestamp_seconds", "churn", "8"): settled,
        ("shock_logit", "churn", "7"): 0.08,
        ("shock_logit_lower", "churn", "7"): 0.03,
        ("shock_logit_upper", "churn", "7"): 0.15,
        ("shock_covered", "churn", "7"): 0,
    }
    assert samples(churn) == expected
    covered = with_evidence(snapshot([report()]), {("churn", "7"): evidence(SHOCK._replace(lower=0.025))})
    assert samples(covered)["shock_covered", "churn", "7"] == 1
    # Of a model that another replica evaluates, that one exports it.
    assert samples(replace(churn, models={})) == {}
