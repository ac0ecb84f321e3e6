"""Recalibration in the running service: from events in the log to a map that serves, and over a restart."""

import contextlib
import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import psutil
import pytest

from monitor.app.parts import (
    make_partition_settings,
    make_sample_settings,
    make_topics,
    make_windows,
    make_writer,
    open_store,
)
from monitor.app.recalibration import longest_window, make_finding, make_models, make_plan, make_versions
from monitor.app.replay import route
from monitor.app.service import Service
from monitor.app.settings import Settings
from monitor.clock import SystemClock
from monitor.errors import UnknownSeries
from monitor.events.encode import encode_labelled
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.recalibration.comparison import LiveComparison
from monitor.recalibration.plan import RefitPlan
from monitor.recalibration.schedule import ShapeVerdict
from monitor.recalibration.serving import ServingMaps
from monitor.reports.evaluation.report import Diagnosis, Report, Verdict
from monitor.store.model_evidence import EvidenceLevel, ModelEvidence, Raised, VersionEvidence
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Champion, Job, JobState
from monitor.windows.panes import ClosedPanes
from monitor.windows.snapshot import ModelSnapshot, Snapshot
from monitor.windows.windows import Window
from tests.live_states import document as live_document
from tests.live_states import map_of
from tests.patience import PATIENCE_SECONDS, eventually

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
EVENTS = 6000


def settings(folder: Path, **refits: Any) -> Settings:
    return Settings.model_validate(
        {
            "source": {"embedded": {"directory": str(folder / "log"), "partitions": 2}},
            "store": {"url": f"sqlite:///{folder / 'state.db'}"},
            "models": {"defaults": {"horizon": "10m", "allowed_lateness": "5m", "recalibration": refits}},
            "windows": [{"length": "1h"}, {"length": "6h"}],
            "evaluation": {"interval": "1s", "draws": 19},
            "pipeline": {"checkpoint_interval": "100ms"},
            "api": {"port": 0},
            "access": {"mode": "off"},
        }
    )


def events(start_ms: int = START_MS, seed: int = 4, slope: float = 2.0) -> list[bytes]:
    """Of a model that is twice as sure as it may be, unless it was repaired, over three hours."""
    draw = np.random.default_rng(seed)
    logit = draw.normal(0.0, 1.0, EVENTS)
    y = draw.random(EVENTS) < 1.0 / (1.0 + np.exp(-logit))
    p = 1.0 / (1.0 + np.exp(-slope * logit))
    x = draw.normal(0.0, 1.0, (EVENTS, 3))
    return [
        encode_labelled(
            "churn",
            f"{seed}-{at}",
            start_ms + at * 3 * HOUR_MS // EVENTS,
            float(p[at]),
            int(y[at]),
            version="7",
            features=x[at],
        )
        for at in range(EVENTS)
    ]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with the events."""
    folder = tmp_path_factory.mktemp("events")
    chosen = settings(folder)
    writer = make_writer(chosen, SystemClock())
    writer.write([route(value, make_topics(chosen)) for value in events()])
    writer.close()
    return folder


@pytest.fixture
def run(patient: None) -> Iterator[Callable[[Settings], Service]]:
    services: list[Service] = []

    def start(chosen: Settings) -> Service:
        service = Service(chosen, clock=SystemClock())
        # Maps are looked at twice a minute.
        service.recalibration._live_maps._seconds = 0.5
        services.append(service)
        service.start()
        return service

    yield start
    for service in services:
        service.stop()


def sampled(service: Service) -> int:
    return len(service.store.read_sample("churn", "7").events)


def wait_until_sampled(service: Service) -> None:
    """Wait for all but the last minutes, which may still be corrected, and for an evaluation of them."""
    eventually(lambda: sampled(service) > EVENTS * 0.9, shown=lambda: (sampled(service), service.status))
    eventually(lambda: "churn" in service.snapshots.latest.models)


def ended(service: Service, job: Job) -> Job:
    """A refit once it has ended."""
    lifecycle = service.recalibration.recalibrations
    eventually(lambda: lifecycle.store.job(job.id).finished_ms is not None, shown=lambda: lifecycle.store.job(job.id))
    return lifecycle.store.job(job.id)


def test_from_events_to_a_map_that_serves_over_a_restart(written: Path, run: Callable[[Settings], Service]) -> None:
    chosen = settings(written)
    service = run(chosen)
    wait_until_sampled(service)
    sample = service.store.read_sample("churn", "7")
    assert sample.events.features is not None
    assert sample.events.features.shape == (len(sample.events), 3)

    lifecycle = service.recalibration.recalibrations
    order = lifecycle.make_request("churn", method="temperature")
    assert order.version == "7"
    job, _ = lifecycle.request(order, actor="ada")
    job = ended(service, job)
    assert (job.state, job.reason) == (JobState.CANDIDATE, None)
    assert job.comparison is not None
    assert job.comparison["guard"]["passed"]
    assert job.figures
    assert json.loads(lifecycle.store.figure(job.id, job.figures[0]))["kind"] == "reliability"
    assert lifecycle.serving.apply("churn", "7", [0.9]).prediction == [0.9]

    lifecycle.promote(job.id, actor="ada", note="")
    applied = lifecycle.serving.apply("churn", "7", [0.9])
    assert applied.map_id == job.id
    # Twice as sure as it may be: half the logit.
    assert applied.prediction[0] == pytest.approx(0.75, abs=0.02)
    with urllib.request.urlopen(f"{service.server.url}/v1/recalibrations/{job.id}", timeout=PATIENCE_SECONDS) as answer:
        assert json.loads(answer.read())["state"] == "champion"
    assert service.stop()

    again = run(chosen)
    # Before any event was restored, too.
    assert again.recalibration.recalibrations.version_of("churn", None) == "7"
    assert again.recalibration.recalibrations.serving.apply("churn", "7", [0.9]) == applied
    assert again.recalibration.recalibrations.roll_back("churn", "7", actor="ada", note="").map_id is None
    assert again.recalibration.recalibrations.serving.apply("churn", "7", [0.9]).prediction == [0.9]


def test_a_map_that_turns_harmful_is_rolled_back_by_the_service(
    tmp_path: Path, run: Callable[[Settings], Service]
) -> None:
    chosen = settings(tmp_path, promotion="automatic")
    topics = make_topics(chosen)
    writer = make_writer(chosen, SystemClock())
    writer.write([route(value, topics) for value in events()])
    writer.close()
    service = run(chosen)
    wait_until_sampled(service)
    lifecycle = service.recalibration.recalibrations
    job, _ = lifecycle.request(lifecycle.make_request("churn", method="temperature"), actor="ada")
    assert ended(service, job).state is JobState.CHAMPION
    # The model was repaired.
    service.log.writer.write([route(value, topics) for value in events(START_MS + 3 * HOUR_MS, seed=5, slope=1.0)])

    def alerts() -> list[dict[str, Any]]:
        return list(json.loads(get(service, "/v1/alerts?kind=map"))["alerts"])

    eventually(lambda: [alert["state"] for alert in alerts()] == ["resolved"], shown=alerts)
    assert lifecycle.store.job(job.id).state is JobState.ROLLED_BACK
    assert f"The map {job.id} of " in alerts()[0]["summary"]
    entry = lifecycle.store.audit(limit=100)[-1]
    assert (entry.actor, entry.action, entry.subject) == ("service", "rolled_back", job.id)
    eventually(lambda: lifecycle.serving.apply("churn", "7", [0.9]).prediction == [0.9])


def get(service: Service, path: str) -> str:
    with urllib.request.urlopen(f"{service.server.url}{path}", timeout=PATIENCE_SECONDS) as answer:
        return str(answer.read().decode())


def exported(service: Service, series: str) -> float | None:
    lines = [line for line in get(service, "/metrics").splitlines() if line.startswith(f"{series} ")]
    return float(lines[0].rpartition(" ")[2]) if lines else None


def test_live_events_tell_raw_and_recalibrated_scores_apart(tmp_path: Path, run: Callable[[Settings], Service]) -> None:
    chosen = settings(tmp_path)
    topics = make_topics(chosen)
    writer = make_writer(chosen, SystemClock())
    writer.write([route(value, topics) for value in events()])
    writer.close()
    service = run(chosen)
    wait_until_sampled(service)
    lifecycle = service.recalibration.recalibrations

    def live() -> dict[str, Any]:
        document = json.loads(get(service, "/v1/models/churn/recalibration"))["live"]
        return {} if document is None else dict(document)

    assert live() == {}
    job, _ = lifecycle.request(lifecycle.make_request("churn", method="temperature"), actor="ada")
    ended(service, job)
    # The refit saw all that there is.
    eventually(live)
    assert live()["insufficient"] is not None
    assert live()["maps"]["candidate"]["id"] == job.id
    assert exported(service, 'calibration_refits_total{model="churn",result="passed"}') == 1
    assert exported(service, 'calibration_map_smce{map="candidate",model="churn",version="7"}') is None

    service.log.writer.write([route(value, topics) for value in events(START_MS + 3 * HOUR_MS, seed=5)])
    eventually(lambda: live()["n"] > EVENTS * 0.95, shown=live)
    smce = {name: each["measures"]["smce"] for name, each in live()["maps"].items() if each is not None}
    assert smce["candidate"]["value"] < smce["none"]["value"] / 3
    assert live()["evidence"]["candidate_against_none"]["e_value"] > 20
    assert live()["weighted"] is False
    # The last events may have come between the two answers.
    eventually(
        lambda: (
            exported(service, 'calibration_map_smce{map="candidate",model="churn",version="7"}')
            == pytest.approx(live()["maps"]["candidate"]["measures"]["smce"]["value"])
        ),
        shown=live,
    )
    assert exported(service, 'calibration_champion_active{model="churn",version="7"}') is None

    # What is served is found out from now on, and not what the model says.
    find = service.recalibration.scheduler._finding
    eventually(lambda: (before := find("churn")) is not None and before.miscalibrated, shown=lambda: find("churn"))
    lifecycle.promote(job.id, actor="ada", note="")
    eventually(lambda: live()["maps"]["champion"] is not None, shown=live)
    assert live()["maps"]["candidate"] is None
    assert exported(service, 'calibration_champion_active{model="churn",version="7"}') == 1
    e_value = 'calibration_map_log10_e_value{against="none",map="champion",model="churn",version="7"}'
    eventually(lambda: (exported(service, e_value) or 0) > 2, shown=live)
    eventually(lambda: (after := find("churn")) is not None and not after.miscalibrated, shown=lambda: find("churn"))


def test_a_service_that_stops_gives_its_refit_back(written: Path, run: Callable[[Settings], Service]) -> None:
    service = run(settings(written))
    wait_until_sampled(service)
    lifecycle = service.recalibration.recalibrations
    job, _ = lifecycle.request(lifecycle.make_request("churn", method="lore"), actor="ada")
    (worker,) = eventually(workers, shown=lambda: lifecycle.store.job(job.id))
    # However slow the machine is, it is not done before its service ends.
    worker.suspend()
    assert lifecycle.store.job(job.id).state is JobState.RUNNING
    assert service.stop()
    assert not worker.is_running()
    with open_store(settings(written), SystemClock()) as store:
        given_back = RecalibrationStore(store.database).job(job.id)
    assert (given_back.state, given_back.attempts, given_back.started_ms) == (JobState.QUEUED, 0, None)
    job = ended(run(settings(written)), job)
    assert job.attempts == 1
    assert job.state in {JobState.CANDIDATE, JobState.REJECTED}


def workers() -> list[psutil.Process]:
    """Processes of refits that a service in this process has started."""
    workers = []
    for child in psutil.Process().children():
        # Others may end meanwhile.
        with contextlib.suppress(psutil.NoSuchProcess):
            if "monitor.recalibration.worker" in child.cmdline():
                workers.append(child)
    return workers


def test_a_verdict_leads_to_a_map_that_serves_by_itself(tmp_path: Path, run: Callable[[Settings], Service]) -> None:
    chosen = settings(tmp_path, on_verdict=True, promotion="automatic", method="platt")
    writer = make_writer(chosen, SystemClock())
    writer.write([route(value, make_topics(chosen)) for value in events()])
    writer.close()
    service = run(chosen)
    lifecycle = service.recalibration.recalibrations
    eventually(lambda: service.recalibration.serving.champion("churn", "7").map_id is not None)
    (job,) = lifecycle.store.jobs("churn", before=None, limit=10)
    assert (job.state, job.actor, job.trigger, job.method) == (
        JobState.CHAMPION,
        "verdict",
        "verdict",
        "platt",
    )


def test_the_settings_of_a_model_become_its_plan(tmp_path: Path) -> None:
    models = Settings.model_validate(
        {
            "models": {
                "defaults": {"recalibration": {"schedule": "0 3 * * *", "window": "7d"}},
                "declared": {
                    "churn": {"recalibration": {"method": "lore", "options": {"gamma": 0.2}, "promotion": "automatic"}},
                    "fraud": {"recalibration": {"schedule": "never", "on_verdict": True}},
                },
            }
        }
    ).models
    plan = make_plan(models)
    usual = RefitPlan(window=timedelta(days=7), schedule="0 3 * * *")
    assert plan("another") == usual
    assert plan("churn") == usual.model_copy(
        update={"method": "lore", "options": {"gamma": 0.2}, "promotion": "automatic"}
    )
    assert plan("fraud") == usual.model_copy(update={"schedule": "never", "on_verdict": True})
    assert plan("fraud").cron is None


def test_samples_reach_back_as_far_as_any_window_or_refit(tmp_path: Path) -> None:
    chosen = make_sample_settings(settings(tmp_path))
    assert (chosen.size("any"), chosen.span_ms, chosen.kept_ms) == (100_000, 6 * HOUR_MS // 16, 7 * HOUR_MS)
    assert make_sample_settings(settings(tmp_path, window="2d")).kept_ms == 49 * HOUR_MS
    assert make_partition_settings(settings(tmp_path)).samples.size("any") == 100_000
    assert make_partition_settings(settings(tmp_path), sampling=False).samples.size("any") == 0


def test_the_longest_window_by_time_is_the_one_whose_verdict_counts(tmp_path: Path) -> None:
    assert longest_window(make_windows(settings(tmp_path))).name == "6h"
    windows = [Window("a", HOUR_MS), Window("b", 9 * HOUR_MS, last=100), Window("c", 5 * HOUR_MS, mature=False)]
    assert longest_window(windows).name == "a"
    assert longest_window(windows[1:2]).name == "b"


def panes(*series: SeriesKey) -> ClosedPanes:
    """What is read of panes here, of these series."""
    return cast(
        "ClosedPanes",
        SimpleNamespace(
            series=lambda: list(series),
            policy=lambda _: ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=1000),
            watermark_ms=lambda _: START_MS,
            counts=lambda *_: [],
        ),
    )


def serving(*champions: Champion) -> ServingMaps:
    """What is asked of what serves here."""
    nothing = Champion("", "", None, 0, 0)
    return cast(
        "ServingMaps",
        SimpleNamespace(
            served=lambda model: [each for each in champions if each.model == model],
            champion=lambda *named: next((each for each in champions if each[:2] == named), nothing),
        ),
    )


def finder(
    verdict: Verdict | None,
    champion: Champion | None = None,
    live: Mapping[str, Any] | None = None,
    levels: Mapping[str, EvidenceLevel] | None = None,
) -> Callable[[str], ShapeVerdict | None]:
    diagnosis = None if verdict is None else Diagnosis(verdict, "")
    report = Report("churn", "7", ALL, "6h", 0, 1, 9, 3, 9, 0.3, 0.3, diagnosis=diagnosis)
    evidence = ModelEvidence({} if levels is None else {"7": VersionEvidence(START_MS, levels)})
    snapshot = Snapshot(
        models={
            "churn": ModelSnapshot(0, START_MS, -1, None, "7", {report.key: report}, {}, {}, evidence),
            "new": ModelSnapshot(0, START_MS, -1, None, "1", {}, {}, {}),
        }
    )
    known = serving(*([] if champion is None else [champion]))
    maps = {"none": map_of(None), "champion": live and map_of("rc_1", **live)}
    document = None if live is None else LiveComparison.of(live_document(maps=maps))
    return make_finding(panes(), Window("6h", 6 * HOUR_MS), lambda: snapshot, known, lambda *_: document)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_finding_is_of_the_shape_and_of_the_current_version(verdict: Verdict) -> None:
    find = finder(verdict)
    miscalibrated = verdict in {Verdict.SHAPE, Verdict.BOTH}
    assert find("churn") == ShapeVerdict("7", miscalibrated, START_MS - HOUR_MS - 1000)
    assert find("new") is None
    assert find("unknown") is None


@pytest.mark.parametrize("verdict", list(Verdict))
def test_where_a_map_serves_a_finding_is_of_what_it_makes_of_live_events(verdict: Verdict) -> None:
    champion = Champion("churn", "7", "rc_1", 5, 1)
    live = {"id": "rc_1", "missing": None, "verdict": {"verdict": verdict.value, "sentence": ""}}
    for raw in (Verdict.SHAPE, Verdict.CALIBRATED, None):
        finding = finder(raw, champion, live)("churn")
        assert finding == ShapeVerdict("7", verdict in {Verdict.SHAPE, Verdict.BOTH}, START_MS - HOUR_MS - 1000)


@pytest.mark.parametrize("verdict", [Verdict.SHAPE, Verdict.CALIBRATED])
def test_where_there_is_evidence_on_what_is_served_it_decides_and_says_since_when(verdict: Verdict) -> None:
    newest_ms = START_MS - HOUR_MS - 1000
    raised = Raised(START_MS, START_MS, 6.0, ALL, START_MS - 7, [])
    for champion in (None, Champion("churn", "7", "rc_1", 5, 1)):
        live = {"id": "rc_1", "missing": None, "verdict": {"verdict": verdict.value, "sentence": ""}}
        silent = finder(verdict, champion, live, {"prevalence": level()})("churn")
        assert silent == ShapeVerdict("7", miscalibrated=False, newest_ms=newest_ms)
        alarmed = finder(verdict, champion, live, {"prevalence": level(raised)})("churn")
        assert alarmed == ShapeVerdict("7", miscalibrated=True, newest_ms=newest_ms, since_ms=START_MS - 7)
        # That an offset would do is no reason to refit, and a map of features leaves no evidence on what it serves.
        resting = finder(verdict, champion, live, {"calibration": level(raised)})("churn")
        assert resting == ShapeVerdict("7", verdict is Verdict.SHAPE, newest_ms)


def level(raised: Raised | None = None) -> EvidenceLevel:
    return EvidenceLevel(0.0, 5.0, ALL, START_MS, raised)


def test_of_a_map_that_is_not_measured_yet_nothing_is_found() -> None:
    champion = Champion("churn", "7", "rc_1", 5, 1)
    other = {"id": "rc_0", "missing": None, "verdict": {"verdict": Verdict.SHAPE.value, "sentence": ""}}
    for live in (None, other, {"id": "rc_1", "missing": None, "verdict": None}):
        assert finder(Verdict.SHAPE, champion, live)("churn") is None


def test_of_a_map_that_cannot_be_applied_the_raw_predictions_are_found_out() -> None:
    live = {"id": "rc_1", "missing": "the map cannot be applied to these events", "verdict": None}
    finding = finder(Verdict.SHAPE, Champion("churn", "7", "rc_1", 5, 1), live)("churn")
    assert finding is not None
    assert finding.miscalibrated


def test_what_was_rolled_back_to_none_is_found_out_by_raw_predictions() -> None:
    live = {"id": "rc_1", "missing": None, "verdict": {"verdict": Verdict.CALIBRATED.value, "sentence": ""}}
    finding = finder(Verdict.SHAPE, Champion("churn", "7", None, 5, 2), live)("churn")
    assert finding is not None
    assert finding.miscalibrated


def test_versions_that_serve_are_known_before_their_events_are() -> None:
    champions = [Champion("churn", "7", "rc_1", 5, 1), Champion("churn", "8", "rc_2", 9, 1)]
    windows = [Window("1h", HOUR_MS)]
    restored = make_versions(
        panes(SeriesKey("churn", "9", ALL), SeriesKey("new", "1", ALL)), windows, serving(*champions)
    )
    assert (restored("churn", None), restored("churn", "9"), restored("churn", "7")) == ("9", "9", "7")
    assert restored("new", None) == "1"
    empty = make_versions(panes(), windows, serving(*champions))
    assert (empty("churn", None), empty("churn", "7")) == ("8", "7")
    for model, version in (("fraud", None), ("churn", "6")):
        with pytest.raises(UnknownSeries):
            empty(model, version)


def test_declared_models_are_known_before_their_events_are(tmp_path: Path) -> None:
    models = Settings.model_validate({"models": {"declared": {"churn": {}}}}).models
    assert set(make_models(models, panes(SeriesKey("new", "1", ALL)))()) == {"churn", "new"}
