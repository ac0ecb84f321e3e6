"""A member of a consumer group that takes in what the group answers between two polls.

kafka-python (3.0.12) lets a join go on in the background when a poll's time is up, but forgets it in two ways:

- It asks "must I join?" anew at every poll. A leader that rejoins because a topic's partitions became known, or grew,
  has noted what it dealt from by the time of the answer, and sees no reason any more. What it was dealt is never taken
  in and no heartbeat is sent: the group goes on without it, and it reads nothing, for ever.
- An answer that came between two polls is thrown away, and it joins once more. From the leader that is another
  rebalance, which the others hear of seconds later; and when they answer, it may be between the leader's polls again.
  On a slow machine, partitions are so dealt time and again, and never read.

Besides, a leader deals before it has heard of the topics' partitions: nothing to anybody. It hears of them a moment
later and deals again, and in between nobody reads.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kafka import KafkaConsumer
from kafka import errors as kafka_errors
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.net.compat import KafkaNetClient


def remember_joins(consumer: KafkaConsumer) -> None:
    """Let a consumer that has not subscribed yet take part in its group this way."""
    consumer._coordinator.__class__ = _Coordinator  # noqa: SLF001 - the library offers no other place


def know_topics(client: KafkaNetClient, topics: Iterable[str]) -> None:
    """Let a client that is not connected yet ask for these topics at once.

    A consumer asks for them only when it subscribes, which is too late for its first deal.
    """
    client.cluster.set_topics(topics)


def generation_is_current(consumer: KafkaConsumer) -> bool:
    """Ask the group's coordinator, by a heartbeat, whether the consumer's generation is the group's current one.

    False where the group is rebalancing or does not answer: what is true then, the next poll finds out.
    """
    coordinator = consumer._coordinator  # noqa: SLF001 - the library offers no other way
    if coordinator.generation_if_stable() is None:
        return False
    try:
        coordinator._net.run(coordinator._send_heartbeat_request)  # noqa: SLF001
    except kafka_errors.KafkaError:
        return False
    return True


class _Coordinator(ConsumerCoordinator):  # type: ignore[misc]  # kafka-python ships no types
    """kafka-python's, with a memory for joins under way."""

    _join_task: Any

    def need_rejoin(self) -> bool:
        """Whether there is a join to begin, or one to bring to its end."""
        return bool(self.rejoining or super().need_rejoin())

    async def join_group_async(self, timeout_ms: float | None = None) -> bool:
        """Join, or take in the answer to the join that was under way."""
        join = self._join_task
        if join is not None and join.is_done and not isinstance(join, _Answered):
            # An answer that has waited for a whole session may be about a group that has since gone on without us.
            self._join_task = None if self.heartbeat.session_timeout_expired() else _Answered(join)
        return bool(await super().join_group_async(timeout_ms))

    async def _do_join_and_sync_async(self) -> bytes:
        assignment: bytes = await super()._do_join_and_sync_async()
        # For the broker the session begins anew here, though heartbeats only go on once the assignment is taken in.
        self.heartbeat.received_heartbeat()
        return assignment

    def _perform_assignment(self, *arguments: Any) -> Any:
        # Dealt from is what is known now, and not only since the last change: the next answer would look like another.
        self._metadata_snapshot = self._build_metadata_snapshot(self._subscription, self._cluster)
        return super()._perform_assignment(*arguments)


class _Answered:
    """A join that has been answered. To the one look that would throw it away it seems to be under way."""

    def __init__(self, join: Any) -> None:
        self._join = join
        self._looked_at = False

    @property
    def is_done(self) -> bool:
        """False, and from then on true: whoever finds this again did not get anywhere with its answer."""
        looked_at, self._looked_at = self._looked_at, True
        return looked_at

    def add_callback(self, take: Callable[[bytes], None]) -> None:
        """Hand over the assignment, if that was the answer."""
        self._join.add_callback(take)

    def add_errback(self, take: Callable[[Exception], None]) -> None:
        """Hand over the error, if that was the answer."""
        self._join.add_errback(take)

    def __await__(self) -> Any:
        return self._join.__await__()
