"""Run queued refits, each in a worker process, and store how they ended.

- A worker is killed: the refit is queued again; after three lost workers it fails.
- The service stops: workers are ended, and their refits are queued again as if they had not started.
- The service is killed: the kernel ends the workers, and their refits start again when their leases have expired.
- The store does not answer: the worker goes on, and the result is stored as soon as possible.
- A worker takes too long or ends with an error: the refit fails, with a reason that says what to do.
"""

import hashlib
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import structlog

from monitor.clock import Clock
from monitor.durations import format_duration
from monitor.errors import (
    Conflict,
    CorruptMap,
    InputError,
    NotEnoughData,
    StoreUnavailable,
)
from monitor.maps.artifact import from_bytes
from monitor.outage_log import Outage
from monitor.recalibration.data import HELD_OUT
from monitor.recalibration.worker_process import RefitResult, RefitTask, WorkerProcess, describe_signal
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Job, JobState, ReadSample, StoredMap
from monitor.tracing import span

MAX_EVENTS: Final = 100_000
"""Maximum number of events of a refit: fits are quick, and more events would hardly change the map."""

_LEASE_MS: Final = 20_000
_RENEW_SECONDS: Final = 2.0
_QUEUE_POLL_SECONDS: Final = 2.0
_WORKER_POLL_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


WORKER: Final = (sys.executable, "-m", "monitor.recalibration.worker")
"""The command of a worker: the Python of this process."""


_Ended = tuple[Job, RefitResult]
"""A refit with the state that it ends in, and what its worker made."""


class Runner:
    """Threads that run the refits of the queue. Use once: ``start``, ``stop``, ``join``.

    Parameters
    ----------
    store, read_sample
        Refits, and the events that they use.
    jobs
        Number of refits that run at the same time.
    timeout_seconds
        Maximum duration of a refit.
    held_out
        Share of the latest events that the fit never sees.
    tolerance
        Model -> error of the logits up to which its verdict is "calibrated".
    promoted
        Called when a map was promoted.
    command
        Absolute path of the worker program, and its arguments.
    clock
        The clock.
    """

    def __init__(
        self,
        store: RecalibrationStore,
        read_sample: ReadSample,
        *,
        jobs: int = 1,
        timeout_seconds: float = 900.0,
        held_out: float = HELD_OUT,
        tolerance: Callable[[str], float],
        promoted: Callable[[], None],
        command: Sequence[str] = WORKER,
        clock: Clock,
    ) -> None:
        self._store = store
        self._read_sample = read_sample
        self._timeout_seconds = timeout_seconds
        self._held_out = held_out
        self._tolerance = tolerance
        self._promoted = promoted
        self._command = command
        self._clock = clock
        self._stopping = threading.Event()
        self._queued = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name=f"refits {number}", daemon=True) for number in range(jobs)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Look into the queue now. Any thread."""
        self._queued.set()

    def stop(self) -> None:
        """End workers and release their refits, without waiting: see :meth:`join`."""
        self._stopping.set()
        self._queued.set()

    def join(self, seconds: float) -> bool:
        """Wait until all threads have ended; return False if that takes longer."""
        deadline = self._clock.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - self._clock.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        outage = Outage(_log, "refits wait for the store", "refits go on: the store answers", self._clock)
        while not self._stopping.is_set():
            owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
            try:
                job = self._store.claim_job(owner, lease_ms=_LEASE_MS)
                outage.over()
                if job is not None:
                    self._run_job(job, owner)
                    continue
            except StoreUnavailable as error:
                outage.failed(error)
            except Exception:  # noqa: BLE001 - the next refit must run
                _log.exception("a refit could not be finished")
            self._queued.wait(_QUEUE_POLL_SECONDS)
            self._queued.clear()

    def _run_job(self, job: Job, owner: str) -> None:
        started = self._clock.monotonic()
        log = _log.bind(refit=job.id, model=job.model, version=job.version, method=job.method)
        log.info("refit started", attempt=job.attempts)
        try:
            with span("refit", refit=job.id, model=job.model, version=job.version, method=job.method):
                ended = self._attempt(job, owner, log)
        except StoreUnavailable as error:
            log.warning("refit interrupted; it starts again when its lease has expired", detail=str(error))
            return
        except (InputError, NotEnoughData, CorruptMap) as error:
            ended = _failed(job, str(error))
        except Exception:  # another attempt would fail too
            log.exception("refit failed unexpectedly")
            ended = _failed(job, "the service could not run it; its log has the error, with the refit's id")
        if ended is None:
            return
        stored = self._finish(*ended, owner, log)
        if stored is not None:
            seconds = round(self._clock.monotonic() - started, 1)
            log.info("refit ended", state=str(stored.state), reason=stored.reason, seconds=seconds)

    def _attempt(self, job: Job, owner: str, log: structlog.stdlib.BoundLogger) -> _Ended | None:
        """Run a worker once; return None if another attempt follows or another worker owns the refit."""
        champions = {(champion.model, champion.version): champion for champion in self._store.champions()}
        champion = champions.get((job.model, job.version))
        job = replace(job, baseline=None if champion is None else champion.map_id)
        sample = self._read_sample(job.model, job.version, limit=MAX_EVENTS)
        if not len(sample.events):
            raise NotEnoughData(
                f"no labelled events of model {job.model!r} version {job.version!r} are kept for refits yet: they"
                " are kept once their outcome is final, horizon and lateness after the prediction, and only if"
                " recalibration.sample is above 0"
            )
        task = RefitTask(
            job,
            created_ms=self._clock.now_ms(),
            champion=None if job.baseline is None else self._store.artifact(job.baseline).artifact,
            held_out=self._held_out,
            tolerance=self._tolerance(job.model),
        )
        if self._stopping.is_set():
            self._store.release_job(job.id, owner)
            return None
        worker = WorkerProcess(self._command, task, sample)
        # Not kept in memory while the worker runs.
        del sample
        with worker:
            status = self._watch(job, owner, worker, log)
        if status is None:
            if self._stopping.is_set():
                self._store.release_job(job.id, owner)
            return None
        if worker.error_output:
            log.info("error output of the refit's worker", text=worker.error_output)
        if isinstance(status, str):
            return _failed(job, status)
        if status > 0:
            log.error("the refit's worker ended with an error", status=status)
            return _failed(
                job, "the worker ended with an unexpected error; the service's log has it, with the refit's id"
            )
        if status == 0 and worker.latest.result is not None:
            return _end_of(job, worker.latest.result)
        lost = describe_signal(status) if status < 0 else "it left no result"
        log.warning("refit lost its worker", detail=lost)
        self._store.release_job(job.id, owner, lost=lost)
        return None

    def _watch(
        self, job: Job, owner: str, worker: WorkerProcess, log: structlog.stdlib.BoundLogger
    ) -> int | str | None:
        """Return the exit status, or why the refit failed; None if the service stops or the refit has a new owner."""
        started = self._clock.monotonic()
        renewed = started - _RENEW_SECONDS
        outage = Outage(
            log, "the refit's progress cannot be stored", "the refit's progress is stored again", self._clock
        )
        while (status := worker.wait(_WORKER_POLL_SECONDS)) is None:
            now = self._clock.monotonic()
            if self._stopping.is_set():
                return None
            if now - started > self._timeout_seconds:
                limit = format_duration(timedelta(seconds=self._timeout_seconds))
                return (
                    f"it took longer than {limit}: raise recalibration.timeout, or use a shorter window or a quicker"
                    " method"
                )
            if now - renewed < _RENEW_SECONDS:
                continue
            renewed, latest = now, worker.latest
            try:
                is_owner = self._store.keep_job(
                    job.id, owner, lease_ms=_LEASE_MS, progress=latest.progress, step=latest.step
                )
            except StoreUnavailable as error:
                outage.failed(error)
                continue
            outage.over()
            if not is_owner:
                log.warning("the refit has another owner now")
                return None
        return status

    def _finish(self, job: Job, result: RefitResult, owner: str, log: structlog.stdlib.BoundLogger) -> Job | None:
        """Store the end, however long that takes; return the stored job, or None if it has another owner."""
        artifact = None
        if result.artifact is not None:
            artifact = StoredMap(job.id, result.artifact, hashlib.sha256(result.artifact).hexdigest())
        job = replace(job, comparison=None if result.comparison is None else result.comparison.to_dict())
        outage = Outage(log, "the refit's result waits for the store", "the refit's result is stored", self._clock)
        while True:
            try:
                stored = self._store.finish_job(job, owner, artifact, result.figures, promote=job.promote)
            except StoreUnavailable as error:
                outage.failed(error)
                if self._stopping.wait(_RETRY_SECONDS):
                    return None
            except Conflict as error:
                log.warning("the refit's result came too late", detail=str(error))
                return None
            else:
                outage.over()
                if stored.state is JobState.CHAMPION:
                    self._promoted()
                return stored


def _failed(job: Job, reason: str | None) -> _Ended:
    return replace(job, state=JobState.FAILED, reason=reason), RefitResult()


def _end_of(job: Job, result: RefitResult) -> _Ended:
    """Return the refit in the state that a worker's result means."""
    if result.artifact is None or result.comparison is None:
        return _failed(job, result.failure)
    # A map that cannot be read must never serve.
    try:
        from_bytes(result.artifact)
    except CorruptMap as error:
        raise CorruptMap(f"the map that was fitted cannot be read: {error}") from error
    guard = result.comparison.guard
    if guard.passed:
        return replace(job, state=JobState.CANDIDATE), result
    return replace(job, state=JobState.REJECTED, reason=" ".join(guard.reasons)), result
