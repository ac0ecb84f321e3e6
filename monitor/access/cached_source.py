"""The last value of a source, in memory: read again in the background, and kept during an outage of the source."""

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
class CacheTimes:
    """How long a value is used, in seconds.

    Attributes
    ----------
    refresh
        Age from which it is read again, while requests go on with it.
    stale
        Age from which requests wait for the new value: there may have been no request for hours.
    expire
        Age from which it is not used any more, even if the source does not answer.
    retry
        For a key that is not in it, and after a failure, the source is read at most this often.
    wait
        How long a request waits for a read.
    """

    refresh: float
    stale: float
    expire: float
    retry: float
    wait: float


@dataclass(frozen=True, slots=True)
class _Read:
    began: float
    ended: threading.Event = field(default_factory=threading.Event)


class CachedSource(Generic[Value]):
    """The last value of a source. Any thread.

    It is read in a thread of its own, once at a time. Requests cannot make it be read more often than ``times`` says.

    Parameters
    ----------
    read
        Reads the source.
    times
        When it is read again, and how long a value is used.
    unavailable
        What ``read`` raises while the source does not answer. Any other error is a fault of the service.
    outage
        Logs whether the source answers.
    name
        What is read, for the log and the thread: "API keys".
    clock
        Measures the age of the value.
    """

    def __init__(
        self,
        read: Callable[[], Value],
        times: CacheTimes,
        *,
        unavailable: type[MonitorError],
        outage: Outage,
        name: str,
        clock: Clock,
    ) -> None:
        self._read_source = read
        self._times = times
        self._unavailable = unavailable
        self._outage = outage
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._value: tuple[float, Value] | None = None
        """When its read began, and the value."""
        self._last_read: _Read | None = None
        """The last read, done or under way."""
        self._failed = False
        """Whether the last read that has ended failed."""

    def get(self) -> Value | None:
        """The value; None if there is none yet, or if it has expired."""
        value = self._value
        return value[1] if value is not None and self._age() < self._times.expire else None

    def is_fresh(self) -> bool:
        """Whether the value can be used without waiting; starts a read if it is due."""
        age = self._age()
        if age >= self._times.stale:
            return False
        if age >= self._times.refresh:
            self.start_read()
        return True

    def refresh(self) -> None:
        """Start a read if it is due, and wait for it if the value is stale."""
        if not self.is_fresh():
            self.start_read()
            self.wait()

    def start_read(self) -> None:
        """Start a read, unless one is under way, or was started less than ``retry`` seconds ago."""
        with self._lock:
            now = self._clock.monotonic()
            last = self._last_read
            if last is not None and (not last.ended.is_set() or now - last.began < self._times.retry):
                return
            read = _Read(now)
            threading.Thread(target=self._run, args=(read,), name=self._name, daemon=True).start()
            # Set last: where no thread can be started, the next request tries again.
            self._last_read = read

    def wait(self) -> bool:
        """Wait for a read that is under way, unless the one before failed: the next one will probably fail, too.

        Returns
        -------
        Whether the value is the current one of the source.
        """
        with self._lock:
            read = self._last_read
            if read is None or self._failed:
                return False
        if not read.ended.wait(max(0.0, read.began + self._times.wait - self._clock.monotonic())):
            return False
        return not self._failed

    def _age(self) -> float:
        value = self._value
        return float("inf") if value is None else self._clock.monotonic() - value[0]

    def _run(self, read: _Read) -> None:
        failed = True
        try:
            value = self._read_source()
        except self._unavailable as error:
            self._outage.failed(error)
        except Exception:  # noqa: BLE001 - the thread ends here, and the log says why
            # A fault of the service: values must expire nevertheless, and requests must not wait for nothing.
            _log.exception(f"{self._name} cannot be read")
        else:
            self._outage.over()
            self._value = read.began, value
            failed = False
        finally:
            with self._lock:
                self._failed = failed
            read.ended.set()
