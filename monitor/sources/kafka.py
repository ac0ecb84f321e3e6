"""Events from Kafka: one member of a consumer group, reading from the offsets that the store holds."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import structlog
from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.net.compat import KafkaNetClient

from monitor.clock import Clock
from monitor.errors import InstanceReplaced, SourceMisconfigured, SourceUnavailable
from monitor.events.log import LogRange, LogStart, Polled, Topics
from monitor.events.model import RecordBatch, TopicPartition
from monitor.sources.kafka_connection import (
    REFUSALS,
    KafkaConnection,
    make_client,
    partition_counts,
    same_partition_count,
)
from monitor.sources.kafka_extensions import (
    fix_joins,
    generation_is_current,
    request_topics,
    speed_up,
    unblock,
)

_POLL_SECONDS: Final = 0.2
"""Longest wait of one poll of the library, so that a rebalance is noticed in time."""

_DISCONNECTED_SECONDS: Final = 1.0
"""Time without any connection from which on the cluster counts as unavailable. A reconnection takes less."""

_CLOSE_SECONDS: Final = 5.0

_log = structlog.get_logger(__name__)


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

    def pop_changes(self) -> tuple[frozenset[int], frozenset[int]]:
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


class KafkaSource:
    """Reads topics as a member of a consumer group.

    The first poll connects. If it fails, poll again later: it succeeds once the brokers and the topics are there. The
    Range assignor assigns partitions of the same number together.

    A batch without records only says that the offset moved, past markers of transactions or to where a partition
    without a stored offset begins.

    Parameters
    ----------
    connection
        How the brokers are reached.
    topics
        What to read.
    group_id
        The consumer group that replicas of the service share.
    group_instance_id
        Name of this replica, for static membership: if it restarts within ``session_timeout_seconds``, it keeps its
        partitions, so ``close`` does not release them either.
    log_start
        Where to begin, and what to do when stored offsets are gone.
    session_timeout_seconds
        How long the group waits for a member that sends no heartbeats.
    max_poll_interval_seconds
        Longest time between two polls.
    clock
        Measures waiting times.

    Attributes
    ----------
    purged_offsets_skipped
        Number of offsets skipped because the log no longer held them, under ``when_purged="earliest"``.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topics: Topics,
        *,
        group_id: str,
        group_instance_id: str | None = None,
        log_start: LogStart | None = None,
        session_timeout_seconds: float = 45.0,
        max_poll_interval_seconds: float = 300.0,
        clock: Clock,
    ) -> None:
        self.purged_offsets_skipped = 0
        self._connection = connection
        self._topics = tuple(topics.kinds)
        self._log_start = log_start or LogStart()
        self._clock = clock
        self._options: dict[str, Any] = {
            **connection.options(),
            "group_id": group_id,
            "group_instance_id": group_instance_id,
            "session_timeout_ms": round(session_timeout_seconds * 1000),
            "heartbeat_interval_ms": round(min(3.0, session_timeout_seconds / 3) * 1000),
            "max_poll_interval_ms": round(max_poll_interval_seconds * 1000),
            "partition_assignment_strategy": [RangePartitionAssignor],
            "enable_auto_commit": False,
            "auto_offset_reset": "none",
            "allow_auto_create_topics": False,
            "isolation_level": "read_committed",
            "check_crcs": True,
            "metrics_enabled": False,
            "kafka_client": self._make_client,
        }
        self._consumer: KafkaConsumer | None = None
        self._client: KafkaNetClient | None = None
        self._membership = Membership(self._park, self._generation)
        self._next_offsets: dict[KafkaTopicPartition, int | None] = {}  # of the started ones
        self._paused: set[KafkaTopicPartition] = set()  # paused by the caller
        self._topic_ids: Mapping[str, str] = {}  # of those whose partitions are assigned
        self._disconnected_since: float | None = None
        self._commit_refused: Exception | None = None

    # ------------------------------------------------------------------ the contract

    def poll(self, timeout_seconds: float, max_records: int) -> Polled:
        """Read what has arrived; wait at most that long for the first record.

        Connecting, if necessary, comes on top (``connect_seconds`` at most). Process ``revoked`` before ``assigned``: a
        partition in both was revoked and came back, and its state may have changed meanwhile.

        Raises
        ------
        SourceUnavailable
            No broker answers, or a topic does not exist yet. Call again later: nothing is lost.
        SourceMisconfigured
            The broker refuses us, or partition counts differ. Call again later.
        OffsetPurged
            A stored offset is no longer in the log and the policy is to stop.
        InstanceReplaced
            Another process has taken this replica's place in the group.
        """
        revoked, assigned = self._pop_changes()
        if revoked or assigned:
            return Polled((), revoked, assigned)
        consumer = self._consumer or self._connect()
        if self._commit_refused is not None:
            refused, self._commit_refused = self._commit_refused, None
            raise self._replaced(refused)
        deadline = self._clock.monotonic() + timeout_seconds
        while True:
            remaining = deadline - self._clock.monotonic()
            wait_ms = max(0, round(min(remaining, _POLL_SECONDS) * 1000))
            fetched: Mapping[KafkaTopicPartition, Any] = {}
            unblock(consumer)
            with self._translated():
                fetched = consumer.poll(timeout_ms=wait_ms, max_records=max_records)
            revoked, assigned = self._pop_changes()
            batches = self._batches(consumer, fetched)
            if batches or revoked or assigned or self._clock.monotonic() >= deadline:
                break
        if not (batches or revoked or assigned):
            self._check_connected()
        return Polled(batches, revoked, assigned)

    def start(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Start an assigned partition, each topic from its stored offset, or from where the settings say.

        A later poll checks whether the log still holds the offsets. A partition that a rebalance has revoked meanwhile
        is not started: the next poll reports it.
        """
        for part in self._membership.ours.get(partition, ()):
            offset = offsets.get(part.topic)
            self._next_offsets[part] = offset
            consumer = self._joined()
            if offset is not None:
                consumer.seek(part, offset)
            elif self._log_start.when_new == "earliest":
                consumer.seek_to_beginning(part)
            else:
                consumer.seek_to_end(part)
            self._paused.discard(part)
            consumer.resume(part)

    def still_assigned(self) -> bool:
        """Check with the group's coordinator whether the generation of our assignment is the current one.

        Waits for ``request_seconds`` at most.
        """
        return self._consumer is not None and generation_is_current(self._consumer)

    @property
    def partitions(self) -> Collection[int]:
        """All partitions of the topics, those of other members too."""
        known: Collection[int] = self._joined().partitions_for_topic(self._topics[0])
        return known

    def topic_ids(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """The ids that the brokers have given to the topics; empty with brokers before Kafka 2.8, which give none.

        Raises
        ------
        OffsetPurged
            One is not that of the topic whose offsets are stored, and the policy is to stop.
        """
        for topic, topic_id in self._topic_ids.items():
            if known.get(topic, topic_id) != topic_id:
                self._log_start.skip_made_anew(topic)
        return self._topic_ids

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Read nothing from these until they are resumed. Those that are not assigned to us are ignored."""
        for part in self._ours(partitions):
            self._paused.add(part)
            self._joined().pause(part)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read from these again. One that was never started must still be started."""
        for part in self._ours(partitions):
            self._paused.discard(part)
            if part in self._next_offsets:
                self._joined().resume(part)

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """The end offset of each started topic partition, according to the last fetch."""
        ends: dict[TopicPartition, int] = {}
        for part in self._ours(TopicPartition(*part) for part in self._next_offsets):
            end = self._joined().highwater(part)
            if end is not None:
                ends[TopicPartition(*part)] = max(end, self._next_offsets[part] or 0)
        return ends

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit to the group without waiting. A failure is only logged."""
        ours = {
            KafkaTopicPartition(*part): OffsetAndMetadata(offset, "", -1)
            for part, offset in offsets.items()
            if KafkaTopicPartition(*part) in self._next_offsets
        }
        if self._consumer is None or not ours:
            return
        try:
            self._consumer.commit_async(ours, callback=self._committed)
        except kafka_errors.KafkaError as error:
            self._committed(ours, error)

    def close(self) -> None:
        """Leave the group, which assigns the partitions to others at once, unless this is a static member."""
        self._leave(_CLOSE_SECONDS)

    # ------------------------------------------------------------------ joining and leaving

    def _connect(self) -> KafkaConsumer:
        same_partition_count(partition_counts(self._connection, self._topics))
        with self._connection.translated():
            consumer = KafkaConsumer(**self._options)
        speed_up(consumer)
        fix_joins(consumer)
        consumer.subscribe(topics=self._topics, listener=self._membership)
        self._consumer = consumer
        self._disconnected_since = None
        return consumer

    def _make_client(self, **options: Any) -> KafkaNetClient:
        """Make the consumer's client, and keep it: it knows which brokers are connected."""
        self._client = make_client(**options)
        # kafka-python 3.0.12 does not pass the consumer's option on: a broker that creates topics on request would
        # create a missing one, with any number of partitions.
        self._client.cluster.config["allow_auto_create_topics"] = self._options["allow_auto_create_topics"]
        request_topics(self._client, self._topics)
        return self._client

    def _joined(self) -> KafkaConsumer:
        if self._consumer is None:
            raise RuntimeError("partitions are ours and yet no consumer has joined the group")
        return self._consumer

    def _leave(self, timeout_seconds: float) -> None:
        """Give everything up. The next poll reports that, and connects anew."""
        consumer, self._consumer = self._consumer, None
        self._membership.lose_all()
        self._next_offsets.clear()
        self._paused.clear()
        self._topic_ids = {}
        if consumer is None:
            return
        try:
            consumer.close(autocommit=False, timeout_ms=round(timeout_seconds * 1000))
        except kafka_errors.KafkaError as error:
            _log.warning("could not leave the consumer group in order", error=str(error))

    def _park(self, part: KafkaTopicPartition) -> None:
        """Pause a new partition. A placeholder position keeps the consumer from fetching the group's offset."""
        consumer = self._joined()
        consumer.pause(part)
        consumer.seek(part, 0)

    def _generation(self) -> int:
        return int(self._joined().group_metadata().generation_id)

    def _pop_changes(self) -> tuple[frozenset[int], frozenset[int]]:
        if any({part.topic for part in parts} != set(self._topics) for parts in self._membership.ours.values()):
            # The topics have changed. This raises with the details, unless they are correct again.
            self._leave(0)
            same_partition_count(partition_counts(self._connection, self._topics))
            raise SourceUnavailable("the topics' partitions changed; joining the group anew")
        if self._consumer is not None and self._membership.ours:
            ids = {topic: self._consumer._cluster.topic_id(topic) for topic in self._topics}  # noqa: SLF001
            now = {topic: str(topic_id) for topic, topic_id in ids.items() if topic_id is not None}
            before, self._topic_ids = self._topic_ids, {**self._topic_ids, **now}
            if any(before.get(topic, topic_id) != topic_id for topic, topic_id in now.items()):
                self._leave(0)
                raise SourceUnavailable("a topic was deleted and made anew; joining the group anew")
        revoked, assigned = self._membership.pop_changes()
        for part in [part for part in self._next_offsets if part.partition in revoked]:
            del self._next_offsets[part]
        self._paused = {part for part in self._paused if part.partition not in revoked}
        return revoked, assigned

    def _check_connected(self) -> None:
        client = self._client
        now = self._clock.monotonic()
        if client is None or any(client.connected(broker.node_id) for broker in client.cluster.brokers()):
            self._disconnected_since = None
            return
        if self._disconnected_since is None:
            self._disconnected_since = now
        disconnected_seconds = now - self._disconnected_since
        if disconnected_seconds * 1000 > self._options["session_timeout_ms"]:
            # The group has gone on without us, and the brokers may have moved: start from the bootstrap servers.
            self._leave(0)
        if disconnected_seconds > _DISCONNECTED_SECONDS:
            raise SourceUnavailable(f"no broker of Kafka at {self._connection.servers} is connected; trying again")

    # ------------------------------------------------------------------ records

    def _batches(self, consumer: KafkaConsumer, fetched: Mapping[KafkaTopicPartition, Any]) -> list[RecordBatch]:
        batches = []
        for part, records in fetched.items():
            if part in self._next_offsets:
                position = self._position(consumer, part)
                following = records[-1].offset + 1 if position is None else position
                self._next_offsets[part] = following
                batches.append(RecordBatch(part.topic, part.partition, records, following))
        for part, offset in self._next_offsets.items():
            # Reading positions takes time, so it is done only when there are no records.
            if part in fetched or (fetched and offset is not None) or part in self._paused:
                continue
            position = self._position(consumer, part)
            if position is not None and position != offset:
                self._next_offsets[part] = position
                batches.append(RecordBatch(part.topic, part.partition, (), position))
        return batches

    @staticmethod
    def _position(consumer: KafkaConsumer, part: KafkaTopicPartition) -> int | None:
        try:
            position = consumer.position(part, timeout_ms=0)
        except kafka_errors.KafkaError as error:
            # The fetched records are good. The error of the partition comes again at the next poll.
            _log.debug("position unknown", topic=part.topic, partition=part.partition, error=str(error))
            return None
        return None if position is None else int(position)

    def _committed(self, offsets: Mapping[KafkaTopicPartition, OffsetAndMetadata], answer: object) -> None:
        if isinstance(answer, Exception):
            _log.warning("commit to the consumer group failed", partitions=len(offsets), error=str(answer))
            if isinstance(answer, kafka_errors.FencedInstanceIdError):
                self._commit_refused = answer

    def _ours(self, partitions: Iterable[TopicPartition]) -> Iterator[KafkaTopicPartition]:
        for topic, number in partitions:
            part = KafkaTopicPartition(topic, number)
            if part in self._membership.ours.get(number, ()):
                yield part

    # ------------------------------------------------------------------ what can go wrong

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except kafka_errors.OffsetOutOfRangeError as error:
            (positions,) = error.args
            for part, offset in positions.items():
                self._purged(part, offset, None)
        except kafka_errors.LogTruncationError as error:
            for part, divergent in error.divergent_offsets.items():
                self._purged(part, self._next_offsets.get(part) or 0, None if divergent is None else divergent.offset)
        except kafka_errors.FencedInstanceIdError as error:
            self._leave(0)
            raise self._replaced(error) from error
        except REFUSALS as error:
            self._leave(0)
            raise SourceMisconfigured(f"Kafka at {self._connection.servers} refuses: {error}") from error
        except kafka_errors.RetriableError as error:
            raise SourceUnavailable(f"Kafka at {self._connection.servers}: {error}; trying again") from error
        except kafka_errors.KafkaError as error:
            # For example, a corrupt batch blocks kafka-python's fetcher. A new consumer reads it again.
            self._leave(0)
            raise SourceUnavailable(f"Kafka at {self._connection.servers}: {error}; joining the group anew") from error

    def _replaced(self, error: Exception) -> InstanceReplaced:
        return InstanceReplaced(
            f"another process has joined the consumer group {self._options['group_id']} as "
            f"{self._options['group_instance_id']} ({error}); give each replica a source.kafka.group_instance_id "
            "of its own, and restart this one"
        )

    def _purged(self, part: KafkaTopicPartition, offset: int, divergent: int | None) -> None:
        """Go on after an offset that is not, or no longer, in the log."""
        consumer = self._joined()
        timeout_ms = self._options["request_timeout_ms"]
        try:
            bounds = LogRange(
                consumer.beginning_offsets([part], timeout_ms)[part], consumer.end_offsets([part], timeout_ms)[part]
            )
        except kafka_errors.KafkaError as error:
            raise SourceUnavailable(f"Kafka at {self._connection.servers}: {error}; trying again") from error
        onward = self._log_start.skip_purged(TopicPartition(*part), offset, bounds, "topic", divergent)
        self.purged_offsets_skipped += max(onward - offset, 0)
        consumer.seek(part, onward)
        self._next_offsets[part] = None
