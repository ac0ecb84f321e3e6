"""Runs queued refits, each in a process of its own: claimed, watched, and brought to its end in the store.

What goes wrong:

- A worker that is killed: the refit is queued again; after three, it has failed.
- The service ends: workers are ended, and their refits are queued again as if they had not begun.
- The service is killed: the kernel ends the workers. The service of this store that is started next on the same
  machine finds their folders and queues the refits again; where there is none, that happens when their leases run out.
- The store does not answer: a worker goes on, and its end is written as soon as that is possible.
- A worker takes too long, or ends with an error: the refit has failed, with a reason that tells its reader what to do.
"""

import hashlib
import os
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from monitor.clock import Clock, SystemClock
from monitor.durations import format_duration
from monitor.errors import (
    BrokenHandover,
    Conflict,
    CorruptMap,
    InputError,
    NotEnoughData,
    StoreUnavailable,
    UnknownRecalibration,
)
from monitor.inference.prevalence import TOLERANCE
from monitor.maps.artifact import from_bytes
from monitor.outage_log import Outage
from monitor.recalibration.fitting_task import HELD_OUT, RefitOutcome, RefitTask
from monitor.recalibration.folders import Claim, Workplace
from monitor.recalibration.worker import WorkerProcess, how_it_ended
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Job, JobState, SampleStore, StoredMap

MOST_EVENTS: Final = 100_000
"""A refit is of so many events at the most: fits are quick with them, and more would hardly change the map."""

_LEASE_MS: Final = 60_000
_KEEP_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Handover:
    """How a refit gets to a worker and back; see monitor/app/refit_task.py.

    Attributes
    ----------
    write
        (folder, task): writes what the worker needs.
    command
        folder -> the program, by an absolute path, and its arguments.
    read
        folder -> what came of it. Raises BrokenHandover where that is not all there.
    """

    write: Callable[[Path, RefitTask], None]
    command: Callable[[Path], Sequence[str]]
    read: Callable[[Path], RefitOutcome]


class _End(NamedTuple):
    """How a refit ended."""

    state: JobState
    reason: str | None = None
    outcome: RefitOutcome | None = None


class Runner:
    """Threads that work off the queue. Use once: ``start``, ``stop``, ``join``.

    Parameters
    ----------
    store, samples
        Refits, and the events that they are made of.
    handover
        How a refit gets to a worker and back.
    workplace
        Where workers' folders are made: of services of this store alone.
    jobs
        Refits that run at one time.
    timeout_seconds
        How long one may take.
    held_out
        Share of the latest events that a fit never sees.
    tolerance
        Model -> error of its logits up to which a verdict calls nothing a fault; 0.05 of all if left out.
    promoted
        Called when a map was promoted.
    clock
        The one clock.
    """

    def __init__(
        self,
        store: RecalibrationStore,
        samples: SampleStore,
        handover: Handover,
        workplace: Workplace,
        *,
        jobs: int = 1,
        timeout_seconds: float = 900.0,
        held_out: float = HELD_OUT,
        tolerance: Callable[[str], float] | None = None,
        promoted: Callable[[], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._samples = samples
        self._handover = handover
        self._timeout_seconds = timeout_seconds
        self._held_out = held_out
        self._tolerance = tolerance or (lambda _: TOLERANCE)
        self._promoted = promoted
        self._workplace = workplace
        self._clock = clock or SystemClock()
        self._stopping = threading.Event()
        self._queued = threading.Event()
        self._abandoned: list[Claim] = []
        self._threads = [
            threading.Thread(target=self._run, args=(number == 0,), name=f"refits {number}", daemon=True)
            for number in range(jobs)
        ]

    def start(self) -> None:
        """Start the threads."""
        self._abandoned = self._workplace.take_abandoned()
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """There is a refit in the queue. Any thread."""
        self._queued.set()

    def stop(self) -> None:
        """End workers and release their refits. Does not wait for it: see :meth:`join`."""
        self._stopping.set()
        self._queued.set()

    def join(self, seconds: float) -> bool:
        """Wait until all threads have ended; False if that takes longer."""
        deadline = self._clock.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - self._clock.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, is_first: bool) -> None:
        if is_first:
            self._release_abandoned()
        outage = Outage(_log, "refits wait for the store", "refits go on: the store answers", self._clock)
        while not self._stopping.is_set():
            owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
            try:
                job = self._store.claim_job(owner, now_ms=self._clock.now_ms(), lease_ms=_LEASE_MS)
                outage.over()
                if job is not None:
                    self._work(job, owner)
                    continue
            except StoreUnavailable as error:
                outage.failed(error)
            except Exception:  # noqa: BLE001 - the next refit shall have its turn; the log says what happened
                _log.exception("a refit could not be brought to its end")
            self._queued.wait(_LOOK_SECONDS)
            self._queued.clear()

    def _release_abandoned(self) -> None:
        """Queue again what a service that was killed here had begun: nobody has to wait for the leases."""
        for refit, owner in self._abandoned:
            try:
                self._store.release_job(refit, owner, lost="the service was killed")
            except UnknownRecalibration:
                # The store was put back to what it was before that refit.
                continue
            except StoreUnavailable as error:
                _log.warning("a refit waits for its lease to run out", refit=refit, detail=str(error))
            except Exception:  # noqa: BLE001 - its lease runs out all the same; the log says what happened
                _log.exception("a refit could not be queued again", refit=refit)

    def _work(self, job: Job, owner: str) -> None:
        began = self._clock.monotonic()
        order = job.order
        log = _log.bind(refit=job.id, model=order.model, version=order.version, method=order.method)
        log.info("refit started", attempt=job.attempts)
        try:
            with self._workplace.own_folder(Claim(job.id, owner)) as folder:
                job, end = self._try(job, owner, folder, log)
        except StoreUnavailable as error:
            log.warning("refit interrupted: it is begun again when its lease has run out", detail=str(error))
            return
        except (InputError, NotEnoughData, CorruptMap) as error:
            end = _End(JobState.FAILED, str(error))
        except Exception:  # it would fail again
            log.exception("refit failed unexpectedly")
            end = _End(JobState.FAILED, "the service could not run it; its log has the error, with the refit's id")
        if end is not None:
            job = self._finish(job, owner, end) or job
            seconds = round(self._clock.monotonic() - began, 1)
            log.info("refit ended", state=str(job.state), reason=job.reason, seconds=seconds)

    def _try(self, job: Job, owner: str, folder: Path, log: structlog.stdlib.BoundLogger) -> tuple[Job, _End | None]:
        """One attempt; no end where another attempt is to follow, or where it is another worker's now."""
        order = job.order
        serving = (
            each for each in self._store.champions() if (each.model, each.version) == (order.model, order.version)
        )
        baseline = next((each.map_id for each in serving), None)
        job = replace(job, baseline=baseline)
        sample = self._samples.read_sample(order.model, order.version, limit=MOST_EVENTS)
        if not len(sample.events):
            raise NotEnoughData(
                f"no labelled events of model {order.model!r} version {order.version!r} are kept for refits yet: they"
                " are kept once their outcome can change no more, which is one horizon after the prediction, and only"
                " where recalibration.sample is above 0"
            )
        self._handover.write(
            folder,
            RefitTask(
                id=job.id,
                model=order.model,
                version=order.version,
                method=order.method,
                options=order.options,
                created_ms=self._clock.now_ms(),
                events=sample.events,
                window_ms=order.window_ms,
                held_out=self._held_out,
                left_out=sample.left_out,
                champion=None if baseline is None else self._store.artifact(baseline).artifact,
                tolerance=self._tolerance(order.model),
            ),
        )
        del sample
        worker = WorkerProcess(self._handover.command(folder), folder)
        try:
            status = self._watch(job, owner, worker)
        finally:
            worker.end()
        if status is None:
            return job, None
        words = worker.last_words()
        if words:
            log.info("what the refit's worker said", text=words)
        if isinstance(status, str):
            return job, _End(JobState.FAILED, status)
        if status > 0:
            log.error("the refit's worker ended with an error", status=status)
            return job, _End(
                JobState.FAILED,
                "the worker ended with an unexpected error; the service's log has it, with the refit's id",
            )
        lost = how_it_ended(status) if status else None
        if lost is None:
            try:
                return job, _judged(self._handover.read(folder))
            except BrokenHandover as error:
                lost = str(error)
        log.warning("refit lost its worker", detail=lost)
        self._store.release_job(job.id, owner, lost=lost)
        return job, None

    def _watch(self, job: Job, owner: str, worker: WorkerProcess) -> int | str | None:
        """Its exit status; why it has failed; or None if the refit is given back, or another worker's."""
        began = self._clock.monotonic()
        kept = began - _KEEP_SECONDS
        is_noted = True
        while (status := worker.wait(_POLL_SECONDS)) is None:
            now = self._clock.monotonic()
            if self._stopping.is_set():
                worker.end()
                self._store.release_job(job.id, owner)
                return None
            if now - began > self._timeout_seconds:
                limit = format_duration(timedelta(seconds=self._timeout_seconds))
                return (
                    f"it took longer than {limit}: raise recalibration.timeout, or take a shorter window or a quicker"
                    " method"
                )
            if now - kept >= _KEEP_SECONDS:
                kept = now
                share, step = worker.progress
                try:
                    ours = self._store.keep_job(
                        job.id, owner, now_ms=self._clock.now_ms(), lease_ms=_LEASE_MS, progress=share, step=step
                    )
                except StoreUnavailable as error:
                    if is_noted:
                        _log.warning("a refit's progress cannot be noted", refit=job.id, detail=str(error))
                    is_noted = False
                    continue
                is_noted = True
                if not ours:
                    _log.warning("a refit is another worker's now", refit=job.id)
                    return None
        return status

    def _finish(self, job: Job, owner: str, end: _End) -> Job | None:
        """Write the end, however long the store lets us wait; the job as it is then, or None if it is not ours."""
        outcome = end.outcome or RefitOutcome()
        artifact = None
        if outcome.artifact is not None:
            artifact = StoredMap(job.id, outcome.artifact, hashlib.sha256(outcome.artifact).hexdigest())
        ended = replace(
            job,
            state=end.state,
            reason=end.reason,
            comparison=outcome.comparison,
            finished_ms=self._clock.now_ms(),
        )
        is_waiting = False
        while True:
            try:
                done = self._store.finish_job(ended, owner, artifact, outcome.figures, promote=job.order.promote)
            except StoreUnavailable as error:
                if not is_waiting:
                    _log.warning("a refit's end waits for the store", refit=job.id, detail=str(error))
                is_waiting = True
                if self._stopping.wait(_RETRY_SECONDS):
                    return None
            except Conflict as error:
                _log.warning("a refit's end came too late", refit=job.id, detail=str(error))
                return None
            else:
                if done.state is JobState.CHAMPION and self._promoted is not None:
                    self._promoted()
                return done


def _judged(outcome: RefitOutcome) -> _End:
    """The end that an outcome means."""
    if outcome.error is not None:
        return _End(JobState.FAILED, outcome.detail)
    if outcome.artifact is None or outcome.comparison is None:
        raise BrokenHandover("the result names neither a map nor an error")
    # What cannot be read shall not serve; who made it and who serves it run the same code.
    try:
        from_bytes(outcome.artifact)
    except CorruptMap as error:
        raise CorruptMap(f"the map that was fitted cannot be read: {error}") from error
    guard = outcome.comparison["guard"]
    if guard["passed"]:
        return _End(JobState.CANDIDATE, None, outcome)
    return _End(JobState.REJECTED, " ".join(guard["reasons"]), outcome)
