"""How far the topics of a partition are read, compared with each other."""

from collections.abc import Mapping, Sequence
from typing import Final

from monitor.sources.base import TopicPartition

_MAX_WAIT_SECONDS: Final = 10.0
"""How long a topic waits for another that brings no records."""


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
