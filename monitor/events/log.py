"""The contract of all sources and writers of events; the same tests run on each of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import structlog

from monitor.errors import OffsetPurged, SettingsError
from monitor.events.model import Kind, Message, RecordBatch, TopicPartition

_log = structlog.get_logger(__name__)


class LogRange(NamedTuple):
    """The first offset of a topic partition, and the one after its last."""

    earliest: int
    end: int


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics to read, each with the type of its events without a ``type``.

    All topics must have the same number of partitions, and an outcome must be in the partition of the same number as
    its prediction: key both by the prediction's id.
    """

    kinds: Mapping[str, Kind | None]

    def __post_init__(self) -> None:
        if not self.kinds:
            raise SettingsError("topics must name at least one topic, got none")


@dataclass(frozen=True, slots=True)
class Polled:
    """The result of one poll.

    Attributes
    ----------
    batches
        The records, at most one batch a topic partition.
    revoked
        Partition numbers that are no longer assigned to this reader. Their state must not be written any more.
    assigned
        Partition numbers assigned to this reader by this poll. They bring no records until started.
    """

    batches: Sequence[RecordBatch] = ()
    revoked: frozenset[int] = frozenset()
    assigned: frozenset[int] = frozenset()


class Source(Protocol):
    """Reads the log. One thread owns it and makes all calls.

    Attributes
    ----------
    purged_offsets_skipped
        Number of offsets skipped because the log no longer held them.
    """

    purged_offsets_skipped: int

    def poll(self, timeout_seconds: float, max_records: int) -> Polled:
        """Read what has arrived; wait at most that long for the first record.

        Raises
        ------
        SourceUnavailable
            The broker does not answer. Call again later: nothing is lost.
        SourceMisconfigured
            The broker refuses us, or the topics have different numbers of partitions. Call again later.
        OffsetPurged
            A stored offset is no longer in the log and the policy is to stop.
        InstanceReplaced
            Another process has taken this replica's place in the group.
        """
        ...

    def start(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Start an assigned partition, each topic from its stored offset, even if it was paused or started before.

        A topic without a stored offset starts where the settings say (at its beginning or its end). For a stored
        offset that is no longer in the log, the settings decide: stop with OffsetPurged, or go on from the earliest
        record (counted and logged).
        """
        ...

    def still_assigned(self) -> bool:
        """Check with the group whether the assignment of the last poll is still valid.

        If not, or if unknown, a later poll reports what changed.
        """
        ...

    @property
    def partitions(self) -> Collection[int]:
        """All partitions of the topics, those of other readers too, as of the last assignment."""
        ...

    def topic_ids(self, known: Mapping[str, str]) -> Mapping[str, str]:
        """The ids of the topics: one that is deleted and made anew has another. Empty if the log has no ids.

        Parameters
        ----------
        known
            The ids of those whose offsets are stored.

        Raises
        ------
        OffsetPurged
            A topic has another id than that, and the policy is to stop.
        """
        ...

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Read nothing from these until they are resumed: backpressure. They stay assigned."""
        ...

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read from these again."""
        ...

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """The end offset of each assigned topic partition, as far as known without a request to the broker."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit how far the saved state reaches, for other tools only: reading resumes from the store."""
        ...

    def close(self) -> None:
        """Leave the group, which assigns the partitions to others at once."""
        ...


class Writer(Protocol):
    """Writes to the log. May be called from any thread."""

    def write(self, messages: Sequence[Message]) -> None:
        """Write the messages; they are durable when this returns.

        Raises
        ------
        SourceUnavailable
            The broker did not accept them. Some may have been written.
        """
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


@dataclass(frozen=True, slots=True)
class LogStart:
    """Where reading begins without a stored offset, and what happens if the stored offset is gone."""

    when_new: Literal["earliest", "latest"] = "earliest"
    when_purged: Literal["stop", "earliest"] = "stop"

    def skip_made_anew(self, topic: str) -> None:
        """Apply the policy to the stored offsets of a topic that was deleted and made anew since.

        Raises
        ------
        OffsetPurged
            The policy is to stop.
        """
        if self.when_purged == "stop":
            raise OffsetPurged(
                f"topic {topic} was deleted and made anew: the stored offsets are of the earlier one. Set "
                "source.when_purged to earliest to read the new one; what was counted stays, and counts once"
            )
        _log.warning("the topic was deleted and made anew; its stored offsets are dropped", topic=topic)

    def skip_purged(
        self, part: TopicPartition, offset: int, bounds: LogRange, log: str, divergent: int | None = None
    ) -> int:
        """Apply the policy to a stored offset that is not in the log; return the offset to go on from.

        Parameters
        ----------
        part
            The topic partition.
        offset
            The stored offset.
        bounds
            The offsets that the log has.
        log
            What messages call the log.
        divergent
            Where the log differs from the one that was read, if known.

        Raises
        ------
        OffsetPurged
            The policy is to stop.
        """
        onward = bounds.earliest if divergent is None else divergent
        if self.when_purged == "stop":
            if offset < bounds.earliest:
                why = f"was purged: the log begins at {bounds.earliest}"
            else:
                why = f"was never written to this log, which ends at {bounds.end}: the {log} was made anew, or cut back"
            raise OffsetPurged(
                f"topic {part.topic} partition {part.partition}: the stored offset {offset} {why}. Keep the {log} "
                f"longer than the service may stand still, and set source.when_purged to earliest to go on from "
                f"offset {onward} without the missing events"
            )
        _log.warning(
            "the stored offset is not in the log; going on from the earliest",
            topic=part.topic, partition=part.partition, stored=offset, going_on_from=onward,
            skipped=max(onward - offset, 0),
        )  # fmt: skip
        return onward
