"""What the rebalances of a consumer group mean for one member: which partition numbers came, and which went."""

from collections.abc import Callable, Collection, Mapping

from kafka import ConsumerRebalanceListener
from kafka import TopicPartition as KafkaTopicPartition

Parts = Mapping[int, frozenset[KafkaTopicPartition]]
"""Topic partitions by their number: one of each topic."""


class Membership(ConsumerRebalanceListener):  # type: ignore[misc] # kafka-python ships no types
    """Keeps the books of the partitions that are ours; kafka-python calls it while a poll rejoins the group.

    The Range assignor takes every partition away before it deals them anew, even those that come straight back. A
    partition that does come back is passed over in silence, for restoring its state would take seconds and bring
    nothing: in the generation that directly follows ours, nobody else can have had it.

    Parameters
    ----------
    park
        Keeps a topic partition that is newly ours from bringing records.
    generation
        The group's current generation.
    """

    def __init__(self, park: Callable[[KafkaTopicPartition], None], generation: Callable[[], int]) -> None:
        self._park = park
        self._generation_now = generation
        self._generation: int | None = None
        self._ours: Parts = {}
        self._gone: set[int] = set()
        self._come: set[int] = set()

    @property
    def ours(self) -> Parts:
        """What is assigned to this member."""
        return self._ours

    def news(self) -> tuple[frozenset[int], frozenset[int]]:
        """Partition numbers that went and that came since this was last asked. One may be in both: it went first."""
        news = frozenset(self._gone), frozenset(self._come)
        self._gone.clear()
        self._come.clear()
        return news

    def on_partitions_revoked(self, revoked: Collection[KafkaTopicPartition]) -> None:
        """Wait for the assignment that follows: it says which of them have gone for good."""

    def on_partitions_lost(self, lost: Collection[KafkaTopicPartition]) -> None:  # noqa: ARG002 - it is all of them
        """Give everything up: the group has gone on without us."""
        self.lose_all()

    def on_partitions_assigned(self, assigned: Collection[KafkaTopicPartition]) -> None:
        """Compare the new assignment with the one before."""
        generation = self._generation_now()
        successor = self._generation is not None and generation == self._generation + 1
        self._generation = generation
        before, self._ours = self._ours, _by_number(assigned)
        kept = {number for number, parts in self._ours.items() if successor and before.get(number) == parts}
        self._went(before.keys() - kept)
        for number in self._ours.keys() - kept:
            self._come.add(number)
            for part in self._ours[number]:
                self._park(part)

    def lose_all(self) -> None:
        """Count every partition as gone."""
        self._went(self._ours.keys())
        self._ours = {}
        self._generation = None

    def _went(self, numbers: Collection[int]) -> None:
        for number in numbers:
            # One that came and went between two polls was never heard of.
            if number in self._come:
                self._come.remove(number)
            else:
                self._gone.add(number)


def _by_number(parts: Collection[KafkaTopicPartition]) -> Parts:
    numbers = {part.partition for part in parts}
    return {number: frozenset(part for part in parts if part.partition == number) for number in sorted(numbers)}
