"""Logs that there are dead letters, and the position of the first, at most once a minute."""

from collections import Counter
from collections.abc import Iterable

from structlog.stdlib import BoundLogger

from monitor.clock import Clock
from monitor.events.model import DeadLetter
from monitor.outage_log import OncePerMinute


class DeadLetterLog:
    """Logs saved dead letters. The letters themselves are in the store, and counted. Not thread-safe."""

    def __init__(self, log: BoundLogger, clock: Clock) -> None:
        self._log = log
        self._limit = OncePerMinute(clock)
        self._reasons: Counter[str] = Counter()
        self._first: DeadLetter | None = None

    def note(self, letters: Iterable[DeadLetter]) -> None:
        """Note letters that were saved."""
        number = 0
        for letter in letters:
            number += 1
            self._first = self._first or letter
            self._reasons[letter.reason.value] += 1
        count, first = self._limit.add(number=number), self._first
        if not count or first is None:
            return
        self._log.warning(
            "messages that are no valid events: `monitor dead-letters list` shows them",
            letters=count,
            reasons=dict(self._reasons),
            topic=first.topic,
            partition=first.partition,
            offset=first.offset,
            detail=first.detail,
        )
        self._reasons.clear()
        self._first = None
