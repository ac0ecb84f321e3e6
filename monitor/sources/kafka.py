"""Events from Kafka: one member of a consumer group, reading from the offsets that the store holds."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import structlog
from kafka import KafkaConsumer, OffsetAndMetadata
from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.net.compat import KafkaNetClient

from monitor.clock import Clock, SystemClock
from monitor.errors import InstanceReplaced, OffsetPurged, SettingsError, SourceMisconfigured, SourceUnavailable
from monitor.events.model import RecordBatch
from monitor.sources.base import LogStart, Polled, TopicPartition, Topics
from monitor.sources.kafka_connection import (
    REFUSALS,
    KafkaConnection,
    make_client,
    partition_counts,
    same_partition_count,
)
from monitor.sources.kafka_group import Membership, generation_is_current, remember_joins, request_topics
from monitor.sources.kafka_records import speed_up

_SLICE_SECONDS: Final = 0.2
"""A wait is cut into pieces of this length, so that a rebalance is heard of before its end."""

_SILENCE_SECONDS: Final = 1.0
"""Without any connection for this long, the cluster counts as unavailable. A reconnection takes less."""

_CLOSE_SECONDS: Final = 5.0

_log = structlog.get_logger(__name__)


class KafkaSource:
    """Reads topics as a member of a consumer group.

    Nothing is connected before the first poll, and that may fail as any other may: whoever polls again, with
    patience, gets there as soon as the brokers, and the topics, do. Partitions are dealt by the Range assignor, so
    that partitions of one number stay together.

    A batch may hold no records: it then only says that the offset moved, past markers of transactions or to where a
    partition that had no stored offset begins.

    Parameters
    ----------
    connection
        How the brokers are reached.
    topics
        What to read.
    group_id
        The consumer group that replicas of the service share.
    group_instance_id
        Name of this replica, for static membership: if it restarts within ``session_timeout_seconds``, its partitions
        stay where they are, so ``close`` does not hand them on either.
    log_start
        Where to begin, and what to do when stored offsets are gone.
    session_timeout_seconds
        How long the group waits for a member that has fallen silent.
    max_poll_interval_seconds
        How long a member may take from poll to poll.
    clock
        Measures how long to wait.

    Attributes
    ----------
    purged_offsets_skipped
        Offsets passed over because the log no longer held them, under ``when_purged="earliest"``.
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
        clock: Clock | None = None,
    ) -> None:
        if not topics.kinds:
            raise SettingsError("topics must name at least one topic, got none")
        self.purged_offsets_skipped = 0
        self._connection = connection
        self._topics = tuple(topics.kinds)
        self._log_start = log_start or LogStart()
        self._clock = clock or SystemClock()
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
        self._next: dict[KafkaTopicPartition, int | None] = {}  # started topic partitions, and what they bring next
        self._held: set[KafkaTopicPartition] = set()  # paused by the owner of this source
        self._silent_since: float | None = None
        self._commit_refused: Exception | None = None

    # ------------------------------------------------------------------ the contract

    def poll(self, timeout_seconds: float, max_records: int) -> Polled:
        """Bring what has arrived, waiting at most that long for the first record.

        Connecting, where that is needed, comes on top (``connect_seconds`` at most). ``revoked`` is to be looked at
        before ``assigned``: a partition in both went and came back, and its state may have changed meanwhile.

        Raises
        ------
        SourceUnavailable
            No broker answers, or a topic does not exist yet. Call again later: nothing is lost.
        SourceMisconfigured
            The broker refuses us, or partition counts differ. Call again later: somebody may fix it.
        OffsetPurged
            A stored offset is no longer in the log and the policy is to stop.
        InstanceReplaced
            Another process has taken this replica's place in the group.
        """
        revoked, assigned = self._take_changes()
        if revoked or assigned:
            return Polled((), revoked, assigned)
        consumer = self._consumer or self._connect()
        if self._commit_refused is not None:
            refused, self._commit_refused = self._commit_refused, None
            raise self._replaced(refused)
        deadline = self._clock.monotonic() + timeout_seconds
        while True:
            remaining = deadline - self._clock.monotonic()
            wait_ms = max(0, round(min(remaining, _SLICE_SECONDS) * 1000))
            fetched: Mapping[KafkaTopicPartition, Any] = {}
            _unblock(consumer)
            with self._translated():
                fetched = consumer.poll(timeout_ms=wait_ms, max_records=max_records)
            revoked, assigned = self._take_changes()
            batches = self._batches(consumer, fetched)
            if batches or revoked or assigned or self._clock.monotonic() >= deadline:
                break
        if not (batches or revoked or assigned):
            self._check_connected()
        return Polled(batches, revoked, assigned)

    def start(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Let an assigned partition run, each topic from its stored offset, or from where the settings say.

        Whether the log still holds the offsets shows when it is asked for them, at a later poll. A partition that a
        rebalance has taken meanwhile stays still: the next poll says so.
        """
        for part in self._membership.ours.get(partition, ()):
            offset = offsets.get(part.topic)
            self._next[part] = offset
            consumer = self._joined()
            if offset is not None:
                consumer.seek(part, offset)
            elif self._log_start.when_new == "earliest":
                consumer.seek_to_beginning(part)
            else:
                consumer.seek_to_end(part)
            self._held.discard(part)
            consumer.resume(part)

    def still_assigned(self) -> bool:
        """Ask the group's coordinator whether the generation in which our partitions were assigned is the current one.

        Waits for ``request_seconds`` at most.
        """
        return self._consumer is not None and generation_is_current(self._consumer)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring nothing from these until they are resumed. Those that are not ours are passed over."""
        for part in self._ours(partitions):
            self._held.add(part)
            self._joined().pause(part)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring records from these again. One that was never started still waits for that."""
        for part in self._ours(partitions):
            self._held.discard(part)
            if part in self._next:
                self._joined().resume(part)

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """Where each running topic partition ends, as the last answer to a fetch said."""
        ends: dict[TopicPartition, int] = {}
        for part in self._ours(TopicPartition(*part) for part in self._next):
            end = self._joined().highwater(part)
            if end is not None:
                ends[TopicPartition(*part)] = max(end, self._next[part] or 0)
        return ends

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell the group how far the saved state reaches, without waiting. A failure is logged and does no harm."""
        ours = {
            KafkaTopicPartition(*part): OffsetAndMetadata(offset, "", -1)
            for part, offset in offsets.items()
            if KafkaTopicPartition(*part) in self._next
        }
        if self._consumer is None or not ours:
            return
        try:
            self._consumer.commit_async(ours, callback=self._committed)
        except kafka_errors.KafkaError as error:
            self._committed(ours, error)

    def close(self) -> None:
        """Leave the group: it hands the partitions on at once, unless this is a static member."""
        self._leave(_CLOSE_SECONDS)

    # ------------------------------------------------------------------ joining and leaving

    def _connect(self) -> KafkaConsumer:
        same_partition_count(partition_counts(self._connection, self._topics))
        try:
            consumer = KafkaConsumer(**self._options)
        except kafka_errors.KafkaError as error:
            raise self._connection.explain(error) from error
        speed_up(consumer)
        remember_joins(consumer)
        consumer.subscribe(topics=self._topics, listener=self._membership)
        self._consumer = consumer
        self._silent_since = None
        return consumer

    def _make_client(self, **options: Any) -> KafkaNetClient:
        """Make the consumer's client, and keep hold of it: it knows which brokers are connected."""
        self._client = make_client(**options)
        # The consumer's own option of that name never gets there (kafka-python 3.0.12): a broker that makes topics
        # would make a missing one of ours, with partitions of its choice.
        self._client.cluster.config["allow_auto_create_topics"] = self._options["allow_auto_create_topics"]
        request_topics(self._client, self._topics)
        return self._client

    def _joined(self) -> KafkaConsumer:
        if self._consumer is None:
            raise RuntimeError("partitions are ours and yet no consumer has joined the group")
        return self._consumer

    def _leave(self, patience_seconds: float) -> None:
        """Give everything up. The next poll says so first, and then starts afresh."""
        consumer, self._consumer = self._consumer, None
        self._membership.lose_all()
        self._next.clear()
        self._held.clear()
        if consumer is None:
            return
        try:
            consumer.close(autocommit=False, timeout_ms=round(patience_seconds * 1000))
        except kafka_errors.KafkaError as error:
            _log.warning("could not leave the consumer group in order", error=str(error))

    def _park(self, part: KafkaTopicPartition) -> None:
        """Keep a new partition still. With a position, though a made-up one, the group is not asked for its offset."""
        consumer = self._joined()
        consumer.pause(part)
        consumer.seek(part, 0)

    def _generation(self) -> int:
        return int(self._joined().group_metadata().generation_id)

    def _take_changes(self) -> tuple[frozenset[int], frozenset[int]]:
        if any({part.topic for part in parts} != set(self._topics) for parts in self._membership.ours.values()):
            # The topics changed under us. This says how, unless they have been mended already.
            self._leave(0)
            same_partition_count(partition_counts(self._connection, self._topics))
            raise SourceUnavailable("the topics' partitions changed; joining the group anew")
        revoked, assigned = self._membership.take_changes()
        for part in [part for part in self._next if part.partition in revoked]:
            del self._next[part]
        self._held = {part for part in self._held if part.partition not in revoked}
        return revoked, assigned

    def _check_connected(self) -> None:
        client = self._client
        now = self._clock.monotonic()
        if client is None or any(client.connected(broker.node_id) for broker in client.cluster.brokers()):
            self._silent_since = None
            return
        if self._silent_since is None:
            self._silent_since = now
        silent_seconds = now - self._silent_since
        if silent_seconds * 1000 > self._options["session_timeout_ms"]:
            # The group has gone on without us, and the brokers may have moved: look for them from the beginning.
            self._leave(0)
        if silent_seconds > _SILENCE_SECONDS:
            raise SourceUnavailable(f"no broker of Kafka at {self._connection.servers} is connected; trying again")

    # ------------------------------------------------------------------ records

    def _batches(self, consumer: KafkaConsumer, fetched: Mapping[KafkaTopicPartition, Any]) -> list[RecordBatch]:
        batches = []
        for part, records in fetched.items():
            if part in self._next:
                position = self._position(consumer, part)
                following = records[-1].offset + 1 if position is None else position
                self._next[part] = following
                batches.append(RecordBatch(part.topic, part.partition, records, following))
        for part, known in self._next.items():
            # Asking for positions costs time, so markers are looked for when there is nothing else to do.
            if part in fetched or (fetched and known is not None) or part in self._held:
                continue
            position = self._position(consumer, part)
            if position is not None and position != known:
                self._next[part] = position
                batches.append(RecordBatch(part.topic, part.partition, (), position))
        return batches

    @staticmethod
    def _position(consumer: KafkaConsumer, part: KafkaTopicPartition) -> int | None:
        try:
            position = consumer.position(part, timeout_ms=0)
        except kafka_errors.KafkaError as error:
            # What was fetched is good. What is wrong with the partition shows again at the next poll.
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
                self._purged(part, self._next.get(part) or 0, None if divergent is None else divergent.offset)
        except kafka_errors.FencedInstanceIdError as error:
            self._leave(0)
            raise self._replaced(error) from error
        except REFUSALS as error:
            self._leave(0)
            raise SourceMisconfigured(f"Kafka at {self._connection.servers} refuses: {error}") from error
        except kafka_errors.RetriableError as error:
            raise SourceUnavailable(f"Kafka at {self._connection.servers}: {error}; trying again") from error
        except kafka_errors.KafkaError as error:
            # A corrupt batch, for one, leaves kafka-python's fetcher stuck. A new consumer reads it anew.
            self._leave(0)
            raise SourceUnavailable(f"Kafka at {self._connection.servers}: {error}; joining the group anew") from error

    def _replaced(self, error: Exception) -> InstanceReplaced:
        return InstanceReplaced(
            f"another process has joined the consumer group {self._options['group_id']} as "
            f"{self._options['group_instance_id']} ({error}); give each replica a source.kafka.group_instance_id "
            "of its own, and restart this one"
        )

    def _purged(self, part: KafkaTopicPartition, offset: int, divergent: int | None) -> None:
        """Follow the policy for an offset that the log does not hold (any more)."""
        consumer = self._joined()
        timeout_ms = self._options["request_timeout_ms"]
        try:
            earliest = consumer.beginning_offsets([part], timeout_ms)[part]
            end = consumer.end_offsets([part], timeout_ms)[part]
        except kafka_errors.KafkaError as error:
            raise SourceUnavailable(f"Kafka at {self._connection.servers}: {error}; trying again") from error
        if offset < earliest:
            why = f"was purged: the log begins at {earliest}"
        else:
            why = f"was never written to this log, which ends at {end}: the topic was made anew, or cut back"
        onward = earliest if divergent is None else divergent
        if self._log_start.when_purged == "stop":
            raise OffsetPurged(
                f"topic {part.topic} partition {part.partition}: the stored offset {offset} {why}. Keep the topic "
                f"longer than the service may stand still, and set source.when_purged to earliest to go on from "
                f"offset {onward} without the missing events"
            )
        skipped = max(onward - offset, 0)
        self.purged_offsets_skipped += skipped
        _log.warning(
            "the stored offset is not in the log; going on from the earliest",
            topic=part.topic, partition=part.partition, stored=offset, going_on_from=onward, skipped=skipped,
        )  # fmt: skip
        consumer.seek(part, onward)
        self._next[part] = None


def _unblock(consumer: KafkaConsumer) -> None:
    """Let what was fetched for partitions that were paused meanwhile come to its turn.

    kafka-python (3.0.12) keeps it aside and takes it up again only while nothing else is in its one slot for records
    in turn; what is used up stays in there, so a resumed partition would stand still for ever.
    """
    fetcher = consumer._fetcher  # noqa: SLF001 - there is no public way
    if fetcher._next_partition_records is not None and not fetcher._next_partition_records:  # noqa: SLF001
        fetcher._next_partition_records = None  # noqa: SLF001
