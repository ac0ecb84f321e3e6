"""Night after night: a schedule asks, a worker process fits, the guard decides, and what is better serves.

The clock is turned by hand; the store, the runner and the workers are those of the service.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.recalibration.plan import RefitPlan
from monitor.recalibration.runner import Runner
from monitor.recalibration.schedule import Scheduler, ShapeVerdict
from monitor.recalibration.service import Recalibrations
from monitor.recalibration.serving import ServingMaps
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Job, JobState, Sample
from monitor.store.sql import SqlStore
from tests.patience import PATIENCE_SECONDS, eventually
from tests.recalibration.samples import START_MS, sample

HOUR: Final = 3600.0
DAY_MS: Final = 86_400_000
NIGHTLY: Final = "0 3 * * *"


class Events:
    """A sample whose model becomes ever more sure of itself, when it is told to."""

    slope = 1.8

    def read_sample(
        self, model: str, version: str, *, from_ms: int = 0, to_ms: int | None = None, limit: int | None = None
    ) -> Sample:
        events = sample(3000, slope=self.slope, dimensions=None, seed=3)
        return Sample(events, len(events), {})


class Night:
    """A scheduler that looks when it is told to, and a runner that works off what it asks for."""

    def __init__(self, folder: Path, plan: RefitPlan) -> None:
        self.clock = ManualClock(START_MS // DAY_MS * DAY_MS)
        self.store = SqlStore.open(f"sqlite:///{folder}/state.db", clock=SystemClock())
        self.refits = RecalibrationStore(self.store.database)
        self.events = Events()
        serving = ServingMaps(self.refits, clock=self.clock)
        self.runner = Runner(
            self.refits,
            self.events.read_sample,
            tolerance=lambda _: 0.05,
            promoted=serving.note_change,
            clock=self.clock,
        )
        self.lifecycle = Recalibrations(
            self.refits,
            versions=lambda _, version: version or "7",
            plan=lambda _: plan,
            serving=serving,
            live=lambda *_: None,
            wake=self.runner.wake,
            clock=self.clock,
        )
        self.finding: ShapeVerdict | None = None
        self.scheduler = Scheduler(
            self.lifecycle,
            models=lambda: ["churn"],
            finding=lambda _: self.finding,
            cool_down_ms=DAY_MS // 4,
            clock=self.clock,
        )
        self.runner.start()

    def passes(self, hours: float) -> list[Job]:
        """Let hours pass, look, and wait for what was asked for; all refits so far, the oldest first."""
        self.clock.advance(hours * HOUR)
        self.scheduler.request_due()
        eventually(
            lambda: all(job.finished_ms is not None for job in self.refits.jobs("churn")),
            shown=lambda: self.refits.jobs("churn"),
        )
        return list(reversed(self.refits.jobs("churn")))

    def serving(self) -> tuple[str | None, int]:
        """What serves: the runner tells the service of it after it has told the store."""
        serving = self.lifecycle.serving
        stored = {(one.model, one.version): one for one in self.refits.champions()}
        champion = stored.get(("churn", "7"), serving.champion("churn", "7"))
        eventually(lambda: serving.champion("churn", "7") == champion, shown=lambda: champion)
        return champion.map_id, champion.revision

    def close(self) -> None:
        self.runner.stop()
        assert self.runner.join(PATIENCE_SECONDS)
        self.store.close()


@pytest.fixture
def night(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Night]:
    made = Night(tmp_path, request.param)
    yield made
    made.close()


@pytest.mark.parametrize(
    "night",
    [RefitPlan(method="temperature", window=timedelta(days=1), schedule=NIGHTLY, promotion="automatic")],
    indirect=True,
    ids=["by schedule"],
)
def test_each_night_what_is_better_serves_by_itself_and_nothing_else(night: Night) -> None:
    # The schedule is new at midnight: what was due before does not count.
    assert night.passes(0) == []
    (first,) = night.passes(3)
    assert (first.state, first.actor, first.trigger) == (JobState.CHAMPION, "schedule", "schedule")
    assert night.serving() == (first.id, 1)
    assert night.lifecycle.serving.apply("churn", "7", [0.9]).prediction[0] < 0.85
    assert len(night.passes(20.9)) == 1, "the next slot is at three"

    # The same events again: a second map like the first one is no better than it.
    _, second = night.passes(3.1)
    assert (second.state, second.baseline) == (JobState.REJECTED, first.id)
    assert night.serving() == (first.id, 1)

    # The model drifts: what is fitted then takes the place of what served.
    night.events.slope = 5.0
    _, _, third = night.passes(24)
    assert (third.state, third.baseline) == (JobState.CHAMPION, first.id)
    assert night.refits.job(first.id).state is JobState.RETIRED
    assert night.serving() == (third.id, 2)
    actors = {(entry.action, entry.actor) for entry in night.refits.audit() if entry.action == "promoted"}
    assert actors == {("promoted", "schedule")}


@pytest.mark.parametrize(
    "night",
    [RefitPlan(method="temperature", window=timedelta(days=1), on_verdict=True)],
    indirect=True,
    ids=["by verdict"],
)
def test_a_verdict_makes_a_candidate_that_waits_for_a_person(night: Night) -> None:
    assert night.passes(1) == []
    night.finding = ShapeVerdict("7", miscalibrated=True, newest_ms=START_MS)
    (job,) = night.passes(1)
    assert (job.state, job.actor, night.serving()) == (JobState.CANDIDATE, "verdict", (None, 0))
    assert len(night.passes(48)) == 1, "it waits, however long"
    night.lifecycle.promote(job.id, actor="ada", note="")
    assert night.serving() == (job.id, 1)
