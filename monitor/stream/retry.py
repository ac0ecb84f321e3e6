"""When to try again what has failed."""

from typing import Final

from monitor.clock import Clock

_FIRST_SECONDS: Final = 0.5
_MAX_SECONDS: Final = 30.0


class Retry:
    """Exponential backoff: half a second after the first failure, then twice as long each time, at most 30 s.

    Parameters
    ----------
    clock
        Measures the pauses.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pause_seconds = _FIRST_SECONDS
        self._due_at: float | None = None

    @property
    def due(self) -> bool:
        """Whether the pause after the last failure is over."""
        return self._due_at is None or self._clock.monotonic() >= self._due_at

    def failed(self) -> float:
        """Note a failure; returns the seconds until the next attempt."""
        pause, self._pause_seconds = self._pause_seconds, min(self._pause_seconds * 2, _MAX_SECONDS)
        self._due_at = self._clock.monotonic() + pause
        return pause

    def over(self) -> None:
        """Note a success: the next failure is the first again."""
        self._pause_seconds = _FIRST_SECONDS
        self._due_at = None
