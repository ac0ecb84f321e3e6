"""What every source of events does. Its tests run on all of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from monitor.events.model import Kind, RecordBatch


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics that are read, each with the type that its events have when they name none.

    All of them must have the same number of partitions, and an outcome must stand in the partition of the same number
    as its prediction: key both by the prediction's id.
    """

    kinds: Mapping[str, Kind | None]


@dataclass(frozen=True, slots=True)
class Polled:
    """What one poll brought.

    Attributes
    ----------
    batches
        The records, at most one batch a topic partition.
    revoked
        Partition numbers that are no longer this reader's. Their state must not be written any more.
    assigned
        Partition numbers that are this reader's since this poll. They wait, and bring no records, until started.
    """

    batches: Sequence[RecordBatch] = ()
    revoked: frozenset[int] = frozenset()
    assigned: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Message:
    """A message to be written: by `replay`, by POST /v1/events, by the simulator, or to the dead letters."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    partition: int | None = None
    """None leaves it to the key, by Kafka's own hash, so that both sources place an id alike."""
    timestamp_ms: int | None = None
    """When it is to count as written; None means now."""


class Source(Protocol):
    """Reads the log. One thread owns it: no method may be called from another, save where it says so.

    Attributes
    ----------
    purged_offsets_skipped
        Offsets passed over because the log no longer held them, since it was made.
    """

    purged_offsets_skipped: int

    def poll(self, timeout_seconds: float, max_records: int) -> Polled:
        """Bring what has arrived, waiting at most that long for the first record.

        Raises
        ------
        SourceUnavailable
            The broker does not answer. Call again later: nothing is lost.
        SourceMisconfigured
            The broker refuses us, or the topics do not fit. Call again later: somebody may fix it.
        OffsetPurged
            A stored offset is no longer in the log and the policy is to stop.
        InstanceReplaced
            Another process has taken this replica's place in the group.
        """
        ...

    def start(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Let an assigned partition run, each topic from its stored offset, whether or not it was paused or ran before.

        A topic without a stored offset runs from where the settings say (its beginning or its end). A stored offset
        that is no longer in the log follows the declared policy: stop with OffsetPurged, or go on from the earliest
        record that is left (counted, and said in a warning).
        """
        ...

    def still_assigned(self) -> bool:
        """Ask whoever assigns the partitions whether the assignment that the last poll left is still in force.

        If not, or if that is not known for certain, a later poll says what changed.
        """
        ...

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring nothing from these until they are resumed: backpressure. Paused ones stay assigned."""
        ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Bring records from these again."""
        ...

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """Where each assigned topic partition ends, as far as is known without asking the broker."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell the log how far the saved state reaches. For other tools' eyes only: reading resumes from the store."""
        ...

    def close(self) -> None:
        """Leave: the group hands the partitions on at once."""
        ...


class Writer(Protocol):
    """Writes to the log. May be called from any thread."""

    def write(self, messages: Sequence[Message]) -> None:
        """Write the messages; when this returns they are durable.

        Raises
        ------
        SourceUnavailable
            The broker did not take them. Some may have been written.
        """
        ...

    def close(self) -> None:
        """Release what is held."""
        ...


@dataclass(frozen=True, slots=True)
class LogStart:
    """Where reading begins when nothing is stored, and what happens when the stored offset is gone."""

    when_new: Literal["earliest", "latest"] = "earliest"
    when_purged: Literal["stop", "earliest"] = "stop"
