"""Tells the log of dead letters: that there are some and where the first stands, and not each of them."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from monitor.clock import Clock
from monitor.events.model import DeadLetter
from monitor.outage_log import Log

_MOST_OFTEN_SECONDS: Final = 60.0


class DeadLetterLog:
    """One line a minute at most. The letters themselves are in the store, and counted. One thread owns it.

    Parameters
    ----------
    log
        Where to.
    clock
        Measures the minute.
    """

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._reasons: Counter[str] = Counter()
        self._first: DeadLetter | None = None
        self._next: float | None = None

    def note(self, letters: Iterable[DeadLetter]) -> None:
        """Letters that were saved."""
        for letter in letters:
            self._first = self._first or letter
            self._reasons[letter.reason.value] += 1
        now = self._clock.monotonic()
        first = self._first
        if first is None or (self._next is not None and now < self._next):
            return
        self._log.warning(
            "messages that are no valid events: `monitor dead-letters list` shows them",
            letters=self._reasons.total(),
            reasons=dict(self._reasons),
            topic=first.topic,
            partition=first.partition,
            offset=first.offset,
            detail=first.detail,
        )
        self._reasons.clear()
        self._first = None
        self._next = now + _MOST_OFTEN_SECONDS
