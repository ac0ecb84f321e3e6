"""Logs that there are dead letters or refused events, and the position of the first, at most once a minute each."""

from collections import Counter
from collections.abc import Iterable

from structlog.stdlib import BoundLogger

from monitor.clock import Clock
from monitor.events.model import DeadLetter, Reason
from monitor.outage_log import OncePerMinute


class DeadLetterLog:
    """Logs saved dead letters. The letters themselves are in the store, and counted. Not thread-safe."""

    def __init__(self, log: BoundLogger, clock: Clock) -> None:
        self._log = log
        self._limit = OncePerMinute(clock)
        self._reasons: Counter[str] = Counter()
        self._first: DeadLetter | None = None
        self._refused: DeadLetter | None = None

    def note_refused(self, events: int, first: DeadLetter | None) -> None:
        """Note events of refused models, and the first of them."""
        self._refused = self._refused or first
        count, refused = self._limit.add(Reason.REFUSED_MODEL, events), self._refused
        if not count or refused is None:
            return
        self._log.warning(
            "events of models that are refused: `monitor check` names the models",
            events=count,
            topic=refused.topic,
            partition=refused.partition,
            offset=refused.offset,
            detail=refused.detail,
        )
        self._refused = None

    def note(self, letters: Iterable[DeadLetter]) -> None:
        """Note letters that were saved."""
        self.note_refused(0, None)
        number = 0
        for letter in letters:
            if letter.reason is Reason.REFUSED_MODEL:
                continue
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
