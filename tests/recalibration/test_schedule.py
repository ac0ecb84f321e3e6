"""Refits by the clock and by verdict: each once, and none too many."""

import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.errors import SettingsError, StoreUnavailable, UnknownSeries
from monitor.recalibration.plan import RefitPlan, check_schedule, last_slot_ms, next_slot_ms
from monitor.recalibration.schedule import Scheduler, ShapeVerdict
from monitor.recalibration.service import Recalibrations
from monitor.recalibration.serving import ServingMaps
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Job, JobState
from tests.patience import joined
from tests.recalibration.comparisons import comparison
from tests.store.refits import LEASE_MS, stored_map

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOON_MS = 20_000 * DAY_MS + 12 * HOUR_MS
COOL_DOWN_MS = 6 * HOUR_MS


class Replica:
    """A scheduler on a store that other replicas use too."""

    def __init__(self, refits: RecalibrationStore, **plan: Any) -> None:
        self.refits = refits
        self.clock = ManualClock(NOON_MS)
        self.models = ["churn"]
        self.finding: ShapeVerdict | None = None
        self.versions = {"churn": "7", "fraud": "7"}
        self.plan = RefitPlan(**plan)
        self.lifecycle = Recalibrations(
            refits,
            versions=self._version_of,
            plan=lambda _: self.plan,
            serving=ServingMaps(refits, clock=self.clock),
            live=lambda *_: None,
            wake=lambda: None,
            clock=self.clock,
        )
        self.scheduler = Scheduler(
            self.lifecycle,
            models=lambda: self.models,
            finding=lambda _: self.finding,
            cool_down_ms=COOL_DOWN_MS,
            clock=self.clock,
        )

    def _version_of(self, model: str, version: str | None) -> str:
        if model not in self.versions:
            raise UnknownSeries(f"no model {model!r}")
        return version or self.versions[model]

    def look(self, hours: float = 0.0) -> list[str]:
        """Let time pass and look; which refits by what there are now, the oldest first."""
        self.clock.advance(hours * 3600)
        self.lifecycle.serving.refresh()
        self.scheduler.request_due()
        return [f"{job.trigger} {job.state}" for job in reversed(self.refits.jobs())]


def end(
    refits: RecalibrationStore, state: JobState = JobState.REJECTED, *, until_ms: int | None = None, **told: Any
) -> Job:
    job = refits.claim_job("w", lease_ms=LEASE_MS)
    assert job is not None
    values: dict[str, Any] = {"state": state, "comparison": comparison(until_ms=until_ms or NOON_MS), **told}
    ended = replace(job, **values)
    artifact = None if state is JobState.FAILED else stored_map(job.id)
    return refits.finish_job(ended, "w", artifact, {}, promote=job.promote)


def test_a_slot_is_dealt_with_once_when_its_time_comes(refits: RecalibrationStore) -> None:
    replica = Replica(refits, schedule="0 15 * * *")
    assert replica.look() == []  # Slots before the first start are nobody's.
    assert replica.look(2.99) == []
    assert replica.look(0.02) == ["schedule queued"]
    assert replica.look(1) == ["schedule queued"]
    end(refits)
    assert replica.look(1) == ["schedule rejected"]
    assert replica.look(24) == ["schedule rejected", "schedule queued"]
    assert refits.jobs()[0].actor == "schedule"


def test_however_many_replicas_there_are_a_slot_makes_one_refit(refits: RecalibrationStore) -> None:
    replicas = [Replica(refits, schedule="0 15 * * *") for _ in range(4)]
    for number, replica in enumerate(replicas):
        # In a roll-out, not all of them agree on the current version.
        replica.versions["churn"] = str(number)
        replica.look()
    gate = threading.Barrier(4)

    def look(replica: Replica) -> None:
        gate.wait()
        replica.look(3.1)

    threads = [threading.Thread(target=look, args=(replica,)) for replica in replicas]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert len(refits.jobs()) == 1
    end(refits)
    for replica in replicas:
        replica.look(0.1)
    assert len(refits.jobs()) == 1


def test_slots_that_passed_while_nothing_ran_are_made_up_for_by_one(refits: RecalibrationStore) -> None:
    Replica(refits, schedule="0 * * * *").look()
    later = Replica(refits, schedule="0 * * * *")
    later.clock.advance(100 * 3600)
    assert later.look() == ["schedule queued"]
    end(refits)
    assert later.look() == ["schedule rejected"]
    assert later.look(1) == ["schedule rejected", "schedule queued"]


def test_a_slot_waits_for_the_refit_that_is_under_way(refits: RecalibrationStore) -> None:
    replica = Replica(refits, schedule="0 15 * * *")
    replica.look()
    lifecycle = replica.scheduler._service
    lifecycle.request(lifecycle.make_request("churn"), actor="ada")
    assert replica.look(4) == ["request queued"]
    end(refits)
    assert replica.look() == ["request rejected", "schedule queued"]


def test_a_slot_waits_for_the_first_event_of_its_model_and_for_the_store(
    refits: RecalibrationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = Replica(refits, schedule="0 15 * * *")
    replica.look()
    replica.versions.clear()
    assert replica.look(4) == []
    replica.versions["churn"] = "7"

    def away(*_: object, **__: object) -> int:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patch:
        patch.setattr(refits, "handled_slot", away)
        assert replica.look() == []
    assert replica.look() == ["schedule queued"]


def test_one_models_trouble_is_not_the_next_ones(refits: RecalibrationStore) -> None:
    replica = Replica(refits, schedule="0 15 * * *")
    replica.models = ["broken", "churn"]
    plans = {"broken": RefitPlan.model_construct(method="none such", schedule="0 15 * * *"), "churn": replica.plan}
    replica.versions["broken"] = "1"
    replica.lifecycle.plan = plans.__getitem__
    replica.look()
    assert replica.look(4) == ["schedule queued"]


def test_another_schedule_begins_anew(refits: RecalibrationStore) -> None:
    Replica(refits, schedule="0 15 * * *").look()
    other = Replica(refits, schedule="0 11 * * *")
    assert other.look(12) == []
    assert other.look(12) == ["schedule queued"]


def verdict(newest_ms: int = NOON_MS, *, version: str = "7", miscalibrated: bool = True) -> ShapeVerdict:
    return ShapeVerdict(version, miscalibrated, newest_ms)


def test_a_verdict_asks_for_one_refit(refits: RecalibrationStore) -> None:
    replica = Replica(refits, on_verdict=True)
    assert replica.look() == []
    replica.finding = verdict(miscalibrated=False)
    assert replica.look() == []
    replica.finding = verdict()
    assert replica.look() == ["verdict queued"]
    assert replica.look(100) == ["verdict queued"]
    assert (refits.jobs()[0].actor, refits.jobs()[0].version) == ("verdict", "7")


def test_without_the_setting_a_verdict_asks_for_nothing(refits: RecalibrationStore) -> None:
    replica = Replica(refits)
    replica.finding = verdict()
    assert replica.look() == []


def test_after_a_refit_a_verdict_waits_for_time_and_for_new_events(refits: RecalibrationStore) -> None:
    replica = Replica(refits, on_verdict=True)
    replica.finding = verdict()
    replica.look()
    end(refits, until_ms=NOON_MS)
    assert replica.look(5.9) == ["verdict rejected"]
    # Time enough, but the events are the same.
    assert replica.look(0.2) == ["verdict rejected"]
    replica.finding = verdict(NOON_MS + COOL_DOWN_MS - 1)
    assert replica.look() == ["verdict rejected"]
    replica.finding = verdict(NOON_MS + COOL_DOWN_MS)
    assert replica.look() == ["verdict rejected", "verdict queued"]


def test_after_a_failure_a_verdict_waits_for_time_alone(refits: RecalibrationStore) -> None:
    replica = Replica(refits, on_verdict=True)
    replica.finding = verdict()
    replica.look()
    end(refits, JobState.FAILED, comparison=None)
    assert replica.look(5.9) == ["verdict failed"]
    assert replica.look(0.2) == ["verdict failed", "verdict queued"]


def test_a_verdict_waits_for_the_word_on_a_candidate(refits: RecalibrationStore) -> None:
    replica = Replica(refits, on_verdict=True)
    replica.finding = verdict()
    replica.look()
    job = end(refits, JobState.CANDIDATE, until_ms=NOON_MS - DAY_MS)
    assert replica.look(1000) == ["verdict candidate"]
    # Another version is another matter.
    replica.finding = verdict(version="8")
    assert replica.look() == ["verdict candidate", "verdict queued"]
    end(refits)
    replica.finding = verdict()
    refits.promote(job.id, actor="ada", now_ms=1, note="")
    assert replica.look(3) == ["verdict champion", "verdict rejected", "verdict queued"]


def test_replicas_that_see_one_verdict_ask_once(refits: RecalibrationStore) -> None:
    replicas = [Replica(refits, on_verdict=True) for _ in range(4)]
    gate = threading.Barrier(4)

    def look(replica: Replica) -> None:
        replica.finding = verdict()
        gate.wait()
        replica.look()

    threads = [threading.Thread(target=look, args=(replica,)) for replica in replicas]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert len(refits.jobs()) == 1


@given(st.integers(0, 2**42), st.sampled_from(["* * * * *", "*/7 3 * * *", "0 0 1 * *", "30 5 * 2 1", "0 0 29 2 *"]))
def test_slots_before_and_after_a_time_are_neighbours(at_ms: int, expression: str) -> None:
    after = next_slot_ms(expression, at_ms)
    assert after > at_ms
    assert last_slot_ms(expression, after) == after
    before = last_slot_ms(expression, after - 1)
    assert before <= at_ms
    assert next_slot_ms(expression, before) == after


@pytest.mark.parametrize("expression", ["", "daily", "@daily", "0 3 * *", "0 0 3 * * *", "60 3 * * *", "0 0 31 2 *"])
def test_what_is_no_schedule_is_refused(expression: str) -> None:
    with pytest.raises(SettingsError, match=r"^must be a cron expression"):
        check_schedule(expression)


@pytest.mark.parametrize("how", ["schedule", "verdict"])
def test_after_a_rollback_nothing_is_promoted_by_itself_until_somebody_does(
    refits: RecalibrationStore, how: str
) -> None:
    by_clock = {"schedule": "0 * * * *"} if how == "schedule" else {"on_verdict": True}
    replica = Replica(refits, promotion="automatic", **by_clock)

    def refit() -> Job:
        replica.clock.advance(COOL_DOWN_MS / 1000)
        replica.finding = ShapeVerdict("7", miscalibrated=True, newest_ms=replica.clock.now_ms() + 100 * COOL_DOWN_MS)
        replica.lifecycle.serving.refresh()
        replica.scheduler.request_due()
        replica.lifecycle.serving.refresh()
        serves = replica.lifecycle.serving.champion("churn", "7").map_id
        return end(refits, JobState.CANDIDATE, baseline=serves)

    replica.look()
    first, second = refit(), refit()
    assert (first.state, second.state) == (JobState.CHAMPION, JobState.CHAMPION)
    replica.lifecycle.roll_back("churn", "7", actor="ada", note="complaints")
    waits = refit()
    assert (waits.state, waits.promote, waits.trigger) == (JobState.CANDIDATE, True, how)
    assert waits.reason is not None
    assert waits.reason.startswith("not promoted: a map of churn 7 was rolled back at 2024-")
    refused = refits.audit(limit=100)[-1]
    assert (refused.action, refused.subject) == ("refused", waits.id)
    assert replica.lifecycle.serving.champion("churn", "7").map_id == first.id
    # A promotion by hand ends the wait, also where a second rollback left no map at all.
    assert replica.lifecycle.roll_back("churn", "7", actor="ada", note="all of them").map_id is None
    other = end_of_request(refits, replica, promote=False)
    assert other.state is JobState.CANDIDATE
    replica.lifecycle.promote(other.id, actor="ada", note="")
    assert refits.job(other.id).state is JobState.CHAMPION
    assert refit().state is JobState.CHAMPION


def end_of_request(refits: RecalibrationStore, replica: Replica, *, promote: bool) -> Job:
    order = replica.lifecycle.make_request("churn", "7", promote=promote)
    replica.lifecycle.request(order, actor="ada")
    serves = replica.lifecycle.serving.champion("churn", "7").map_id
    return end(refits, JobState.CANDIDATE, baseline=serves)


def test_what_somebody_asks_for_after_a_rollback_is_promoted_and_what_was_asked_for_before_waits(
    refits: RecalibrationStore,
) -> None:
    replica = Replica(refits)
    assert end_of_request(refits, replica, promote=True).state is JobState.CHAMPION
    replica.lifecycle.request(replica.lifecycle.make_request("churn", "7", promote=True), actor="bob")
    replica.clock.advance(1)
    replica.lifecycle.roll_back("churn", "7", actor="ada", note="complaints")
    # It was begun after the rollback, so that it was compared with what serves now.
    waits = end(refits, JobState.CANDIDATE)
    assert waits.state is JobState.CANDIDATE
    assert waits.reason is not None
    assert "until somebody promotes one" in waits.reason
    assert end_of_request(refits, replica, promote=True).state is JobState.CHAMPION
    # Of a map that was promoted by hand nothing is told that stood in its way.
    replica.lifecycle.roll_back("churn", "7", actor="ada", note="")
    replica.lifecycle.promote(waits.id, actor="ada", note="")
    assert (refits.job(waits.id).state, refits.job(waits.id).reason) == (JobState.CHAMPION, None)
