"""Read the embedded log, which needs no service."""

import fcntl
import os
from collections.abc import Collection, Iterable, Mapping
from typing import IO, Final

import structlog

from monitor.errors import SourceUnavailable
from monitor.events.log import LogRange, LogStart, Polled, Topics
from monitor.events.model import RecordBatch, TopicPartition
from monitor.sources.embedded_log import EmbeddedLog, Segment
from monitor.sources.log_format import LogRecord, decode, read_body, walk

_log = structlog.get_logger(__name__)

_POLL_INTERVAL_SECONDS: Final = 0.05
"""How often a waiting poll looks for new records."""


class OffsetOutOfRangeError(Exception):
    """The log does not hold an offset; it holds those of ``bounds``."""

    def __init__(self, bounds: LogRange) -> None:
        super().__init__(bounds)
        self.bounds = bounds


class LogCursor:
    """Reads one topic partition while others append to it and remove its oldest segments. One thread owns it.

    Parameters
    ----------
    log
        The log.
    part
        The topic partition.
    """

    def __init__(self, log: EmbeddedLog, part: TopicPartition) -> None:
        self._log = log
        self._part = part
        self._segment: Segment | None = None
        self._file = -1
        self._position = 0
        self._rest: list[LogRecord] = []  # of the batch that the last read cut
        self.offset = 0
        """Offset of the next record."""

    def seek(self, offset: int) -> None:
        """Go to an offset. The next read checks that the log holds it."""
        self.close()
        self.offset = offset

    def read(self, limit: int) -> list[LogRecord]:
        """Read the next records, at most so many; none at the end of the log.

        Raises
        ------
        OffsetOutOfRangeError
            The log does not hold the next offset, or no longer.
        SourceError
            A segment is damaged.
        """
        if not self._rest:
            self._rest = self._log.retry(self._next_batch)
        records, self._rest = self._rest[:limit], self._rest[limit:]
        if records:
            self.offset = records[-1].offset + 1
        return records

    def close(self) -> None:
        """Close the file that is open."""
        if self._file >= 0:
            os.close(self._file)
        self._segment, self._file, self._position = None, -1, 0
        self._rest = []

    def _open_at_offset(self) -> None:
        bounds = self._log.find_bounds(self._part)
        if not bounds.earliest <= self.offset <= bounds.end:
            raise OffsetOutOfRangeError(bounds)
        within = [segment for segment in self._log.segments(self._part) if segment.base_offset <= self.offset]
        if within and self._open(within[-1]):
            for batch in walk(within[-1].path, self._file):
                if batch.next_offset > self.offset:
                    break
                self._position = batch.end

    def _next_batch(self) -> list[LogRecord]:
        """The records of the next batch from our offset on."""
        if self._segment is None:
            self._open_at_offset()
        while self._segment is not None:
            records = self._batch_here(self._segment)
            if records:
                return records
            later = [other for other in self._log.segments(self._part) if other.base_offset > self._segment.base_offset]
            if not later:
                bounds = self._log.find_bounds(self._part)
                if bounds.end < self.offset:
                    raise OffsetOutOfRangeError(bounds)
                break
            # A next segment means that this one is complete, but it may have grown meanwhile.
            records = self._batch_here(self._segment)
            if records:
                return records
            if later[0].base_offset > self.offset:
                raise OffsetOutOfRangeError(LogRange(later[0].base_offset, self._log.find_bounds(self._part).end))
            self._open(later[0])
        return []

    def _batch_here(self, segment: Segment) -> list[LogRecord]:
        for batch in walk(segment.path, self._file, self._position):
            body = read_body(segment.path, self._file, batch)
            self._position = batch.end
            if batch.next_offset > self.offset:
                return decode(batch, body)[max(self.offset - batch.base_offset, 0) :]
        return []

    def _open(self, segment: Segment) -> bool:
        self.close()
        try:
            self._file = os.open(segment.path, os.O_RDONLY)
        except FileNotFoundError:
            return False  # Retention was faster.
        self._segment = segment
        return True


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
        self.purged_offsets_skipped = 0
        self._log = log
        self._topics = tuple(topics.kinds)
        self._log_start = log_start or LogStart()
        self._cursors: dict[TopicPartition, LogCursor] = {}  # of the started ones
        self._unreported: set[TopicPartition] = set()  # their beginning is not reported yet
        self._paused: set[TopicPartition] = set()
        self._lock: IO[bytes] | None = None
        self._rotation = 0
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
            return Polled((), frozenset(), frozenset(range(self._log.partitions)))
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
            offset = offsets.get(topic)
            if offset is None:
                self._unreported.add(part)
                bounds = self._log.bounds(part)
                offset = bounds.earliest if self._log_start.when_new == "earliest" else bounds.end
            self._cursors.setdefault(part, LogCursor(self._log, part)).seek(offset)
            self._paused.discard(part)

    def still_assigned(self) -> bool:
        """Whether this source reads the log."""
        return self._lock is not None

    @property
    def partitions(self) -> Collection[int]:
        """All partitions of the log."""
        return range(self._log.partitions)

    def topic_ids(self, known: Mapping[str, str]) -> Mapping[str, str]:  # noqa: ARG002 - a folder has no id
        """None."""
        return {}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Read nothing from these until they are resumed."""
        self._paused.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Read from these again."""
        self._paused.difference_update(partitions)

    def end_offsets(self) -> Mapping[TopicPartition, int]:
        """The end offset of each started topic partition."""
        return {part: self._log.bounds(part).end for part in self._cursors}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store how far the saved state reaches, so that no writer goes on before that."""
        try:
            self._log.commit(offsets)
        except SourceUnavailable as error:
            _log.warning("the offsets that are read cannot be stored", detail=str(error))

    def close(self) -> None:
        """Release the log, so that another process may read it."""
        for cursor in self._cursors.values():
            cursor.close()
        self._cursors.clear()
        self._unreported.clear()
        self._paused.clear()
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

    def _read(self, max_records: int) -> list[RecordBatch]:
        batches = []
        left = max_records
        runnable = [part for part in self._cursors if part not in self._paused]
        # Rotate the order, and give each partition a fair share, so that topics advance together.
        self._rotation += 1
        for place in range(len(runnable)):
            part = runnable[(place + self._rotation) % len(runnable)]
            share = max(1, left // (len(runnable) - place))
            records = self._read_part(part, min(share, left)) if left else []
            left -= len(records)
            if records or part in self._unreported:
                self._unreported.discard(part)
                batches.append(RecordBatch(part.topic, part.partition, records, self._cursors[part].offset))
        return batches

    def _read_part(self, part: TopicPartition, limit: int) -> list[LogRecord]:
        cursor = self._cursors[part]
        records: list[LogRecord] = []
        while len(records) < limit:
            try:
                piece = cursor.read(limit - len(records))
            except OffsetOutOfRangeError as outside:
                if records:
                    break  # the next poll finds the gap again
                onward = self._log_start.skip_purged(part, cursor.offset, outside.bounds, "log")
                self.purged_offsets_skipped += max(onward - cursor.offset, 0)
                self.commit({part: onward})
                cursor.seek(onward)
            else:
                if not piece:
                    break
                records.extend(piece)
        return records
