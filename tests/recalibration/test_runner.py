"""Refits in processes of their own: whatever happens to them, each comes to a clear end and nothing is left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from structlog.testing import capture_logs

from monitor.clock import Clock, ManualClock, SystemClock
from monitor.errors import StoreUnavailable
from monitor.maps.artifact import from_bytes
from monitor.recalibration.runner import Runner
from monitor.scores.labelled import LabelledEvents
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Job, JobState, Sample
from monitor.store.sql import SqlStore
from tests.patience import PATIENCE_SECONDS, eventually
from tests.recalibration.obedient_worker import obedient_worker
from tests.store.refits import queued

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHILD = "import sys; from tests.recalibration.test_runner import serve; serve(sys.argv[1])"


class Samples:
    """Fifty events of any model; of ``none``, no event."""

    def read_sample(
        self, model: str, version: str, *, from_ms: int = 0, to_ms: int | None = None, limit: int | None = None
    ) -> Sample:
        n = 0 if model == "none" else 50
        p = np.random.default_rng(1).random(n)
        return Sample(LabelledEvents.of(p, (p > 0.5).astype(int), time_ms=np.arange(n)), n, {})


SLEEPS = [sys.executable, str(HERE / "unruly_worker.py"), "sleeps"]


class Running:
    def __init__(self, refits: RecalibrationStore, obedient: Sequence[str]) -> None:
        self.refits = refits
        self._obedient = obedient
        self.promotions = 0
        self.runners: list[Runner] = []

    def __call__(
        self, how: str, *, jobs: int = 1, timeout_seconds: float = 900.0, clock: Clock | None = None
    ) -> Runner:
        runner = Runner(
            self.refits,
            Samples().read_sample,
            command=self.command(how),
            jobs=jobs,
            timeout_seconds=timeout_seconds,
            tolerance=lambda _: 0.05,
            promoted=self._promoted,
            clock=clock or SystemClock(),
        )
        self.runners.append(runner)
        runner.start()
        return runner

    def command(self, how: str) -> Sequence[str]:
        obeys = how in {"passes", "rejected", "spoils", "unreadable"}
        return [*(self._obedient if obeys else SLEEPS[:-1]), how]

    def _promoted(self) -> None:
        self.promotions += 1


@pytest.fixture(scope="module")
def obedient() -> Iterator[Sequence[str]]:
    with obedient_worker() as command:
        yield command


@pytest.fixture
def run(refits: RecalibrationStore, obedient: Sequence[str]) -> Iterator[Running]:
    running = Running(refits, obedient)
    yield running
    for runner in running.runners:
        runner.stop()
    assert all(runner.join(PATIENCE_SECONDS) for runner in running.runners)


def ended(refits: RecalibrationStore, job_id: str = "rc_1") -> Job:
    eventually(lambda: refits.job(job_id).finished_ms is not None, shown=lambda: refits.job(job_id))
    return refits.job(job_id)


def pids(refits: RecalibrationStore, meanwhile: Callable[[], object] = int) -> tuple[int, int, int]:
    """Of a sleeping worker: its own, its child's, and how nice it is. Between two looks, something is done."""

    def look() -> list[str]:
        meanwhile()
        job = refits.job("rc_1")
        assert job.finished_ms is None, job
        return job.step.split()[1:] if job.step.startswith("sleeping ") else []

    own, child, nice = map(int, eventually(look, shown=lambda: refits.job("rc_1")))
    return own, child, nice


def gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_refit_that_passes_is_a_candidate_with_its_map(refits: RecalibrationStore, run: Running) -> None:
    runner = run("passes")
    refits.add_job(queued(1))
    runner.wake()
    job = ended(refits)
    assert (job.state, job.reason, job.baseline, job.figures) == (JobState.CANDIDATE, None, None, ("reliability",))
    assert job.comparison is not None
    assert job.comparison["held_out"]["n"] == 50
    assert job.comparison["guard"] == {"passed": True, "reasons": [], "notes": [], "against": "none"}
    assert from_bytes(refits.artifact("rc_1").artifact).about["id"] == "rc_1"
    assert run.promotions == 0


def test_the_map_that_serves_is_handed_over_and_remembered(refits: RecalibrationStore, run: Running) -> None:
    run("passes")
    refits.add_job(queued(1, promote=True))
    assert ended(refits).state is JobState.CHAMPION
    eventually(lambda: run.promotions == 1)
    refits.add_job(queued(2))
    job = ended(refits, "rc_2")
    assert (job.baseline, job.comparison and job.comparison["guard"]["against"]) == ("rc_1", "champion")
    # Another version has no champion.
    refits.add_job(queued(3, version="8"))
    assert ended(refits, "rc_3").baseline is None


@pytest.mark.parametrize(
    ("how", "state", "reason"),
    [
        ("rejected", JobState.REJECTED, "It is not better. It is worse."),
        ("too few", JobState.FAILED, "9 labelled events, at least 50 are needed"),
        (
            "raises",
            JobState.FAILED,
            "the worker ended with an unexpected error; the service's log has it, with the ref",
        ),
        ("dies", JobState.FAILED, "the worker was lost three times; the last time, it was killed by SIGKILL: the mach"),
        ("leaves nothing", JobState.FAILED, "the worker was lost three times; the last time, it left no result"),
        ("unreadable", JobState.FAILED, "the map that was fitted cannot be read: this is no map"),
        ("spoils", JobState.FAILED, "the worker was lost three times; the last time, it left no result"),
    ],
)
def test_other_ends_say_why(refits: RecalibrationStore, run: Running, how: str, state: JobState, reason: str) -> None:
    refits.add_job(queued(1, promote=True))
    with capture_logs() as logs:
        run(how)
        job = ended(refits)
    assert job.state is state
    assert (job.reason or "").startswith(reason)
    assert job.attempts == (3 if "three times" in reason else 1)
    assert refits.champions() == []
    assert "secret" not in (job.reason or "")
    if how == "raises":
        assert any("the secret of the worker" in entry.get("text", "") for entry in logs)
    # The next one has its turn.
    refits.add_job(queued(2, model="none"))
    nothing = ended(refits, "rc_2")
    assert (nothing.reason or "").startswith("no labelled events of model 'none' version '7' are kept for refits yet")


def test_one_that_takes_too_long_is_killed_with_all_that_it_started(refits: RecalibrationStore, run: Running) -> None:
    # However long it takes to start: its time passes when the clock is turned.
    clock = ManualClock(1_700_000_000_000)
    run("sleeps", timeout_seconds=86_400.0, clock=clock)
    refits.add_job(queued(1))
    # What it says is noted every two seconds.
    own, child, nice = pids(refits, meanwhile=lambda: clock.advance(2.0))
    assert nice >= 10
    assert not gone(own)
    clock.advance(86_400.0)
    job = ended(refits)
    assert job.state is JobState.FAILED
    assert (job.reason or "").startswith("it took longer than 24h: raise recalibration.timeout")
    eventually(lambda: gone(own) and gone(child))


def test_a_service_that_ends_gives_its_refits_back_as_if_they_had_not_begun(
    refits: RecalibrationStore, run: Running
) -> None:
    runner = run("sleeps")
    refits.add_job(queued(1))
    own, child, _ = pids(refits)
    runner.stop()
    assert runner.join(PATIENCE_SECONDS)
    assert refits.job("rc_1") == queued(1)
    eventually(lambda: gone(own) and gone(child))
    run("passes")
    job = ended(refits)
    assert (job.state, job.attempts) == (JobState.CANDIDATE, 1)


def test_no_worker_is_started_once_the_service_ends(
    refits: RecalibrationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_sample(model: str, version: str, **named: Any) -> Sample:
        runner.stop()
        return Samples().read_sample(model, version, **named)

    monkeypatch.delattr("monitor.recalibration.runner.WorkerProcess")
    runner = Runner(refits, read_sample, tolerance=lambda _: 0.05, promoted=lambda: None, clock=SystemClock())
    refits.add_job(queued(1))
    runner.start()
    assert runner.join(PATIENCE_SECONDS)
    assert refits.job("rc_1") == queued(1)


def test_a_worker_that_somebody_kills_is_begun_again(
    refits: RecalibrationStore, run: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_group = os.killpg

    def kill_unreaped_group(group: int, number: int) -> None:
        # Once its leader is reaped, the group may be one that another process has made since.
        assert psutil.pid_exists(group)
        kill_group(group, number)

    monkeypatch.setattr(os, "killpg", kill_unreaped_group)
    run("sleeps")
    refits.add_job(queued(1))
    own, child, _ = pids(refits)
    run.runners[0]._command = run.command("passes")
    os.kill(own, signal.SIGKILL)
    job = ended(refits)
    assert (job.state, job.attempts) == (JobState.CANDIDATE, 2)
    eventually(lambda: gone(child))


def test_refits_of_several_models_run_at_one_time_if_they_may(refits: RecalibrationStore, run: Running) -> None:
    run("sleeps", jobs=2)
    refits.add_job(queued(1))
    refits.add_job(queued(2, model="fraud"))
    refits.add_job(queued(3, model="spam"))
    eventually(
        lambda: all(refits.job(f"rc_{number}").step.startswith("sleeping") for number in (1, 2)),
        shown=lambda: [refits.job(f"rc_{number}") for number in (1, 2)],
    )
    assert refits.job("rc_3").state is JobState.QUEUED


def test_one_that_became_another_workers_is_left(tmp_path: Path, refits: RecalibrationStore, run: Running) -> None:
    run("sleeps")
    refits.add_job(queued(1))
    own, _, _ = pids(refits)
    # As if this one had been away for long.
    with SqlStore.open(f"sqlite:///{tmp_path}/monitor.db", clock=ManualClock(2**50)) as later:
        other = RecalibrationStore(later.database).claim_job("other", lease_ms=60_000)
    assert other is not None
    eventually(lambda: gone(own))
    assert refits.job("rc_1") == other


def test_a_replica_whose_clock_is_ahead_steals_no_running_refit(refits: RecalibrationStore, run: Running) -> None:
    refits.add_job(queued(1))
    running = refits.claim_job("other", lease_ms=60_000)
    refits.add_job(queued(2, model="fraud"))
    run("passes", clock=ManualClock(2**50))
    second = ended(refits, "rc_2")
    assert refits.job("rc_1") == running
    assert second.started_ms is not None
    assert second.started_ms <= (second.finished_ms or 0) < 2**50


def test_an_end_waits_for_a_store_that_does_not_answer(
    refits: RecalibrationStore, run: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([StoreUnavailable("away"), StoreUnavailable("away")])
    finish = refits.finish_job

    def away(*arguments: object, **named: object) -> Job:
        error = next(answers, None)
        if error is not None:
            raise error
        return finish(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(refits, "finish_job", away)
    run("passes")
    refits.add_job(queued(1))
    assert (ended(refits).state, refits.job("rc_1").attempts) == (JobState.CANDIDATE, 1)


def test_a_champion_that_is_damaged_fails_the_refit_and_says_so(
    sql_store: SqlStore, refits: RecalibrationStore, run: Running
) -> None:
    run("passes")
    refits.add_job(queued(1, promote=True))
    ended(refits)
    with sql_store.database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM recalibration_maps")
        connection.exec_driver_sql("INSERT INTO recalibration_maps VALUES ('rc_1', X'00', 'x')")
    refits.add_job(queued(2))
    job = ended(refits, "rc_2")
    assert (job.state, job.reason) == (
        JobState.FAILED,
        "the map rc_1 is damaged in the store: its bytes do not have the hash they had",
    )


def serve(url: str) -> None:
    """The service, as a process that can be killed: it runs whatever is queued."""
    with SqlStore.open(url, clock=SystemClock()) as store:
        runner = Runner(
            RecalibrationStore(store.database),
            Samples().read_sample,
            tolerance=lambda _: 0.05,
            promoted=lambda: None,
            command=SLEEPS,
            clock=SystemClock(),
        )
        runner.start()
        runner.join(3600.0)


def killed_while_sleeping(refits: RecalibrationStore, tmp_path: Path) -> int:
    """A service that is killed while it runs rc_1; the process id that its worker had."""
    url = f"sqlite:///{tmp_path}/monitor.db"
    service = subprocess.Popen([sys.executable, "-c", CHILD, url], cwd=ROOT)

    def lives() -> None:
        assert service.poll() is None, f"the service ended by itself, with status {service.returncode}"

    try:
        own, child, _ = pids(refits, meanwhile=lives)
    finally:
        service.kill()
        service.wait()
    eventually(lambda: gone(own))
    # A grandchild that nobody tied to the service stays: the real worker starts none.
    os.kill(child, signal.SIGKILL)
    return own


def test_a_killed_service_takes_its_workers_along_and_its_refits_are_begun_again(
    refits: RecalibrationStore, run: Running, tmp_path: Path
) -> None:
    refits.add_job(queued(1))
    own = killed_while_sleeping(refits, tmp_path)
    assert refits.job("rc_1").state is JobState.RUNNING
    # Once its lease has expired, here by the clock of the next service, it starts again.
    run("passes", clock=ManualClock(SystemClock().now_ms() + 60_000))
    job = ended(refits)
    assert (job.state, job.attempts) == (JobState.CANDIDATE, 2)
    assert gone(own)
