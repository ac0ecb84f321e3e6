"""Clocks. Every part that needs the time gets one as an argument, so that tests and replays can control it."""

import time
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """Wall-clock time, monotonic time, and waiting."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean something."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait that many seconds."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean something."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait that many seconds."""
        time.sleep(seconds)


class ManualClock:
    """A clock that moves only by :meth:`advance` and :meth:`sleep`."""

    def __init__(self, now_ms: int = 0) -> None:
        self._start_ms = now_ms
        self._elapsed_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return self._start_ms + self._elapsed_ms

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean something."""
        return self._elapsed_ms / 1000

    def sleep(self, seconds: float) -> None:
        """Move the clock forward at once."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move the clock forward by that many seconds."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back, got {seconds} seconds")
        self._elapsed_ms += round(seconds * 1000)


class SimulatedTime(NamedTuple):
    """The time of simulated events, which runs at a speed of its own until it has caught up with the clock."""

    began_ms: int
    """Time of the clock at which it began to run, or now if it has not."""
    start_ms: int
    """Simulated time then."""
    speed: float
    """Simulated seconds per second."""

    def at(self, clock_ms: int) -> int:
        """The simulated time when the clock stood there."""
        return min(clock_ms, self.start_ms + round(max(clock_ms - self.began_ms, 0) * self.speed))
