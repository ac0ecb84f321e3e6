"""Refits, maps and what serves: every rule, on both databases."""

import threading
from dataclasses import asdict, replace
from typing import Any

import pytest
import sqlalchemy as sa

from monitor.clock import ManualClock, SystemClock
from monitor.errors import Conflict, CorruptMap, StoreError, StoreUnavailable, UnknownRecalibration
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import AuditEntry, Champion, Job, JobState, RefitRequest
from monitor.store.sql import SqlStore
from tests.real.postgres import PostgresServer
from tests.store.refits import LEASE_MS, queued, recalibrations, run, stored_map, told
from tests.store.test_postgres import Line


@pytest.fixture
def refits(store: SqlStore) -> RecalibrationStore:
    return recalibrations(store)


def claim(refits: RecalibrationStore, owner: str = "w", lease_ms: int = LEASE_MS) -> Job:
    job = refits.claim_job(owner, lease_ms=lease_ms)
    assert job is not None
    return job


def test_a_job_comes_back_as_it_was_added(refits: RecalibrationStore) -> None:
    options = {"gamma": 0.2, "segment": 'r\0"\\', "flag": True, "none": None}
    request = RefitRequest("churn \0", "\\7", "lore", options, window_ms=5, promote=True, trigger="schedule")
    job = Job(**asdict(request), id="rc_1", state=JobState.QUEUED, requested_ms=17, actor="ada \0")
    assert refits.add_job(job, idempotency_key="k\0", fingerprint="f\0") == (job, True)
    assert refits.job("rc_1") == job
    assert refits.jobs() == [job]
    assert refits.jobs("churn") == []
    with pytest.raises(UnknownRecalibration, match="no refit is called 'rc_2'"):
        refits.job("rc_2")


def test_one_refit_of_a_model_is_under_way_at_a_time(refits: RecalibrationStore) -> None:
    refits.add_job(queued(1))
    refits.add_job(queued(2, model="fraud"))
    with pytest.raises(Conflict, match="the refit rc_1 of model 'churn' is under way"):
        refits.add_job(queued(3, version="8"))
    assert claim(refits).id == "rc_1"
    with pytest.raises(Conflict, match="rc_1"):
        refits.add_job(queued(3))
    refits.finish_job(replace(refits.job("rc_1"), state=JobState.FAILED, reason="x"), "w", None, {}, promote=False)
    refits.add_job(queued(3))
    assert [job.id for job in refits.jobs()] == ["rc_3", "rc_2", "rc_1"]


def test_the_database_itself_refuses_a_second_refit_under_way(store: SqlStore, refits: RecalibrationStore) -> None:
    refits.add_job(queued(1))
    with pytest.raises(StoreError, match=r"refits_under_way|refits\.model"), store.database.writing() as connection:
        connection.exec_driver_sql(
            "INSERT INTO refits (id, model, version, method, options, promote, triggered_by, state, requested_ms,"
            " actor, progress, step, attempts, figures, fingerprint)"
            " SELECT 'rc_9', model, version, method, options, promote, triggered_by, 'running', requested_ms,"
            " actor, progress, step, attempts, figures, fingerprint FROM refits"
        )


def test_a_key_makes_one_job_however_often_it_is_sent(refits: RecalibrationStore) -> None:
    first, made = refits.add_job(queued(1), idempotency_key="k", fingerprint="a")
    assert made
    assert refits.add_job(queued(2), idempotency_key="k", fingerprint="a") == (first, False)
    with pytest.raises(Conflict, match="used for another request, which made the refit rc_1"):
        refits.add_job(queued(2), idempotency_key="k", fingerprint="b")
    assert len(refits.jobs()) == 1
    assert told(refits) == [("requested", "rc_1")]


def test_of_many_that_ask_at_once_one_gets_it(refits: RecalibrationStore) -> None:
    answers: list[Any] = []
    gate = threading.Barrier(8)

    def ask(number: int) -> None:
        gate.wait()
        try:
            answers.append(refits.add_job(queued(number), idempotency_key=f"k{number % 2}"))
        except Conflict as refused:
            answers.append(refused)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (job,) = refits.jobs()
    made = [answer for answer in answers if not isinstance(answer, Conflict)]
    assert len(answers) == 8
    assert len(made) == 4  # those with the key of the one that was made
    assert [each for each, _ in made] == [job] * 4
    assert sorted(new for _, new in made) == [False, False, False, True]


def test_of_many_workers_one_claims(refits: RecalibrationStore) -> None:
    refits.add_job(queued(1))
    refits.add_job(queued(2, model="fraud"))
    claimed: list[Job | None] = []
    gate = threading.Barrier(6)

    def work(name: str) -> None:
        gate.wait()
        claimed.append(refits.claim_job(name, lease_ms=LEASE_MS))

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(job.id for job in claimed if job) == ["rc_1", "rc_2"]
    assert sum(job is None for job in claimed) == 4


def test_the_oldest_goes_first_and_a_lease_is_kept(refits: RecalibrationStore) -> None:
    for number, model in enumerate(("a", "b"), 1):
        refits.add_job(queued(number, model=model))
    job = claim(refits, "w1")
    assert (job.id, job.state, job.attempts) == ("rc_1", JobState.RUNNING, 1)
    assert refits.job("rc_1") == job
    assert claim(refits, "w2").id == "rc_2"
    assert refits.claim_job("w3", lease_ms=LEASE_MS) is None
    assert refits.keep_job("rc_1", "w1", lease_ms=LEASE_MS, progress=0.5, step="comparing")
    assert (refits.job("rc_1").progress, refits.job("rc_1").step) == (0.5, "comparing")
    assert not refits.keep_job("rc_1", "w2", lease_ms=LEASE_MS, progress=0.9, step="")
    # The other one's lease ends, this one's does not.
    assert refits.keep_job("rc_2", "w2", lease_ms=-1, progress=0.9, step="")
    lapsed = claim(refits, "w3")
    assert (lapsed.id, lapsed.attempts, lapsed.progress) == ("rc_2", 2, 0.0)
    assert not refits.keep_job("rc_2", "w2", lease_ms=LEASE_MS, progress=0.9, step="")
    with pytest.raises(Conflict, match="rc_2 belongs to another worker now"):
        refits.finish_job(replace(lapsed, state=JobState.FAILED), "w2", None, {}, promote=False)


def test_a_worker_that_is_lost_three_times_ends_the_job(refits: RecalibrationStore) -> None:
    refits.add_job(queued(1))
    for attempt in (1, 2, 3):
        assert claim(refits, f"w{attempt}", lease_ms=-1).attempts == attempt
    assert refits.claim_job("w4", lease_ms=LEASE_MS) is None
    job = refits.job("rc_1")
    assert job.state is JobState.FAILED
    assert job.reason == "the worker was lost three times; the last time, it did not report any more"
    refits.add_job(queued(2))


def test_a_release_counts_only_where_the_worker_was_lost(refits: RecalibrationStore) -> None:
    refits.add_job(queued(1))
    for _ in range(5):
        assert claim(refits).attempts == 1
        refits.release_job("rc_1", "w")
        assert refits.job("rc_1") == queued(1)
    for attempt in (1, 2, 3):
        assert claim(refits).attempts == attempt
        refits.release_job("rc_1", "someone else", lost="x")
        assert refits.job("rc_1").state is JobState.RUNNING
        refits.release_job("rc_1", "w", lost="it was killed by signal 9")
    job = refits.job("rc_1")
    assert job.state is JobState.FAILED
    assert job.reason == "the worker was lost three times; the last time, it was killed by signal 9"
    refits.release_job("rc_1", "w")
    assert refits.job("rc_1") == job


@pytest.mark.parametrize("state", [JobState.REJECTED, JobState.CANDIDATE])
def test_an_end_holds_map_figures_and_comparison(refits: RecalibrationStore, state: JobState) -> None:
    job = run(refits, 1, state=state)
    assert job == refits.job("rc_1")
    assert (job.state, job.progress, job.figures) == (state, 1.0, ("reliability", "segments"))
    assert job.comparison == {"fit": {"n": 1}}
    assert refits.artifact("rc_1") == stored_map("rc_1", b"map 1")
    assert refits.figure("rc_1", "reliability") == b"<svg>1</svg>"
    with pytest.raises(UnknownRecalibration, match="has no figure 'x'; it has reliability, segments"):
        refits.figure("rc_1", "x")
    assert refits.champions() == []
    assert told(refits) == [("requested", "rc_1"), ("started", "rc_1"), ("finished", "rc_1")]


def test_a_failed_refit_has_a_reason_and_no_map(refits: RecalibrationStore) -> None:
    assert run(refits, 1, state=JobState.FAILED).reason == "because"
    with pytest.raises(UnknownRecalibration, match=r"the refit rc_1 has no map$"):
        refits.artifact("rc_1")
    with pytest.raises(UnknownRecalibration, match="no refit is called 'rc_2'"):
        refits.artifact("rc_2")
    with pytest.raises(UnknownRecalibration, match="it has none"):
        refits.figure("rc_1", "reliability")


def test_an_end_that_is_told_twice_is_one(refits: RecalibrationStore) -> None:
    refits.add_job(queued(1))
    ended = replace(claim(refits), state=JobState.CANDIDATE)
    first = refits.finish_job(ended, "w", stored_map("rc_1"), {"a": b"x"}, promote=True)
    assert refits.finish_job(ended, "w", stored_map("rc_1"), {"a": b"x"}, promote=True) == first
    assert [champion.revision for champion in refits.champions()] == [1]
    with pytest.raises(Conflict, match="another worker now"):
        refits.finish_job(ended, "v", stored_map("rc_1"), {"a": b"x"}, promote=True)


def test_ends_that_make_no_sense_are_refused(refits: RecalibrationStore) -> None:
    refits.add_job(queued(1))
    job = claim(refits)
    wrong = [(JobState.CANDIDATE, None), (JobState.FAILED, stored_map("rc_1")), (JobState.CHAMPION, stored_map("rc_1"))]
    for state, artifact in wrong:
        with pytest.raises(ValueError, match="a refit ends"):
            refits.finish_job(replace(job, state=state), "w", artifact, {}, promote=False)
    assert refits.job("rc_1") == job


def test_promotion_and_rollback_walk_there_and_back(refits: RecalibrationStore) -> None:
    run(refits, 1)
    assert refits.promote("rc_1", actor="ada", now_ms=10, note="looks good") == Champion("churn", "7", "rc_1", 10, 1)
    run(refits, 2, baseline="rc_1")
    assert refits.promote("rc_2", actor="ada", now_ms=20, note="") == Champion("churn", "7", "rc_2", 20, 2)
    assert [job.state for job in refits.jobs()] == [JobState.CHAMPION, JobState.RETIRED]
    assert refits.roll_back("churn", "7", actor="bob", now_ms=30, note="") == Champion("churn", "7", "rc_1", 30, 3)
    assert [job.state for job in refits.jobs()] == [JobState.ROLLED_BACK, JobState.CHAMPION]
    # What was taken back does not come back: the next one goes on to none.
    run(refits, 3, baseline="rc_1", promote=True, at_ms=31)
    assert [refits.roll_back("churn", "7", actor="bob", now_ms=40 + i, note="").map_id for i in range(2)] == [
        "rc_1",
        None,
    ]
    assert refits.champions() == [Champion("churn", "7", None, 41, 6)]
    assert [job.state for job in refits.jobs()] == [JobState.ROLLED_BACK] * 3
    with pytest.raises(Conflict, match="no map serves model 'churn' version '7'"):
        refits.roll_back("churn", "7", actor="bob", now_ms=50, note="")
    with pytest.raises(Conflict, match="no map serves model 'fraud'"):
        refits.roll_back("fraud", "7", actor="bob", now_ms=50, note="")
    promoted = [entry for entry in refits.audit() if entry.action in {"promoted", "rolled_back"}]
    assert [(each.actor, each.subject, each.at_ms) for each in promoted] == [
        ("ada", "rc_1", 10),
        ("ada", "rc_2", 20),
        ("bob", "rc_2", 30),
        ("ada", "rc_3", refits.job("rc_3").finished_ms),
        ("bob", "rc_3", 40),
        ("bob", "rc_1", 41),
    ]
    assert promoted[0].detail == {"note": "looks good", "replaced": None, "revision": 1}


def test_only_candidates_are_promoted_and_only_while_their_baseline_serves(refits: RecalibrationStore) -> None:
    run(refits, 1)
    run(refits, 2)
    run(refits, 3, state=JobState.REJECTED)
    run(refits, 4, state=JobState.FAILED)
    refits.add_job(queued(5))
    refits.promote("rc_1", actor="a", now_ms=1, note="")
    for job_id, says in {
        "rc_1": "is no candidate: its map serves already",
        "rc_2": "rc_2 was compared with no map, and the map rc_1 serves now: refit",
        "rc_3": "is no candidate: it was rejected",
        "rc_4": "is no candidate: it failed",
        "rc_5": "is no candidate: it is waiting",
        "rc_6": "no refit is called 'rc_6'",
    }.items():
        with pytest.raises((Conflict, UnknownRecalibration), match=says):
            refits.promote(job_id, actor="a", now_ms=2, note="")
    assert [champion.map_id for champion in refits.champions()] == ["rc_1"]
    refits.roll_back("churn", "7", actor="a", now_ms=3, note="")
    # What it was compared with serves again.
    assert refits.promote("rc_2", actor="a", now_ms=4, note="").map_id == "rc_2"


def test_versions_have_champions_of_their_own(refits: RecalibrationStore) -> None:
    run(refits, 1, promote=True)
    run(refits, 2, version="8", promote=True)
    run(refits, 3, model="a", promote=True)
    assert [(each.model, each.version, each.map_id, each.revision) for each in refits.champions()] == [
        ("a", "7", "rc_3", 1),
        ("churn", "7", "rc_1", 1),
        ("churn", "8", "rc_2", 1),
    ]


def test_an_automatic_promotion_whose_baseline_went_leaves_a_candidate_that_says_so(
    refits: RecalibrationStore,
) -> None:
    run(refits, 1, promote=True)
    job = run(refits, 2, promote=True)  # compared with no map, while rc_1 was promoted
    assert job.state is JobState.CANDIDATE
    assert job.reason == "not promoted: the refit rc_2 was compared with no map, and the map rc_1 serves now: refit"
    assert [champion.map_id for champion in refits.champions()] == ["rc_1"]
    assert told(refits)[-1] == ("refused", "rc_2")


def test_of_candidates_that_are_promoted_at_once_one_serves(refits: RecalibrationStore) -> None:
    for number in range(1, 7):
        run(refits, number)
    gate = threading.Barrier(6)
    refused: list[str] = []

    def promote(number: int) -> None:
        gate.wait()
        try:
            refits.promote(f"rc_{number}", actor="a", now_ms=1, note="")
        except Conflict as error:
            refused.append(str(error))

    threads = [threading.Thread(target=promote, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 5
    (champion,) = refits.champions()
    assert champion.revision == 1
    assert [job.id for job in refits.jobs() if job.state is JobState.CHAMPION] == [champion.map_id]


def test_a_damaged_artifact_is_refused(store: SqlStore, refits: RecalibrationStore) -> None:
    run(refits, 1)
    with store.database.writing() as connection:
        # The trigger keeps out what goes through the service; a disk knows no triggers.
        connection.exec_driver_sql("DELETE FROM recalibration_maps")
        connection.execute(
            sa.text("INSERT INTO recalibration_maps VALUES ('rc_1', :bytes, :sha256)"),
            {"bytes": b"map 2", "sha256": stored_map("rc_1", b"map 1").sha256},
        )
    with pytest.raises(CorruptMap, match="the map rc_1 is damaged in the store"):
        refits.artifact("rc_1")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE recalibration_maps SET sha256 = 'x'",
        "UPDATE audit SET actor = 'nobody'",
        "DELETE FROM audit",
    ],
)
def test_the_database_refuses_to_change_maps_and_audit(
    store: SqlStore, refits: RecalibrationStore, statement: str
) -> None:
    run(refits, 1)
    before = refits.audit()
    with pytest.raises(StoreError, match="are never changed"), store.database.writing() as connection:
        connection.exec_driver_sql(statement)
    assert refits.audit() == before
    assert refits.artifact("rc_1") == stored_map("rc_1", b"map 1")


def test_old_maps_go_but_none_that_serves_or_served_last(store: SqlStore) -> None:
    refits = recalibrations(store, keep=2)

    def kept() -> list[str]:
        found = []
        for job in refits.jobs():
            try:
                found.append(refits.artifact(job.id).id)
            except UnknownRecalibration:
                assert job.figures == ()
        return found

    run(refits, 1, promote=True)
    run(refits, 2, baseline="rc_1", promote=True)
    run(refits, 3, baseline="rc_2", promote=True)
    for number in (4, 5, 6):
        run(refits, number, baseline="rc_3", state=JobState.REJECTED)
    run(refits, 7, model="fraud")
    run(refits, 8, version="8", promote=True)
    assert kept() == ["rc_8", "rc_7", "rc_6", "rc_3", "rc_2"]
    with pytest.raises(UnknownRecalibration, match="the refit rc_1 has no map any more: only the newest"):
        refits.artifact("rc_1")
    with pytest.raises(UnknownRecalibration, match="it has none"):
        refits.figure("rc_1", "reliability")
    assert refits.job("rc_1").comparison == {"fit": {"n": 1}}
    assert refits.roll_back("churn", "7", actor="a", now_ms=1, note="").map_id == "rc_2"
    # The one before it is not kept: predictions are left as they are.
    assert refits.roll_back("churn", "7", actor="a", now_ms=2, note="").map_id is None
    assert refits.audit(limit=1000)[-1].detail["passed_over"] == ["rc_1"]


def test_a_candidate_whose_map_is_not_kept_is_not_promoted(store: SqlStore) -> None:
    refits = recalibrations(store, keep=1)
    run(refits, 1)
    run(refits, 2)
    with pytest.raises(Conflict, match="the map of the refit rc_1 is not kept any more: refit"):
        refits.promote("rc_1", actor="a", now_ms=1, note="")
    with pytest.raises(ValueError, match="keep must be at least 1"):
        recalibrations(store, keep=0)


def test_jobs_and_audit_come_in_pages(refits: RecalibrationStore) -> None:
    for number in range(1, 6):
        run(refits, number, model="ab"[number % 2])
    assert [job.id for job in refits.jobs(limit=2)] == ["rc_5", "rc_4"]
    assert [job.id for job in refits.jobs(before="rc_4", limit=2)] == ["rc_3", "rc_2"]
    assert [job.id for job in refits.jobs("b", before="rc_5")] == ["rc_3", "rc_1"]
    with pytest.raises(UnknownRecalibration):
        refits.jobs(before="rc_9")
    entries = refits.audit()
    assert [entry.number for entry in entries] == sorted({entry.number for entry in entries})
    assert refits.audit(after=entries[3].number, limit=2) == entries[4:6]
    assert [entry.subject for entry in refits.audit(model="a", limit=1)] == ["rc_2"]


def test_what_changed_nothing_else_is_audited_too(refits: RecalibrationStore) -> None:
    entry = AuditEntry(77, 5, "ada\0", "refused", "churn", "7", "rc_1", {"why": "\0"})
    refits.add_audit(entry)
    assert refits.audit() == [entry._replace(number=1)]


def test_slots_are_dealt_with_once_and_never_go_back(refits: RecalibrationStore) -> None:
    assert refits.handled_slot("churn", "0 3 * * *", now_ms=100) == 100
    assert refits.handled_slot("churn", "0 3 * * *", now_ms=200) == 100
    refits.note_slot("churn", "0 3 * * *", 150)
    refits.note_slot("churn", "0 3 * * *", 120)
    assert refits.handled_slot("churn", "0 3 * * *", now_ms=200) == 150
    # Another schedule begins anew.
    assert refits.handled_slot("churn", "0 4 * * *", now_ms=200) == 200
    refits.note_slot("churn", "0 3 * * *", 900)
    assert refits.handled_slot("churn", "0 4 * * *", now_ms=300) == 200


@pytest.mark.postgres
def test_leases_and_times_are_by_the_clock_of_the_database(postgres_server: PostgresServer) -> None:
    url, began_ms = postgres_server.url(postgres_server.new_database()), SystemClock().now_ms()
    with SqlStore.open(url, clock=ManualClock(0)) as behind, SqlStore.open(url, clock=ManualClock(2**50)) as ahead:
        owner, other = recalibrations(behind), recalibrations(ahead)
        owner.add_job(queued(1))
        claim(owner)
        assert other.claim_job("x", lease_ms=LEASE_MS) is None
        assert owner.keep_job("rc_1", "w", lease_ms=LEASE_MS, progress=0.5, step="")
        assert other.claim_job("x", lease_ms=LEASE_MS) is None
        owner.release_job("rc_1", "w")
        ended = replace(claim(other, "x"), state=JobState.FAILED, reason="y")
        job = other.finish_job(ended, "x", None, {}, promote=False)
        assert job.started_ms is not None
        assert job.finished_ms is not None
        times = [*(entry.at_ms for entry in owner.audit()[1:]), job.started_ms, job.finished_ms]
        # The server runs on this machine.
        assert all(began_ms - 1_000 <= at_ms <= SystemClock().now_ms() + 1_000 for at_ms in times)


@pytest.mark.postgres
@pytest.mark.parametrize("breaks", ["before", "after"])
def test_an_end_whose_answer_was_lost_may_be_repeated(postgres_server: PostgresServer, breaks: str) -> None:
    database = postgres_server.new_database()
    with (
        Line(postgres_server.port) as line,
        SqlStore.open(postgres_server.url(database, port=line.port), clock=SystemClock()) as store,
    ):
        refits = recalibrations(store)
        refits.add_job(queued(1))
        ended = replace(claim(refits), state=JobState.CANDIDATE)
        line.breaks = breaks
        with pytest.raises(StoreUnavailable, match="does not answer"):
            refits.finish_job(ended, "w", stored_map("rc_1"), {"a": b"x"}, promote=True)
        with SqlStore.open(postgres_server.url(database), clock=SystemClock()) as other:
            # All of it, or nothing.
            took_place = breaks == "after"
            observer = recalibrations(other)
            assert observer.job("rc_1").state is (JobState.CHAMPION if took_place else JobState.RUNNING)
            assert len(observer.champions()) == took_place
        done = refits.finish_job(ended, "w", stored_map("rc_1"), {"a": b"x"}, promote=True)
        assert done.state is JobState.CHAMPION
        assert [champion.revision for champion in refits.champions()] == [1]
        assert told(refits) == [
            ("requested", "rc_1"),
            ("started", "rc_1"),
            ("finished", "rc_1"),
            ("promoted", "rc_1"),
        ]
