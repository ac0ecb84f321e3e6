"""The shadow, against a real store with real maps."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from monitor import evaluate
from monitor.clock import ManualClock
from monitor.errors import StoreUnavailable
from monitor.events.times import format_time
from monitor.maps import METHODS, fit_map
from monitor.maps.artifact import to_bytes
from monitor.recalibration.live import LiveMonitor
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.report import Report
from monitor.scores.labelled import LabelledEvents
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import JobState, Overview, Sample, StoredMap
from monitor.store.schema import RECALIBRATION_MAPS
from tests.recalibration.comparisons import comparison
from tests.recalibration.samples import START_MS, sample
from tests.store.refits import LEASE_MS, queued, stored_map

EVENTS = sample(3000)
HOUR_MS = 3_600_000
SAW_MS = START_MS + 500 * 1000
"""Refits saw the first 500 of the events."""


class Samples:
    """Events in memory, read as the store reads them."""

    def __init__(self, events: LabelledEvents = EVENTS) -> None:
        self.events = events
        self.asked: list[tuple[str, str, int, int | None]] = []

    def read_sample(
        self, model: str, version: str, *, from_ms: int = 0, to_ms: int | None = None, limit: int | None = None
    ) -> Sample:
        assert to_ms is None
        self.asked.append((model, version, from_ms, limit))
        chosen = self.events.select(self.events.time_ms >= from_ms)
        return Sample(chosen, len(chosen), {})


class Away(RecalibrationStore):
    """A store that may be away."""

    def __init__(self, refits: RecalibrationStore) -> None:
        super().__init__(refits._database)
        self.away: Exception | None = None
        self.comparisons_read = 0

    def overview(self) -> Overview:
        if self.away is not None:
            raise self.away
        return super().overview()

    def job(self, job_id: str) -> Any:
        self.comparisons_read += 1
        return super().job(job_id)


class Watched:
    """A live monitor, and how often it measured."""

    def __init__(self, refits: RecalibrationStore, events: LabelledEvents = EVENTS) -> None:
        self.store = Away(refits)
        self.samples = Samples(events)
        self.clock = ManualClock(START_MS + HOUR_MS)
        self.measured = 0
        self.during: Callable[[], None] = lambda: None
        self.monitor = LiveMonitor(
            self.store,
            self.samples.read_sample,
            evaluate_of=lambda _: self._evaluate,
            draws=19,
            clock=self.clock,
        )

    def _evaluate(self, p: Any, y: Any, *, weight: Any = None, draws: int | None = None) -> Report | ClassReport:
        self.measured += 1
        self.during()
        report: Report | ClassReport = evaluate(p, y, weight=weight, draws=draws)
        return report

    def look(self) -> dict[str, Any]:
        """Look, and what of churn 7 is shown then: its maps' ids."""
        self.monitor.update()
        return self.shown()

    def shown(self, model: str = "churn") -> dict[str, Any]:
        document = self.monitor.document(model, "7")
        if document is None:
            return {}
        return {name: each.id for name, each in document.maps.by_name().items()}

    def document(self) -> dict[str, Any]:
        document = self.monitor.document("churn", "7")
        return {} if document is None else document.to_dict()


@pytest.fixture
def watched(refits: RecalibrationStore) -> Watched:
    return Watched(refits)


def refitted(
    refits: RecalibrationStore,
    number: int,
    *,
    method: str = "beta",
    promote: bool = False,
    baseline: str | None = None,
    until_ms: int = SAW_MS,
    model: str = "churn",
    artifact: bytes | None = None,
    state: JobState = JobState.CANDIDATE,
) -> StoredMap:
    """A refit with a map that was fitted on other events."""
    refits.add_job(queued(number, model=model))
    job = refits.claim_job("w", lease_ms=LEASE_MS)
    assert job is not None
    fitted = fit_map(METHODS[method], sample(1000, seed=8))
    stored = stored_map(job.id, artifact or to_bytes(fitted, {"id": job.id}))
    ended = replace(
        job,
        state=state,
        comparison=comparison(until_ms=until_ms),
        baseline=baseline,
    )
    refits.finish_job(ended, "w", stored, {}, promote=promote)
    return stored


def test_before_any_refit_there_is_nothing_to_show(watched: Watched) -> None:
    assert watched.monitor.latest.updated_ms == 0
    assert watched.look() == {}
    assert watched.monitor.document("churn", "7") is None
    assert watched.samples.asked == []
    assert watched.monitor.latest.updated_ms == watched.clock.now_ms()


def test_a_candidate_is_shown_before_its_promotion_and_a_champion_after_it(watched: Watched) -> None:
    refitted(watched.store, 1)
    assert watched.look() == {"none": None, "candidate": "rc_1"}
    assert watched.document()["since"] == format_time(SAW_MS)
    assert watched.document()["n"] == 2500
    watched.store.promote("rc_1", actor="ada", now_ms=5, note="")
    assert watched.look() == {"none": None, "champion": "rc_1"}
    assert watched.document()["evidence"]["champion_against_none"]["e_value"] > 20
    refitted(watched.store, 2, baseline="rc_1", method="platt", until_ms=SAW_MS + 1000_000)
    assert watched.look() == {"none": None, "champion": "rc_1", "candidate": "rc_2"}
    # Since the newest events that a refit of either saw.
    assert watched.document()["since"] == format_time(SAW_MS + 1000_000)
    assert watched.document()["n"] == 1500
    watched.store.roll_back("churn", "7", actor="ada", now_ms=6, note="")
    assert watched.look() == {}
    assert watched.monitor.latest.champions[0].map_id is None


def test_what_could_not_be_promoted_is_not_shown(watched: Watched) -> None:
    refitted(watched.store, 1, state=JobState.REJECTED)
    assert watched.look() == {}
    refitted(watched.store, 2)
    refitted(watched.store, 3)
    watched.store.promote("rc_2", actor="ada", now_ms=5, note="")
    # The third was compared with no map, and a map serves now.
    assert watched.look() == {"none": None, "champion": "rc_2"}


def test_it_measures_again_only_when_events_or_maps_change(watched: Watched) -> None:
    watched.samples.events = EVENTS.select(slice(0, 2000))
    refitted(watched.store, 1, promote=True)
    watched.look()
    first = watched.document()
    assert watched.measured == 2
    watched.clock.advance(60)
    watched.look()
    assert watched.document() == first
    assert watched.measured == 2
    watched.samples.events = EVENTS
    watched.look()
    assert watched.measured == 4
    assert watched.document()["n"] == 2500
    assert first["changed"] < watched.document()["changed"] == format_time(watched.clock.now_ms())
    refitted(watched.store, 2, baseline="rc_1")
    watched.look()
    assert watched.measured == 7
    # A comparison never changes, so each was read once.
    assert watched.store.comparisons_read == 2


def test_samples_are_read_up_to_a_limit(watched: Watched) -> None:
    refitted(watched.store, 1)
    watched.look()
    assert watched.samples.asked == [("churn", "7", SAW_MS, 20_000)]


def test_too_few_events_are_no_error(watched: Watched) -> None:
    refitted(watched.store, 1, until_ms=int(EVENTS.time_ms[-40]))
    watched.look()
    assert watched.document()["insufficient"].startswith("40 labelled events since ")
    assert watched.measured == 0


def test_while_the_store_is_away_the_last_document_stays_and_the_log_says_so_once(watched: Watched) -> None:
    refitted(watched.store, 1)
    watched.look()
    before = watched.monitor.latest
    watched.store.away = StoreUnavailable("no answer")
    with capture_logs() as logs:
        for _ in range(3):
            assert watched.look() == {"none": None, "candidate": "rc_1"}
    assert [(each["log_level"], each["detail"]) for each in logs] == [("warning", "no answer")]
    assert watched.monitor.latest == before
    watched.store.away = None
    watched.look()
    watched.store.away = StoreUnavailable("no answer")
    with capture_logs() as logs:
        watched.look()
    assert len(logs) == 1


def test_an_unexpected_error_is_one_versions_and_said_once(watched: Watched) -> None:
    refitted(watched.store, 1, model="broken")
    refitted(watched.store, 2)

    def fail() -> None:
        if watched.samples.asked[-1][0] == "broken":
            raise ZeroDivisionError("by chance")

    watched.during = fail
    with capture_logs() as logs:
        assert watched.look() == watched.look() == {"none": None, "candidate": "rc_2"}
    assert [(each["log_level"], each["model"]) for each in logs] == [("error", "broken")]
    assert watched.shown("broken") == {}
    watched.during = lambda: None
    watched.look()
    assert watched.shown("broken") == {"none": None, "candidate": "rc_1"}


def test_a_damaged_map_says_so_and_is_measured_when_it_is_mended(watched: Watched) -> None:
    stored = refitted(watched.store, 1)
    database = watched.store._database

    def write(artifact: bytes) -> None:
        with database.writing() as connection:
            # Rows are never changed, so it goes, as by pruning, and another comes.
            connection.execute(sa.delete(RECALIBRATION_MAPS))
            connection.execute(sa.insert(RECALIBRATION_MAPS).values(stored._replace(artifact=artifact)._asdict()))

    write(stored.artifact[:-9])
    watched.look()
    candidate = watched.document()["maps"]["candidate"]
    assert candidate["missing"].startswith("the map cannot be read: the map rc_1 is damaged")
    assert watched.document()["maps"]["none"]["measures"]
    write(stored.artifact)
    watched.look()
    assert watched.document()["maps"]["candidate"]["missing"] is None
    assert watched.document()["maps"]["candidate"]["measures"]


def test_bytes_that_are_no_map_say_so(watched: Watched) -> None:
    refitted(watched.store, 1, artifact=b"not a map")
    watched.look()
    assert watched.document()["maps"]["candidate"]["missing"].startswith("the map cannot be read: ")


def test_features_of_another_length_say_so(refits: RecalibrationStore) -> None:
    watched = Watched(refits, sample(3000, dimensions=2))
    refitted(watched.store, 1, method="lore")
    with capture_logs() as logs:
        watched.look()
    assert logs == []
    assert watched.document()["maps"]["candidate"]["missing"].startswith("the map cannot be applied to these events: ")


def test_it_stops_between_versions(watched: Watched) -> None:
    for number, model in enumerate(("a", "b", "churn"), 1):
        refitted(watched.store, number, model=model)
    watched.during = watched.monitor.stop
    watched.monitor.update()
    assert watched.shown("a") == {"none": None, "candidate": "rc_1"}
    assert watched.shown("b") == {}
    assert watched.monitor.latest.updated_ms == 0


def test_what_is_not_shown_any_more_is_forgotten(watched: Watched) -> None:
    refitted(watched.store, 1, promote=True)
    watched.look()
    watched.store.roll_back("churn", "7", actor="ada", now_ms=6, note="")
    watched.look()
    monitor = watched.monitor
    assert (monitor._bases, monitor._used_until_ms) == ({}, {})
