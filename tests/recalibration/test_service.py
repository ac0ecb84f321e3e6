"""What is asked of recalibration, from order to rollback."""

from dataclasses import asdict
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.errors import Conflict, InputError, UnknownRecalibration, UnknownSeries
from monitor.recalibration.plan import RefitPlan
from monitor.recalibration.service import Recalibrations
from monitor.recalibration.serving import ServingMaps
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Champion, JobState
from tests.store.refits import run

NOW_MS = 1_790_000_000_000
DAY_MS = 86_400_000


def version_of(model: str, version: str | None) -> str:
    if model != "churn" or version not in {None, "7", "8"}:
        raise UnknownSeries(f"no {model!r} {version!r}")
    return version or "8"


class Asked:
    def __init__(self, refits: RecalibrationStore, **told: Any) -> None:
        self.woken = 0
        self.clock = ManualClock(NOW_MS)
        self.lifecycle = Recalibrations(
            refits,
            versions=version_of,
            plan=lambda _: RefitPlan(**told),
            serving=ServingMaps(refits, clock=self.clock),
            live=lambda *_: None,
            wake=self._wake,
            clock=self.clock,
        )

    def _wake(self) -> None:
        self.woken += 1


@pytest.fixture
def asked(refits: RecalibrationStore) -> Asked:
    return Asked(refits)


def test_it_is_what_the_api_asks_for(asked: Asked) -> None:
    known: Recalibrations = asked.lifecycle
    assert known.store.jobs(None, before=None, limit=10) == []


def test_an_order_is_completed_by_the_settings(refits: RecalibrationStore) -> None:
    plan = {"method": "lore", "options": {"gamma": 0.3, "shrinkage": 7.0}, "window": 5, "promotion": "automatic"}
    lifecycle = Asked(refits, **plan).lifecycle
    order = lifecycle.make_request("churn")
    assert (order.version, order.method, order.window_ms, order.promote) == ("8", "lore", 5_000, True)
    assert (order.options["gamma"], order.options["shrinkage"]) == (0.3, 7.0)
    # What is given stands before it, option by option.
    order = lifecycle.make_request("churn", "7", options={"gamma": 0.5}, window_ms=9, promote=False)
    assert (order.version, order.window_ms, order.promote) == ("7", 9, False)
    assert (order.options["gamma"], order.options["shrinkage"]) == (0.5, 7.0)
    # Options are of one method, and do not go with another.
    assert lifecycle.make_request("churn", method="temperature").options == {}
    for wrong, says in (({"method": "betta"}, "did you mean beta"), ({"options": {"gama": 1}}, "lore has no option")):
        with pytest.raises(InputError, match=says):
            lifecycle.make_request("churn", **wrong)
    for model, version in (("fraud", None), ("churn", "9")):
        with pytest.raises(UnknownSeries):
            lifecycle.make_request(model, version)


def test_a_request_is_queued_and_wakes_a_worker(asked: Asked) -> None:
    order = asked.lifecycle.make_request("churn")
    job, made = asked.lifecycle.request(order, actor="ada")
    assert made
    assert {**asdict(job), **asdict(order)} == asdict(job)
    assert (job.state, job.requested_ms, job.actor) == (JobState.QUEUED, NOW_MS, "ada")
    assert job.id.startswith("rc_")
    assert asked.woken == 1
    with pytest.raises(Conflict, match=f"the refit {job.id} of model 'churn' is under way"):
        asked.lifecycle.request(order, actor="ada")
    assert asked.woken == 1


def test_a_request_that_is_repeated_is_one_and_another_under_its_key_is_refused(asked: Asked) -> None:
    order = asked.lifecycle.make_request("churn")
    job, _ = asked.lifecycle.request(order, actor="ada", idempotency_key="k")
    assert asked.lifecycle.request(order, actor="bob", idempotency_key="k") == (job, False)
    with pytest.raises(Conflict, match="used for another request"):
        asked.lifecycle.request(asked.lifecycle.make_request("churn", "7"), actor="ada", idempotency_key="k")
    # A client cannot use up the occasions of schedules.
    with pytest.raises(Conflict, match="is under way"):
        asked.lifecycle.request_once(asked.lifecycle.make_request("churn", trigger="schedule"), actor="s", occasion="k")


def test_a_request_is_known_by_what_was_asked_and_not_by_what_the_settings_made_of_it(asked: Asked) -> None:
    job, _ = asked.lifecycle.request(
        asked.lifecycle.make_request("churn", "7"), actor="ada", idempotency_key="k", body={}
    )
    # A newer version has come meanwhile, and the settings have changed.
    later = asked.lifecycle.make_request("churn", "8", promote=True)
    assert asked.lifecycle.request(later, actor="ada", idempotency_key="k", body={}) == (job, False)
    with pytest.raises(Conflict, match="used for another request"):
        asked.lifecycle.request(later, actor="ada", idempotency_key="k", body={"promote": True})


def test_an_occasion_makes_one_refit_whatever_is_ordered(asked: Asked, refits: RecalibrationStore) -> None:
    first = asked.lifecycle.make_request("churn", "7", trigger="schedule")
    job, made = asked.lifecycle.request_once(first, actor="schedule", occasion="1")
    assert made
    second = asked.lifecycle.make_request("churn", "8", trigger="schedule")
    assert asked.lifecycle.request_once(second, actor="schedule", occasion="1") == (job, False)
    assert len(refits.jobs()) == 1


def test_promotion_and_rollback_are_seen_at_once_and_refusals_are_audited(
    asked: Asked, refits: RecalibrationStore
) -> None:
    run(refits, 1)
    run(refits, 2)
    lifecycle = asked.lifecycle
    assert lifecycle.serving.champion("churn", "7") == Champion("churn", "7", None, 0, 0)
    assert lifecycle.promote("rc_1", actor="ada", note="good") == Champion("churn", "7", "rc_1", NOW_MS, 1)
    assert lifecycle.serving.champion("churn", "7").map_id == "rc_1"
    with pytest.raises(Conflict, match="rc_2 was compared with no map"):
        lifecycle.promote("rc_2", actor="bob", note="better")
    with pytest.raises(UnknownRecalibration):
        lifecycle.promote("rc_3", actor="bob", note="")
    assert lifecycle.roll_back("churn", "7", actor="ada", note="bad").map_id is None
    assert lifecycle.serving.champion("churn", "7").map_id is None
    with pytest.raises(Conflict, match="nothing to roll back"):
        lifecycle.roll_back("churn", "7", actor="bob", note="worse")
    last = lifecycle.store.audit(after=0, limit=100, model="churn")[-4:]
    assert [(each.action, each.actor, each.subject, each.detail["note"]) for each in last] == [
        ("promoted", "ada", "rc_1", "good"),
        ("refused", "bob", "rc_2", "better"),
        ("rolled_back", "ada", "rc_1", "bad"),
        ("refused", "bob", "", "worse"),
    ]
    assert "rc_2 was compared with no map" in last[1].detail["reason"]


def test_schedules_tell_when_the_next_refit_is_due(refits: RecalibrationStore) -> None:
    asked = Asked(refits, schedule="0 3 * * *", promotion="automatic")
    next_ms = asked.lifecycle.next_scheduled_ms("churn")
    assert next_ms is not None
    assert next_ms % DAY_MS == 3 * 3_600_000
    assert 0 < next_ms - NOW_MS <= DAY_MS
    assert Asked(refits).lifecycle.next_scheduled_ms("churn") is None


def test_there_is_no_live_document_unless_somebody_makes_one(asked: Asked) -> None:
    assert asked.lifecycle.live("churn", "7") is None
