"""One member of a consumer group: the partitions that rebalances give and take, and fixes for kafka-python's joins.

kafka-python (3.0.12) lets a join go on in the background when a poll's time is up, but loses it in two ways:

- It decides anew at every poll whether to join. A leader that rejoins because a topic's partitions became known, or
  grew, has noted what it assigned from by the time of the answer, and sees no reason any more. It never applies its
  assignment and sends no heartbeat: the group goes on without it, and it never reads again.
- It discards an answer that came between two polls, and joins once more. If the leader does so, that is another
  rebalance, which the other members learn of seconds later; and their answers may again come between the leader's
  polls. On a slow machine, partitions are so assigned time and again, and never read.

Besides, a leader assigns before it knows the topics' partitions: nothing to anybody. It learns them a moment later and
assigns again, and in between nobody reads.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.net.compat import KafkaNetClient

Parts = Mapping[int, frozenset[KafkaTopicPartition]]
"""Topic partitions by their number: one of each topic."""


class Membership(ConsumerRebalanceListener):  # type: ignore[misc] # kafka-python ships no types
    """Tracks which partitions are assigned to this member; kafka-python calls it while a poll rejoins the group.

    The Range assignor revokes every partition before it assigns them anew, even those that come straight back. A
    partition that comes back in the very next generation is not reported: no other member can have had it, and
    restoring its state would take seconds.

    Parameters
    ----------
    park
        Keeps a newly assigned topic partition from bringing records.
    generation
        The group's current generation.
    """

    def __init__(self, park: Callable[[KafkaTopicPartition], None], generation: Callable[[], int]) -> None:
        self.ours: Parts = {}
        self._park = park
        self._current_generation = generation
        self._generation: int | None = None
        self._revoked: set[int] = set()
        self._assigned: set[int] = set()

    def take_changes(self) -> tuple[frozenset[int], frozenset[int]]:
        """Partition numbers revoked and assigned since the last call. One may be in both: it was revoked first."""
        changes = frozenset(self._revoked), frozenset(self._assigned)
        self._revoked.clear()
        self._assigned.clear()
        return changes

    def on_partitions_revoked(self, revoked: Collection[KafkaTopicPartition]) -> None:
        """Do nothing: the assignment that follows says which of them are gone for good."""

    def on_partitions_lost(self, lost: Collection[KafkaTopicPartition]) -> None:  # noqa: ARG002 - it is all of them
        """Give everything up: the group has gone on without us."""
        self.lose_all()

    def on_partitions_assigned(self, assigned: Collection[KafkaTopicPartition]) -> None:
        """Compare the new assignment with the one before."""
        generation = self._current_generation()
        successor = self._generation is not None and generation == self._generation + 1
        self._generation = generation
        before, self.ours = self.ours, _by_number(assigned)
        kept = {number for number, parts in self.ours.items() if successor and before.get(number) == parts}
        self._lose(before.keys() - kept)
        for number in self.ours.keys() - kept:
            self._assigned.add(number)
            for part in self.ours[number]:
                self._park(part)

    def lose_all(self) -> None:
        """Count every partition as revoked."""
        self._lose(self.ours.keys())
        self.ours = {}
        self._generation = None

    def _lose(self, numbers: Collection[int]) -> None:
        for number in numbers:
            # One that was assigned and revoked between two polls is never reported.
            if number in self._assigned:
                self._assigned.remove(number)
            else:
                self._revoked.add(number)


def _by_number(parts: Collection[KafkaTopicPartition]) -> Parts:
    numbers = {part.partition for part in parts}
    return {number: frozenset(part for part in parts if part.partition == number) for number in sorted(numbers)}


def remember_joins(consumer: KafkaConsumer) -> None:
    """Fix the joins of a consumer that has not subscribed yet."""
    consumer._coordinator.__class__ = _Coordinator  # noqa: SLF001 - the library offers no other place


def request_topics(client: KafkaNetClient, topics: Iterable[str]) -> None:
    """Let a client that is not connected yet request the metadata of these topics at once.

    A consumer requests it only when it subscribes, which is too late for its first assignment.
    """
    client.cluster.set_topics(topics)


def generation_is_current(consumer: KafkaConsumer) -> bool:
    """Send a heartbeat to learn whether the consumer's generation is the group's current one.

    False where the group is rebalancing or does not answer: the next poll finds out.
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
    """kafka-python's coordinator, which here keeps the answer to a join until the next poll."""

    _join_task: Any

    def need_rejoin(self) -> bool:
        """Whether a join must be started or finished."""
        return bool(self.rejoining or super().need_rejoin())

    async def join_group_async(self, timeout_ms: float | None = None) -> bool:
        """Join, or process the answer to the pending join."""
        join = self._join_task
        if join is not None and join.is_done and not isinstance(join, _AnsweredJoin):
            # An answer that is a session old may be of a group that has since gone on without us.
            self._join_task = None if self.heartbeat.session_timeout_expired() else _AnsweredJoin(join)
        return bool(await super().join_group_async(timeout_ms))

    async def _do_join_and_sync_async(self) -> bytes:
        assignment: bytes = await super()._do_join_and_sync_async()
        # The broker's session timer starts here, though heartbeats only go on once the assignment is processed.
        self.heartbeat.received_heartbeat()
        return assignment

    def _perform_assignment(self, *arguments: Any) -> Any:
        # Assign from the current metadata, not that of the last change: else the next answer looks like a change.
        self._metadata_snapshot = self._build_metadata_snapshot(self._subscription, self._cluster)
        return super()._perform_assignment(*arguments)


class _AnsweredJoin:
    """A join that has been answered, but looks pending to the one check that would discard it."""

    def __init__(self, join: Any) -> None:
        self._join = join
        self._checked = False

    @property
    def is_done(self) -> bool:
        """False at the first call, then True: a second check means that the answer was of no use."""
        checked, self._checked = self._checked, True
        return checked

    def add_callback(self, take: Callable[[bytes], None]) -> None:
        """Pass on the assignment, if that was the answer."""
        self._join.add_callback(take)

    def add_errback(self, take: Callable[[Exception], None]) -> None:
        """Pass on the error, if that was the answer."""
        self._join.add_errback(take)

    def __await__(self) -> Any:
        return self._join.__await__()
