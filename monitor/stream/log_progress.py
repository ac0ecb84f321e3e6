"""How far the logs of a partition are read: what their ends say about its models, and one topic beside another."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np

from monitor.arrays import Ints
from monitor.events.model import TopicPartition
from monitor.store.base import ModelClock
from monitor.store.settled import partition_edges_ms
from monitor.stream.join_loops import Models

Value = TypeVar("Value")

GRACE_SECONDS: Final = 5.0
"""Largest age of the position of a log's end: a fetch waits for half a second."""

_NEVER: Final = -1

_MAX_WAIT_SECONDS: Final = 10.0
"""How long a topic waits for another that brings no records."""


class AtEnd(Generic[Value]):
    """A value captured at the end of logs, which counts once all that was written by then has certainly been read.

    Silence means nothing while records are left to be read: a backlog of days may be read within seconds, one topic
    before the other. So a value of the end of the logs counts when they are at their ends again some time later,
    unless this process was paused meanwhile: then the ends that it knows may be as old as the pause is long.

    Attributes
    ----------
    known
        The value that counts; None before there is one.
    """

    def __init__(self) -> None:
        self.known: Value | None = None
        self._candidate: tuple[float, Value] | None = None

    def interrupt(self) -> None:
        """Begin anew: this process was paused, and the ends of the logs that it knows are older than the pause."""
        self._candidate = None

    def note(self, now: float, capture: Callable[[], Value]) -> None:
        """Note that nothing is left to be read at ``now`` (monotonic seconds), as far as is known.

        ``capture`` is called where its value may count later.
        """
        if self._candidate is not None:
            since, candidate = self._candidate
            if now - since < GRACE_SECONDS:
                return
            self.known = candidate
        self._candidate = now, capture()


class _Ends(NamedTuple):
    """How far models were when both logs had been read to their ends, by model id; models that came since are missing.

    Newest prediction and newest outcome, int64, shape (2, models) each; -1 where there is none.
    """

    own_ms: Ints
    """In this partition."""
    everywhere_ms: Ints
    """In any partition."""
    newest_ms: int
    """Newest prediction of any model in any partition."""


class LogEnds:
    """The ends of the logs of one partition, and the settled edges that follow from them.

    Parameters
    ----------
    outcomes_apart
        Whether outcomes are in another log than predictions: how far predictions are answered is known only at the end
        of that log. In a log that holds both, all outcomes written before a prediction are read before it.
    """

    def __init__(self, *, outcomes_apart: bool) -> None:
        self._outcomes_apart = outcomes_apart
        self._of_outcomes: AtEnd[Ints] = AtEnd()
        """Newest prediction of each model when the logs of outcomes were at their ends."""
        self._of_all: AtEnd[_Ends] = AtEnd()

    @property
    def newest_ms(self) -> int:
        """Newest prediction of any model in any partition, when both logs were at their ends; or -1."""
        return _NEVER if self._of_all.known is None else self._of_all.known.newest_ms

    def interrupt(self) -> None:
        """See :meth:`AtEnd.interrupt`."""
        self._of_outcomes.interrupt()
        self._of_all.interrupt()

    def note(
        self,
        now: float,
        models: Models,
        names: Sequence[str],
        everywhere: Mapping[str, ModelClock],
        *,
        outcomes: bool,
        everything: bool,
    ) -> None:
        """Note which logs are read to their ends, as :meth:`AtEnd.note` does.

        Parameters
        ----------
        models, names
            How far the partition is with its models, and their names, by model id.
        everywhere
            Model -> how far it is over all partitions.
        outcomes, everything
            Whether the logs of outcomes are at their ends; and whether all logs are.
        """
        if outcomes and self._outcomes_apart:
            self._of_outcomes.note(now, models.prediction_watermark_ms.copy)
        if everything:
            self._of_all.note(now, lambda: _ends(models, names, everywhere))

    def settled_ms(self, models: Models, pane_ms: int, *, outcomes_read: bool = False) -> Ints:
        """The settled edges of the partition, from :func:`monitor.store.settled.partition_edges_ms`.

        Of a model that is not silent its own clocks count, so that one wrong clock elsewhere does not make its events
        late here.

        Parameters
        ----------
        models
            How far the partition is with its models.
        outcomes_read
            Whether all outcomes have been read although they are apart, as at the end of a file.
        """
        own_ms = np.stack([models.prediction_watermark_ms, models.outcome_watermark_ms])
        answered_ms, elsewhere_ms = own_ms[0], np.full_like(own_ms, _NEVER)
        if self._outcomes_apart and not outcomes_read:
            answered_ms = np.full_like(answered_ms, _NEVER)
            if (known_ms := self._of_outcomes.known) is not None:
                answered_ms[: known_ms.size] = known_ms
        if (ends := self._of_all.known) is not None:
            known = np.s_[:, : ends.own_ms.shape[1]]
            silent = own_ms[known] == ends.own_ms
            elsewhere_ms[known] = np.where(silent, ends.everywhere_ms, _NEVER)
        return partition_edges_ms(
            own_ms,
            elsewhere_ms,
            answered_ms,
            lateness_ms=models.lateness_ms,
            wait_ms=models.lateness_ms + models.horizon_ms * models.awaits_outcomes,
            pane_ms=pane_ms,
        )


def _ends(models: Models, names: Sequence[str], everywhere: Mapping[str, ModelClock]) -> _Ends:
    own_ms = np.stack([models.prediction_watermark_ms, models.outcome_watermark_ms])
    of_models = [everywhere.get(name, (_NEVER, _NEVER))[:2] for name in names]
    newest_ms = max((clock.prediction_watermark_ms for clock in everywhere.values()), default=_NEVER)
    return _Ends(own_ms, np.array(of_models, np.int64).reshape(-1, 2).T, newest_ms)


class Alignment:
    """Finds topics of a partition that are ahead of the others, by the times at which records were written.

    Predictions that are read days ahead of their outcomes would have to be kept for those days. So a topic waits while
    another topic of the same partition is behind it and has records left. A replay then reads events about in the
    order in which they were written.

    Parameters
    ----------
    topics
        The topics of each partition.
    skew_ms
        How far one topic may be ahead of another.
    """

    def __init__(self, topics: Sequence[str], skew_ms: int) -> None:
        self._topics = topics
        self._skew_ms = skew_ms
        self._newest_ms: dict[TopicPartition, int] = {}
        self._read_at: dict[TopicPartition, float] = {}

    def note(self, where: TopicPartition, timestamp_ms: int, now: float) -> None:
        """Note a batch that was read at ``now``, and when its last record was written (-1 if unknown)."""
        self._newest_ms[where] = timestamp_ms
        self._read_at[where] = now

    def forget(self, partition: int) -> None:
        """Forget a partition that is no longer read."""
        for topic in self._topics:
            self._newest_ms.pop(TopicPartition(topic, partition), None)
            self._read_at.pop(TopicPartition(topic, partition), None)

    def ahead(self, lag: Mapping[TopicPartition, int], now: float) -> frozenset[TopicPartition]:
        """Topic partitions that have to wait, given how many records each has left."""
        if len(self._topics) == 1:
            return frozenset()
        waiting = set()
        for where, newest_ms in self._newest_ms.items():
            for topic in self._topics:
                sibling = TopicPartition(topic, where.partition)
                behind = newest_ms - self._newest_ms.get(sibling, newest_ms) > self._skew_ms
                # The rest of a log may be markers that never become records, so waiting is limited.
                has_records = (
                    lag.get(sibling, 0) > 0
                    and now - max(self._read_at[where], self._read_at.get(sibling, now)) < _MAX_WAIT_SECONDS
                )
                if behind and has_records:
                    waiting.add(where)
        return frozenset(waiting)
