"""Tells the log of something that is away: once, then ever more rarely, and once when it is back."""

from typing import Any, Final, Protocol

from monitor.clock import Clock

_FIRST_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 600.0


class Log(Protocol):
    """What writes a line: a logger of structlog."""

    def warning(self, event: str, **context: Any) -> Any:
        """Write a warning."""
        ...

    def info(self, event: str, **context: Any) -> Any:
        """Write for the record."""
        ...


class Outage:
    """One thing that may be away. One thread owns it.

    The first failure is told at once; those that follow after 10 s, 20 s, 40 s and so on, at last every ten minutes,
    with how long it has lasted and how often it was tried.

    Parameters
    ----------
    log
        Where to.
    away, back
        What is said.
    clock
        Measures how long it lasts.

    Attributes
    ----------
    detail
        What the last failure said; empty while there is no outage.
    """

    def __init__(self, log: Log, away: str, back: str, clock: Clock) -> None:
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
        """It did not answer."""
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
        """It answers. Nothing is said where it was never away."""
        if self._since is None:
            return
        seconds = round(self._clock.monotonic() - self._since, 1)
        self._log.info(self._back, after_seconds=seconds, attempts=self._attempts, **context)
        self._since = None
        self.detail = ""
        self._wait_seconds = _FIRST_SECONDS
        self._attempts = 0
