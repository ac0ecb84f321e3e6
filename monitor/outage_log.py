"""Log outages and frequent events without flooding the log, and retry with backoff."""

import threading
from collections.abc import Container, Hashable
from typing import TYPE_CHECKING, Any, Final

from monitor.clock import Clock

if TYPE_CHECKING:  # a scorer does not load it
    from structlog.stdlib import BoundLogger

_FIRST_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 600.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0


class Outage:
    """Logs the outage of one thing, such as a server. Not thread-safe.

    Logs the first failure at once, later ones after 10 s, 20 s, 40 s and so on up to every ten minutes, with the
    duration and the number of attempts, and the recovery once.

    Parameters
    ----------
    log
        Logger.
    away, back
        Messages of the outage and of the recovery.
    clock
        Measures the duration.

    Attributes
    ----------
    detail
        Message of the last failure; empty while there is no outage.
    """

    def __init__(self, log: "BoundLogger", away: str, back: str, clock: Clock) -> None:
        self._log = log
        self._away = away
        self._back = back
        self._clock = clock
        self._since: float | None = None
        self._next = 0.0
        self._wait_seconds = _FIRST_SECONDS
        self._attempts = 0
        self.detail = ""

    def failed(self, error: Exception | str, **context: Any) -> None:
        """Note a failed attempt."""
        now = self._clock.monotonic()
        self._attempts += 1
        self.detail = str(error)
        if self._since is None:
            self._since = now
            self._log.warning(self._away, detail=self.detail, **context)
        elif now >= self._next:
            seconds = round(now - self._since, 1)
            self._log.warning(self._away, detail=self.detail, for_seconds=seconds, attempts=self._attempts, **context)
            self._wait_seconds = min(2 * self._wait_seconds, _LONGEST_SECONDS)
        else:
            return
        self._next = now + self._wait_seconds

    def over(self, **context: Any) -> None:
        """Note a successful attempt; logs the recovery if there was an outage."""
        if self._since is None:
            return
        seconds = round(self._clock.monotonic() - self._since, 1)
        self._log.info(self._back, after_seconds=seconds, attempts=self._attempts, **context)
        self._since = None
        self.detail = ""
        self._wait_seconds = _FIRST_SECONDS
        self._attempts = 0


class Retry:
    """Exponential backoff: half a second after the first failure, then twice as long each time, at most 30 s.

    Parameters
    ----------
    clock
        Measures the pauses.
    outage
        Logs the failures that are given an error, and the recovery.
    """

    def __init__(self, clock: Clock, outage: Outage | None = None) -> None:
        self._clock = clock
        self._outage = outage
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._due_at: float | None = None

    @property
    def due(self) -> bool:
        """Whether the pause after the last failure is over."""
        return self._due_at is None or self._clock.monotonic() >= self._due_at

    @property
    def detail(self) -> str:
        """Message of the last logged failure; empty while there is no outage."""
        return "" if self._outage is None else self._outage.detail

    def failed(self, error: Exception | None = None, **context: Any) -> float:
        """Note a failure; returns the seconds until the next attempt."""
        pause, self._pause_seconds = self._pause_seconds, min(self._pause_seconds * 2, _LONGEST_PAUSE_SECONDS)
        self._due_at = self._clock.monotonic() + pause
        if self._outage is not None and error is not None:
            self._outage.failed(error, retry_seconds=pause, **context)
        return pause

    def over(self) -> None:
        """Note a success: the next failure counts as the first."""
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._due_at = None
        if self._outage is not None:
            self._outage.over()


class LastingProblems:
    """Tells a new problem from one that lasts, by key, so that each is logged once. Not thread-safe."""

    def __init__(self) -> None:
        self._details: dict[Hashable, str] = {}

    def is_new(self, detail: str, key: Hashable = "") -> bool:
        """Note a problem; returns whether it has just come, or is another than before."""
        before, self._details[key] = self._details.get(key), detail
        return before != detail

    def over(self, key: Hashable = "") -> None:
        """Note that there is no problem: the same one is new when it comes back."""
        self._details.pop(key, None)

    def keep(self, keys: Container[Hashable]) -> None:
        """Forget the problems of all other keys."""
        self._details = {key: detail for key, detail in self._details.items() if key in keys}


class OncePerMinute:
    """Limits a log line to one per minute and key, and counts the events since the last one. Thread-safe.

    Parameters
    ----------
    clock
        Measures the minute.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[Hashable, tuple[float, int]] = {}

    def add(self, key: Hashable = "", number: int = 1) -> int:
        """Count events; returns how many came since the last line if a line is due now, else 0.

        With ``number`` 0 it only checks whether a line is due for earlier events.
        """
        now = self._clock.monotonic()
        with self._lock:
            due_at, count = self._counts.get(key, (now, 0))
            count += number
            is_due = count > 0 and now >= due_at
            self._counts[key] = (now + 60.0, 0) if is_due else (due_at, count)
            return count if is_due else 0
