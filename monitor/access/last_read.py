"""What a source said last, in memory: read anew beside the requests that use it, and kept while the source is away."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import structlog

from monitor.clock import Clock
from monitor.errors import MonitorError
from monitor.outage_log import Outage

Value = TypeVar("Value")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ages:
    """How long what was read does, in seconds.

    Attributes
    ----------
    early
        From then on it is read anew, while requests go on with it.
    stale
        From then on requests wait for what is being read: nobody may have asked for hours.
    lost
        From then on it does not hold any more, though the source does not answer.
    again
        For what is not in it, and after a failure, the source is read at most this often.
    wait
        How long a request waits for a reading.
    """

    early: float
    stale: float
    lost: float
    again: float
    wait: float


class LastRead(Generic[Value]):
    """What a source said last. Any thread.

    It is read in a thread of its own, once at a time. What requests ask for does not make it be read more often than
    its ages say.

    Parameters
    ----------
    read
        Asks the source.
    ages
        When it is read anew, and how long it holds.
    away
        What `read` raises while the source does not answer. Anything else is a fault of ours, and is logged as such.
    outage
        Told whether the source answers.
    name
        What is read, for the log and the thread: "API keys".
    clock
        Tells the age of what is held.
    """

    def __init__(
        self,
        read: Callable[[], Value],
        ages: Ages,
        *,
        away: type[MonitorError],
        outage: Outage,
        name: str,
        clock: Clock,
    ) -> None:
        self._read_source = read
        self._ages = ages
        self._away = away
        self._outage = outage
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._held: tuple[float, Value] | None = None
        """When the reading began that it comes from, and what was read."""
        self._reading: _Reading | None = None
        """The last reading, done or under way."""
        self._failed = False
        """Whether the last reading that has ended failed."""

    def get(self) -> Value | None:
        """What is held; None where nothing was read yet, or so long ago that it does not hold any more."""
        held = self._held
        return held[1] if held is not None and self._age() < self._ages.lost else None

    def is_fresh(self) -> bool:
        """Whether what is held may be gone by without waiting; where it grows old, begins to read anew."""
        age = self._age()
        if age >= self._ages.stale:
            return False
        if age >= self._ages.early:
            self.look_again()
        return True

    def freshen(self) -> None:
        """Read anew what is old, and wait for it where it is too old."""
        age = self._age()
        if age >= self._ages.early:
            self.look_again()
        if age >= self._ages.stale:
            self.wait()

    def look_again(self) -> None:
        """Begin to read, unless that is under way, or was begun just now."""
        with self._lock:
            now = self._clock.monotonic()
            last = self._reading
            if last is not None and (not last.ended.is_set() or now - last.began < self._ages.again):
                return
            reading = _Reading(now)
            threading.Thread(target=self._read, args=(reading,), name=self._name, daemon=True).start()
            # Not before: where no thread can be had, the next request tries again.
            self._reading = reading

    def wait(self) -> bool:
        """Wait for a reading that is under way, unless the one before failed: then nobody hopes for the next.

        Returns
        -------
        Whether what is held is what the source holds now: it was read, and the source was not away.
        """
        with self._lock:
            reading = self._reading
            if reading is None or self._failed:
                return False
        if not reading.ended.wait(max(0.0, reading.began + self._ages.wait - self._clock.monotonic())):
            return False
        return not self._failed

    def _age(self) -> float:
        held = self._held
        return float("inf") if held is None else self._clock.monotonic() - held[0]

    def _read(self, reading: "_Reading") -> None:
        failed = True
        try:
            found = self._read_source()
        except self._away as error:
            self._outage.failed(error)
        except Exception:  # noqa: BLE001 - the thread ends here, and the log says why
            # A fault of ours: nothing may hold for ever because of it, and no request may wait for nothing.
            _log.exception(f"{self._name} cannot be read")
        else:
            self._outage.over()
            self._held = reading.began, found
            failed = False
        finally:
            with self._lock:
                self._failed = failed
            reading.ended.set()


@dataclass(frozen=True, slots=True)
class _Reading:
    began: float
    ended: threading.Event = field(default_factory=threading.Event)
