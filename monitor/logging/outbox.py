"""A bounded buffer of logged events, and the background thread that delivers them."""

import logging
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from monitor.clock import SystemClock
from monitor.events.fields import Rejected
from monitor.logging.destination import Delivery, Destination, EncodedEvent, release_gil
from monitor.logging.entries import Block, Entry
from monitor.outage_log import OncePerMinute, Retry

DropReason = Literal["invalid", "buffer_full", "rejected", "unsent", "closed"]

_BATCH_EVENTS: Final = 5_000
_BATCH_BYTES: Final = 1 << 20
"""A quarter of what POST /v1/events accepts by default."""
_SLICE: Final = 200
_FULL: Final = 6_000
"""Values of a list that is full: those of 1,000 entries."""
_NOTHING: Final = (None,) * 5
"""What stands behind a block, so that it takes as many places as an entry."""
_LINGER_SECONDS: Final = 0.1
"""How long events are gathered before they are sent, and how often a wait checks whether the scorer ends."""

# Not structlog: unconfigured, it would print to the standard output of the scorer.
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts since the start, or since the fork. ``logged = delivered + pending + sum(dropped.values())``.

    Attributes
    ----------
    logged
        Events that were passed to the logger.
    delivered
        Events that are durable at the destination.
    pending
        Events that wait.
    dropped
        Reason -> events: ``invalid`` (an argument is wrong), ``buffer_full``, ``rejected`` (by the destination, for
        good), ``unsent`` (not delivered when the time to close was over), ``closed`` (logged afterwards).
    """

    logged: int
    delivered: int
    pending: int
    dropped: Mapping[DropReason, int]


class Outbox:
    """Keeps events until they are delivered. :meth:`add` and :meth:`drop` never wait for the destination, nor raise.

    Parameters
    ----------
    destination
        Where the events go.
    encode
        Makes an event of an entry; an exception says why it cannot.
    max_events, max_bytes
        How many events wait at most, and roughly how much memory they take.
    exit_seconds
        How long the end of the process waits for delivery.
    """

    def __init__(
        self,
        destination: Destination,
        encode: Callable[[Entry], EncodedEvent],
        *,
        max_events: int,
        max_bytes: int,
        exit_seconds: float,
    ) -> None:
        self._destination = destination
        self._encode = encode
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._exit_seconds = exit_seconds
        self._reset()
        _open.add(self)

    def _reset(self) -> None:
        """Begin with an empty buffer and no thread."""
        # Reentrant: a signal handler or a destructor that logs may interrupt the holder.
        self._lock = threading.RLock()
        self._progress = threading.Condition(self._lock)
        self._wake = threading.Event()
        self._full: deque[list[Any]] = deque()
        """Lists of values that are full, the oldest first: one long list would be copied, for 2 ms, as it grows."""
        self._values: list[Any] = []
        """The values of entries that wait, one entry after the other; a block with nothing behind it.

        Not the tuples: each that stays alive brings the next garbage collection nearer, which stops the scorer."""
        self._rows: Iterator[Entry] = iter(())
        """Entries that were taken from the buffer and are not encoded yet."""
        self._accepted = self._finished = self._delivered = self._bytes = 0
        self._dropped: Counter[DropReason] = Counter()
        self._reported: Counter[DropReason] = Counter()
        self._details: dict[DropReason, str] = {}
        self._once_per_minute = OncePerMinute(SystemClock())
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._deadline: float | None = None
        self._wait_until = 0.0

    def after_fork(self) -> None:
        """Forget, in the child of a fork, the waiting events and the connection, which belong to the parent."""
        self._destination.forget_connection()
        was_closed = self._is_closed
        self._reset()
        self._is_closed = was_closed

    # ------------------------------------------------------------------ in the scorer's threads

    def add(self, entry: Entry | Block, size: int, count: int = 1) -> None:
        """Append an entry of ``count`` events and some ``size`` bytes, or count it as dropped."""
        values = entry if isinstance(entry, tuple) else (entry, *_NOTHING)
        with self._lock:
            if self._is_closed:
                self._dropped["closed"] += count
                return
            if self._accepted - self._finished + count > self._max_events or (
                self._bytes and self._bytes + size > self._max_bytes
            ):
                self._dropped["buffer_full"] += count
                return
            # Without a call: a signal's handler, which lets the background thread take the list, comes after calls.
            self._values += values
            if len(self._values) >= _FULL:
                self._full.append(self._values)
                self._values = []
            self._accepted += count
            self._bytes += size
        if self._thread is None:
            self._start()

    def drop(self, reason: DropReason, detail: str, count: int = 1) -> None:
        """Count events that are not accepted; the background thread logs it."""
        with self._lock:
            self._dropped[reason] += count
            self._details.setdefault(reason, detail)
        if self._thread is None and not self._is_closed:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            # No daemon: the interpreter waits for it, so that it can deliver what is left. Unlike functions of atexit,
            # it is also waited for in processes of multiprocessing.
            thread = threading.Thread(target=self._run, name="prediction-logger", daemon=False)
            try:
                thread.start()
            except RuntimeError as error:  # no more threads, or the interpreter ends
                self._details.setdefault("unsent", str(error))
                return
            self._thread = thread

    def stats(self) -> Stats:
        """Return the counts."""
        with self._lock:
            dropped = dict(self._dropped)
            pending = self._accepted - self._finished
            return Stats(self._delivered + pending + sum(dropped.values()), self._delivered, pending, dropped)

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until every event that was accepted before is delivered or dropped; returns whether it is."""
        self._wake.set()
        with self._progress:
            target = self._accepted
            return self._progress.wait_for(lambda: self._finished >= target, timeout_seconds)

    def close(self, timeout_seconds: float | None = None) -> None:
        """Deliver what waits, for that long at most (``exit_seconds`` by default), and end the thread."""
        seconds = self._exit_seconds if timeout_seconds is None else timeout_seconds
        with self._lock:
            self._is_closed = True
            self._deadline = time.monotonic() + seconds
            thread = self._thread
        self._wake.set()
        if thread is not None:
            # A request that is on its way may take a little longer.
            thread.join(seconds + 2.0)

    def begin_delivery(self, *, closes: bool) -> None:
        """Deliver what waits, for ``exit_seconds`` at most, in a signal's handler: nothing is waited for here.

        Parameters
        ----------
        closes
            Whether the process ends then; otherwise events may follow.
        """
        # Of the locks the handler may only take the one that the thread it interrupted can hold, too.
        with self._lock:
            self._wait_until = time.monotonic() + self._exit_seconds
            if closes:
                self._is_closed = True
                self._deadline = self._wait_until

    def finish_delivery(self) -> None:
        """Wait until what was logged before is delivered or dropped, or the time is over."""
        with self._progress:
            target = self._accepted
            # Also where the interrupted thread holds the lock: waiting releases it, however often it was acquired.
            self._progress.wait_for(lambda: self._finished >= target, self._wait_until - time.monotonic())

    # ------------------------------------------------------------------ in the background thread

    def _run(self) -> None:
        ends = False
        while not ends:
            self._wake.wait(_LINGER_SECONDS)
            self._wake.clear()
            ends = self._seconds_left() < float("inf")
            while batch := self._next_batch():
                self._deliver(batch)
            self._report_drops()
        self._destination.close()

    def _seconds_left(self) -> float:
        """How long delivery may take; infinite until the scorer closes the logger or ends."""
        if self._deadline is None:
            if threading.main_thread().is_alive():
                return float("inf")
            with self._lock:
                self._is_closed = True
                self._deadline = time.monotonic() + self._exit_seconds
        return max(0.0, self._deadline - time.monotonic())

    def _next_batch(self) -> list[EncodedEvent]:
        """Encode the next events; empty if none wait."""
        batch: list[EncodedEvent] = []
        size = 0
        while len(batch) < _BATCH_EVENTS and size < _BATCH_BYTES:
            read = 0
            for entry in self._next_entries():
                read += 1
                try:
                    event = self._encode(entry)
                except Rejected as error:
                    self._finish(1, 0, "invalid", error.detail)
                    continue
                except Exception as error:  # noqa: BLE001 - whatever a scorer logs must not end the thread
                    self._finish(1, 0, "invalid", str(error))
                    continue
                batch.append(event)
                size += len(event.value)
            if not read:
                break
            release_gil()
        return batch

    def _next_entries(self) -> list[Entry]:
        """A slice of the events that wait, the oldest first."""
        entries: list[Entry] = []
        while len(entries) < _SLICE:
            row = next(self._rows, None)
            if row is not None:
                entries.append(row)
                continue
            with self._lock:
                if self._full:
                    taken = self._full.popleft()
                else:
                    taken, self._values = self._values, []
            if not taken:
                break
            self._rows = _rows(taken)
        return entries

    def _deliver(self, batch: Sequence[EncodedEvent]) -> None:
        """Send a batch, again and again until it is delivered or the time is over."""
        retry = Retry(SystemClock())
        error = "the time to close was over"
        while batch:
            if self._seconds_left() == 0.0:
                self._finish(len(batch), 0, "unsent", error)
                return
            try:
                delivery = self._destination.deliver(batch, self._seconds_left)
            except Exception as unexpected:  # noqa: BLE001 - logged; the thread goes on
                if self._once_per_minute.add("unexpected"):
                    _log.exception("events cannot be sent; trying again")
                delivery = Delivery(batch, f"{type(unexpected).__name__}: {unexpected}")
            finished = len(batch) - len(delivery.undelivered)
            self._finish(finished, finished - delivery.rejected, "rejected", delivery.detail)
            batch, error = delivery.undelivered, delivery.error
            if delivery.too_large:
                if len(batch) == 1:
                    self._finish(1, 0, "rejected", error)
                    return
                half = len(batch) // 2
                self._deliver(batch[:half])
                batch = batch[half:]
            elif batch:
                if self._once_per_minute.add("outage"):
                    _log.warning("events cannot be sent, %d wait; trying again: %s", self.stats().pending, error)
                self._pause(retry.failed())

    def _pause(self, seconds: float) -> None:
        """Wait; shortly if the scorer ends."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0.0:
            time.sleep(min(left, _LINGER_SECONDS))
            if self._seconds_left() < float("inf"):
                return
            self._report_drops()

    def _finish(self, count: int, delivered: int, reason: DropReason, detail: str) -> None:
        """Take events off those that wait; what was not delivered is dropped for this reason."""
        with self._progress:
            waiting = self._accepted - self._finished
            # Sizes are estimates: each event takes its share with it.
            self._bytes -= round(self._bytes * count / waiting) if waiting else 0
            self._finished += count
            self._delivered += delivered
            if delivered < count:
                self.drop(reason, detail, count - delivered)
            self._progress.notify_all()

    def _report_drops(self) -> None:
        with self._lock:
            dropped = self._dropped.copy()
        for reason, count in dropped.items():
            due = self._once_per_minute.add(reason, count - self._reported[reason])
            self._reported[reason] = count
            if due:
                with self._lock:
                    detail = self._details.pop(reason, "")
                _log.warning("%d events dropped (%s)%s", due, reason, f", the first: {detail}" if detail else "")


_open: Final[weakref.WeakSet[Outbox]] = weakref.WeakSet()


def _after_fork() -> None:
    for outbox in list(_open):
        outbox.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _rows(values: list[Any]) -> Iterator[Entry]:
    """The entries one by one; each is freed at once. Freeing 100,000 in one piece would hold the GIL for 5 ms."""
    values.reverse()
    pop = values.pop
    while values:
        first, *others = pop(), pop(), pop(), pop(), pop(), pop()
        if isinstance(first, Block):
            yield from first.rows()
        else:
            yield (first, *others)
