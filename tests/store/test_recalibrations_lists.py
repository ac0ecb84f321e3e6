"""Lists of refits: they hold no comparisons where nobody asks for them, and tell which may be promoted."""

import itertools
import random
from dataclasses import replace

import pytest
import sqlalchemy as sa

from monitor.errors import Conflict, UnknownRecalibration
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import JobState
from monitor.store.schema import RECALIBRATION_MAPS
from monitor.store.sql import SqlStore
from tests.long import sqlite_first
from tests.store.refits import queued, recalibrations, run


@pytest.fixture
def refits(store: SqlStore) -> RecalibrationStore:
    return recalibrations(store)


def serving(refits: RecalibrationStore, model: str = "churn") -> str | None:
    return next((each.map_id for each in refits.champions() if each.model == model), None)


def has_map(refits: RecalibrationStore, job_id: str) -> bool:
    try:
        refits.artifact(job_id)
    except UnknownRecalibration:
        return False
    return True


def test_a_list_without_comparisons_says_all_the_rest(refits: RecalibrationStore) -> None:
    for number in range(1, 5):
        run(refits, number, model="ab"[number % 2])
    refits.add_job(queued(5))
    whole = refits.jobs()
    assert [job.comparison for job in whole] == [None, *({"fit": {"n": number}} for number in (4, 3, 2, 1))]
    short = refits.jobs(comparisons=False)
    assert [job.comparison for job in short] == [None] * 5
    assert short == [replace(job, comparison=None) for job in whole]


def test_a_list_without_comparisons_comes_in_the_same_pages(refits: RecalibrationStore) -> None:
    for number in range(1, 6):
        run(refits, number, model="ab"[number % 2])
    for models, before, limit in itertools.product((None, "a", ("a", "b")), (None, "rc_4"), (2, 9)):
        whole = refits.jobs(models, before=before, limit=limit)
        short = refits.jobs(models, before=before, limit=limit, comparisons=False)
        assert [job.id for job in short] == [job.id for job in whole]
    with pytest.raises(UnknownRecalibration, match="no refit is called 'rc_9'"):
        refits.jobs(before="rc_9", comparisons=False)


def test_a_list_without_comparisons_does_not_read_them(store: SqlStore, refits: RecalibrationStore) -> None:
    run(refits, 1)
    asked: list[str] = []

    def note(*told: object) -> None:
        asked.append(str(told[2]))

    sa.event.listen(store.database.engine, "before_cursor_execute", note)
    refits.jobs("churn", limit=2, comparisons=False)
    selects = [each for each in asked if "FROM refits" in each]
    assert selects
    assert not any("refits.comparison" in each for each in selects)


def promotable(refits: RecalibrationStore) -> set[str]:
    return {job.id for job in refits.jobs() if job.promotable}


@sqlite_first
def test_what_may_be_promoted_is_what_a_promotion_lets_serve(store: SqlStore, refits: RecalibrationStore) -> None:
    """Whatever was done before: of each refit, one tells beforehand what the other then does."""
    chance = random.Random(7)
    numbers = itertools.count(1)
    done = {True: 0, False: 0}
    for _ in range(60):
        match chance.choice(["refit", "refit", "refit", "roll back", "lose a map"]):
            case "refit":
                model, number = chance.choice(["churn", "fraud"]), next(numbers)
                state = chance.choice([JobState.CANDIDATE, JobState.CANDIDATE, JobState.REJECTED, JobState.FAILED])
                run(refits, number, model=model, state=state, baseline=serving(refits, model))
            case "roll back":
                served = [each for each in refits.champions() if each.map_id is not None]
                if served:
                    refits.roll_back(served[0].model, served[0].version, actor="a", now_ms=1, note="")
            case "lose a map":
                candidates = [job.id for job in refits.jobs() if job.state is JobState.CANDIDATE]
                with store.database.writing() as connection:
                    lost = sa.delete(RECALIBRATION_MAPS).where(RECALIBRATION_MAPS.c.id.in_(candidates[3:4]))
                    connection.execute(lost)
        ids = [job.id for job in refits.jobs()]
        offered = promotable(refits)
        assert {job.id for job in refits.jobs() if job.has_map} == {each for each in ids if has_map(refits, each)}
        if not ids:
            continue
        one = chance.choice(sorted(offered) if offered and chance.random() < 0.3 else ids)
        try:
            refits.promote(one, actor="a", now_ms=1, note="")
        except Conflict:
            assert one not in offered
        else:
            assert one in offered
            # Others of the version were compared with what it took the place of.
            assert one not in promotable(refits)
        done[one in offered] += 1
    assert min(done.values()) > 5
