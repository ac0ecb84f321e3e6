"""The one clock. Every part that needs the time is handed one, so that tests and replays turn it by hand."""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the wall-clock time, a monotonic time, and waits."""

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
    """A clock that moves only when it is told to."""

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
        """Wait no time at all: the clock jumps."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Turn the clock forward by that many seconds."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back, got {seconds} seconds")
        self._elapsed_ms += round(seconds * 1000)
