"""Source and writer of the embedded log, which needs no service."""

import fcntl
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Final

from monitor.errors import SettingsError, SourceMisconfigured, SourceUnavailable
from monitor.events.model import RecordBatch
from monitor.sources.base import LogStart, Message, Polled, TopicPartition, Topics
from monitor.sources.embedded_log import EmbeddedLog, LogCursor, OutOfRange
from monitor.sources.log_format import LogRecord
from monitor.sources.partitioner_loops import partitions_of

_POLL_INTERVAL_SECONDS: Final = 0.05
"""How often a waiting poll looks for new records."""


class EmbeddedSource:
    """The only reader of an embedded log: all partitions are assigned to it at the first poll.

    A batch without records only says where a partition without a stored offset begins.

    Parameters
    ----------
    log
        The log.
    topics
        What to read. Missing topics are created.
    log_start
        Where to begin, and what to do when stored offsets are gone.

    Attributes
    ----------
    purged_offsets_skipped
        Number of offsets skipped because the log no longer held them, under ``when_purged="earliest"``.
    """

    def __init__(self, log: EmbeddedLog, topics: Topics, *, log_start: LogStart | None = None) -> None:
        if not topics.kinds:
            raise SettingsError("topics must name at least one topic, got none")
        self.purged_offsets_skipped = 0
        self._log = log
        self._topics = tuple(topics.kinds)
        self._log_start = log_start or LogStart()
        self._cursors: dict[TopicPartition, LogCursor] = {}
        self._started: dict[TopicPartition, int | None] = {}  # stored offsets that are not looked up yet, or None
        self._unreported: set[TopicPartition] = set()  # their beginning is not reported yet
        self._held: set[TopicPartition] = set()
        self._lock: IO[bytes] | None = None
        self._turn = 0
        for topic in self._topics:
            log.create_topic(topic)

    def poll(self, timeout_seconds: float, max_records: int) -> Polled:
        """Read what has arrived; wait at most that long for the first record.

        Raises
        ------
        SourceUnavailable
            Another process reads this log. Call again later.
        OffsetPurged
            A stored offset is no longer in the log and the policy is to stop.
        SourceError
            A segment is damaged.
        """
        if self._lock is None:
            self._lock = self._lock_reader()
            numbers = range(self._log.partitions)
            parts = (TopicPartition(topic, number) for topic in self._topics for number in numbers)
            self._cursors = {part: LogCursor(self._log, part) for part in parts}
            return Polled((), frozenset(), frozenset(numbers))
        clock = self._log.clock
        deadline = clock.monotonic() + timeout_seconds
        while True:
            batches = self._read(max_records)
            remaining = deadline - clock.monotonic()
            if batches or remaining <= 0:
                return Polled(batches)
            clock.sleep(min(_POLL_INTERVAL_SECONDS, remaining))

    def start(self, partition: int, offsets: Mapping[str, int]) -> None:
        """Start an assigned partition, each topic from its stored offset, or from where the settings say.

        A later poll checks whether the log still holds the offsets.
        """
        for topic in self._topics:
            part = TopicPartition(topic, partition)
            cursor = self._cursors[part]
            offset = offsets.get(topic)
            if offset is None:
                self._unreported.add(part)
                beginning = self._earliest(part) if self._log_start.when_new == "earliest" else cursor.end()
                cursor.seek(beginning)
            self._started[part] = offset
            self._held.discard(part)

    def still_assigned(self) -> bool:
        """Whether this source reads the log."""
        return self._lock is not None

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Read nothing from these until they are resumed."""
        self._held.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read from these again."""
        self._held.difference_update(partitions)

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """The end offset of each started topic partition."""
        return {part: self._cursors[part].end() for part in self._started}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Do nothing: no other tool reads this log."""

    def close(self) -> None:
        """Release the log, so that another process may read it."""
        for cursor in self._cursors.values():
            cursor.close()
        self._cursors.clear()
        self._started.clear()
        self._unreported.clear()
        self._held.clear()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _lock_reader(self) -> IO[bytes]:
        path = self._log.directory / "reader.lock"
        file = path.open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise SourceUnavailable(
                f"another process reads the embedded log in {self._log.directory}, and it has one reader only; "
                "waiting for it to end (replicas of the service need Kafka)"
            ) from error
        return file

    def _earliest(self, part: TopicPartition) -> int:
        segments = self._log.segments(part)
        return segments[0].base_offset if segments else 0

    def _read(self, max_records: int) -> list[RecordBatch]:
        batches = []
        left = max_records
        runnable = [part for part in self._started if part not in self._held]
        # Rotate the order, and give each partition a fair share, so that topics advance together.
        self._turn += 1
        for place in range(len(runnable)):
            part = runnable[(place + self._turn) % len(runnable)]
            share = max(1, left // (len(runnable) - place))
            records = self._read_part(part, min(share, left)) if left else []
            left -= len(records)
            if records or part in self._unreported:
                self._unreported.discard(part)
                batches.append(RecordBatch(part.topic, part.partition, records, self._cursors[part].offset))
        return batches

    def _read_part(self, part: TopicPartition, limit: int) -> list[LogRecord]:
        cursor = self._cursors[part]
        stored = self._started[part]
        if stored is not None:
            outside = cursor.seek(stored)
            if outside is not None:
                self._purged(part, stored, outside)
            self._started[part] = None
        records: list[LogRecord] = []
        while len(records) < limit:
            piece = cursor.read(limit - len(records))
            if isinstance(piece, OutOfRange):
                if records:
                    return records  # the next poll finds the gap again
                self._purged(part, cursor.offset, piece)
                continue
            if not piece:
                return records
            records.extend(piece)
        return records

    def _purged(self, part: TopicPartition, offset: int, outside: OutOfRange) -> None:
        """Go on after an offset that is not, or no longer, in the log."""
        if offset < outside.earliest:
            why = f"was purged: the log begins at {outside.earliest}"
        else:
            why = f"was never written to this log, which ends at {outside.end}: the log was made anew"
        self.purged_offsets_skipped += self._log_start.skip_purged(part, offset, outside.earliest, why, "log")
        self._cursors[part].seek(outside.earliest)


class EmbeddedWriter:
    """Writes to an embedded log. Threads and processes may write at the same time, and while it is read.

    Parameters
    ----------
    log
        The log. Missing topics are created.
    """

    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log
        self._turn = 0

    def write(self, messages: Sequence[Message]) -> None:
        """Write the messages; they are durable when this returns.

        Raises
        ------
        SourceUnavailable
            The disk did not accept them. Some may have been written.
        SourceMisconfigured
            A message is for a partition that the log does not have.
        """
        if not messages:
            return
        try:
            with self._log.locked():
                for part, placed in self._placed(messages).items():
                    self._log.append(part, placed)
        except OSError as error:
            raise SourceUnavailable(
                f"the embedded log in {self._log.directory} did not take {len(messages)} messages: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Do nothing: no resource is held between writes."""

    def _placed(self, messages: Sequence[Message]) -> Mapping[TopicPartition, Sequence[Message]]:
        """Messages by topic partition, in order; all of those without a key go to the next partition."""
        count = self._log.partitions
        self._turn = (self._turn + 1) % count
        keyed = [message.key for message in messages if message.partition is None and message.key is not None]
        by_key = iter(partitions_of(keyed, count).tolist())
        placed: dict[TopicPartition, list[Message]] = {}
        for message in messages:
            partition = message.partition
            if partition is None:
                partition = self._turn if message.key is None else next(by_key)
            elif not 0 <= partition < count:
                raise SourceMisconfigured(
                    f"partition of a message for {message.topic} must be 0 to {count - 1}, as in "
                    f"{self._log.directory}, got {partition}"
                )
            placed.setdefault(TopicPartition(message.topic, partition), []).append(message)
        return placed
