"""Write the simulated events to the log as simulated time passes."""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from monitor.clock import Clock, SimulatedTime
from monitor.errors import SourceUnavailable
from monitor.events.model import Message
from monitor.simulation.traffic import Traffic

DEMO_SEED: Final = 32
"""A seed without false alarms in the first hours, as with most seeds but not all."""

_log = structlog.get_logger(__name__)

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_TURN_SECONDS: Final = 0.25
_CHUNK_MS: Final = 300_000
"""Simulated time written at once."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How simulated time runs.

    Attributes
    ----------
    speed
        Simulated seconds per second.
    history_ms
        Simulated time before the start of :meth:`Simulator.run`, written at once.
    calm_ms
        Simulated time from there until the models begin to change.
    behind_ms
        How far in the past simulated time begins. Once it has reached the present, it runs at speed 1.
    """

    speed: float = 120.0
    history_ms: int = 2 * _HOUR_MS
    calm_ms: int = _HOUR_MS // 2
    behind_ms: int = 30 * _DAY_MS


class Simulator:
    """The producer of the demo. :meth:`run` is its thread.

    Parameters
    ----------
    write
        Writes messages to the log.
    seed, rate
        As for :class:`~monitor.simulation.traffic.Traffic`.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Message]], None],
        topic: str,
        clock: Clock,
        *,
        pace: Pace | None = None,
        seed: int = 0,
        rate: float = 2.5,
    ) -> None:
        self._write = write
        self._clock = clock
        self._pace = pace or Pace()
        # On a whole hour: simulated days begin when days do.
        begin_ms = (clock.now_ms() - self._pace.behind_ms) // _HOUR_MS * _HOUR_MS
        self.start_ms = begin_ms + self._pace.history_ms
        """Simulated time at which :meth:`run` begins."""
        self.change_ms = self.start_ms + self._pace.calm_ms
        """Simulated time at which the models begin to change."""
        self._traffic = Traffic(topic, start_ms=begin_ms, change_ms=self.change_ms, seed=seed, rate=rate)
        self._written_ms = begin_ms
        self._began_ms: int | None = None
        self._stopping = threading.Event()
        self.messages = 0
        """Messages written so far."""

    @property
    def now_ms(self) -> int:
        """Simulated time up to which everything is written."""
        return self._written_ms

    @property
    def time(self) -> SimulatedTime:
        """Simulated time as a function of the clock, which shows times of both beside each other."""
        began_ms = self._clock.now_ms() if self._began_ms is None else self._began_ms
        return SimulatedTime(began_ms, self.start_ms, self._pace.speed)

    def write_until(self, end_ms: int) -> None:
        """Write the messages that reach the log before that simulated time.

        Raises
        ------
        SourceUnavailable
            The log cannot be written.
        """
        while self._written_ms < end_ms and not self._stopping.is_set():
            chunk_ms = min(self._written_ms + _CHUNK_MS, end_ms)
            messages = self._traffic.until(chunk_ms)
            self._write(messages)
            self.messages += len(messages)
            self._written_ms = chunk_ms

    def run(self) -> None:
        """Write until :meth:`stop`, or until the log cannot be written, which is logged. For a thread of its own."""
        try:
            self.produce()
        except SourceUnavailable as error:
            _log.error("the simulator stopped", detail=str(error))

    def produce(self, seconds: float = math.inf) -> None:
        """Write the history at once, then in simulated time for so many seconds or until :meth:`stop`.

        Raises
        ------
        SourceUnavailable
            The log cannot be written.
        """
        self.write_until(self.start_ms)
        began, self._began_ms = self._clock.monotonic(), self._clock.now_ms()
        while not self._stopping.is_set():
            elapsed = self._clock.monotonic() - began
            simulated_ms = self.start_ms + round(min(elapsed, seconds) * 1000 * self._pace.speed)
            self.write_until(min(simulated_ms, self._clock.now_ms()))
            if elapsed >= seconds:
                return
            self._stopping.wait(min(_TURN_SECONDS, seconds - elapsed))

    def stop(self) -> None:
        """Let :meth:`run` return. May be called from any thread."""
        self._stopping.set()
