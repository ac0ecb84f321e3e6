"""How all models stand, on both databases."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Champion, JobState, Overview, PromotableMap, Tally
from monitor.store.sql import SqlStore
from tests.store.refits import LEASE_MS, queued, recalibrations, run


@pytest.fixture
def refits(store: SqlStore) -> RecalibrationStore:
    return recalibrations(store)


def test_of_nothing_there_is_nothing(refits: RecalibrationStore) -> None:
    assert refits.overview() == Overview([], [], [])


def test_a_candidate_is_one_whose_baseline_serves_and_the_newest_of_them(refits: RecalibrationStore) -> None:
    run(refits, 1)
    run(refits, 2)
    run(refits, 3, state=JobState.REJECTED)
    run(refits, 4, version="8")
    run(refits, 5, model="fr\0ud")
    newest = [
        PromotableMap("churn", "7", "rc_2"),
        PromotableMap("churn", "8", "rc_4"),
        PromotableMap("fr\0ud", "7", "rc_5"),
    ]
    assert refits.overview().candidates == newest
    refits.promote("rc_1", actor="ada", now_ms=10, note="")
    # It was compared with no map, and a map serves now.
    assert refits.overview().candidates == newest[1:]
    run(refits, 11, baseline="rc_1")
    assert PromotableMap("churn", "7", "rc_11") in refits.overview().candidates
    refits.roll_back("churn", "7", actor="ada", now_ms=12, note="")
    overview = refits.overview()
    assert overview.candidates == newest
    assert overview.champions == refits.champions() == [Champion("churn", "7", None, 12, 2)]


def test_a_candidate_has_a_map_that_is_kept(store: SqlStore) -> None:
    refits = recalibrations(store, keep=1)
    run(refits, 1)
    run(refits, 2, version="8")
    assert refits.overview().candidates == [PromotableMap("churn", "8", "rc_2")]


def test_tallies_count_each_state_and_know_the_last(refits: RecalibrationStore) -> None:
    for number in (1, 2, 3):
        run(refits, number, state=JobState.REJECTED)
    run(refits, 4)
    refits.add_job(queued(5))
    third, fourth = refits.job("rc_3"), refits.job("rc_4")
    assert refits.overview().tallies == [
        Tally("churn", JobState.CANDIDATE, 1, fourth.finished_ms, fourth.started_ms),
        Tally("churn", JobState.QUEUED, 1, None, None),
        Tally("churn", JobState.REJECTED, 3, third.finished_ms, third.started_ms),
    ]
    claimed = refits.claim_job("w", lease_ms=LEASE_MS)
    assert claimed is not None
    running = next(each for each in refits.overview().tallies if each.state is JobState.RUNNING)
    assert running == Tally("churn", JobState.RUNNING, 1, None, None)
    refits.finish_job(replace(claimed, state=JobState.FAILED), "w", None, {}, promote=False)
    fifth = refits.job("rc_5")
    assert Tally("churn", JobState.FAILED, 1, fifth.finished_ms, fifth.started_ms) in refits.overview().tallies


def test_refits_that_finished_at_once_are_one_row(refits: RecalibrationStore, store: SqlStore) -> None:
    for number in (1, 2):
        run(refits, number, state=JobState.REJECTED)
    with store.database.writing() as connection:
        connection.execute(sa.text("UPDATE refits SET finished_ms = 7, started_ms = 2"))
    assert refits.overview().tallies == [Tally("churn", JobState.REJECTED, 2, 7, 2)]
