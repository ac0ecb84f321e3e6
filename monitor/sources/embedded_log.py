"""The embedded log: topics as append-only files, with Kafka's partitions and offsets, and no service."""

import fcntl
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec
import structlog

from monitor.clock import Clock, SystemClock
from monitor.errors import SettingsError, SourceError, SourceUnavailable
from monitor.sources.base import Message, TopicPartition
from monitor.sources.log_format import LogRecord, decode, encode, read_body, walk

_FORMAT: Final = 1
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_BATCH_RECORDS: Final = 16_384
_BATCH_BYTES: Final = 4 << 20

_sync: Final = getattr(os, "fdatasync", os.fsync)
"""Only some systems can leave a file's times behind."""

_log = structlog.get_logger(__name__)

_T = TypeVar("_T")


class Segment(NamedTuple):
    """One file of a topic partition."""

    base_offset: int
    path: Path


class _Description(msgspec.Struct, frozen=True):
    """What ``log.json`` holds."""

    format: int
    partitions: int


@dataclass(slots=True)
class _End:
    """Where a topic partition ends, as last seen."""

    segment: Segment
    position: int
    next_offset: int


class EmbeddedLog:
    """A log in a directory. Threads and processes may share it: appending takes its lock.

    Parameters
    ----------
    directory
        Where it is kept; created if missing.
    partitions
        Partitions of each topic of a new log; an existing log keeps its own number.
    retention_bytes
        Size of a topic partition beyond which its oldest segments are removed; None keeps all.
    retention_ms
        Age of a segment's newest record beyond which the segment is removed; None keeps all.
    segment_bytes
        Size at which a new file is started.
    clock
        Timestamps messages without one, and measures the age of segments.

    Raises
    ------
    SettingsError
        A number is out of range.
    SourceError
        The directory holds a log of another format.
    SourceUnavailable
        The directory cannot be written.
    """

    def __init__(
        self,
        directory: Path,
        *,
        partitions: int = 4,
        retention_bytes: int | None = None,
        retention_ms: int | None = None,
        segment_bytes: int = 64 << 20,
        clock: Clock | None = None,
    ) -> None:
        if partitions < 1:
            raise SettingsError(f"partitions must be at least 1, got {partitions}")
        if segment_bytes < 1:
            raise SettingsError(f"segment_bytes must be at least 1, got {segment_bytes}")
        self.directory = directory
        self.clock = clock or SystemClock()
        self._retention_bytes = retention_bytes
        self._retention_ms = retention_ms
        # Whole segments are removed, so they must be much smaller than the bound.
        self._segment_bytes = segment_bytes if retention_bytes is None else min(segment_bytes, retention_bytes // 4 + 1)
        self._ends: dict[TopicPartition, _End] = {}
        self._thread_lock = threading.Lock()
        try:
            # For its owner alone: events are about people.
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            (directory / "topics").mkdir(exist_ok=True)
            with self.locked():
                self.partitions = self._describe(partitions)
        except OSError as error:
            raise SourceUnavailable(f"cannot write the embedded log in {directory}: {error.strerror}") from error

    def create_topic(self, topic: str) -> None:
        """Create a topic if it does not exist.

        Raises
        ------
        SettingsError
            Kafka would not accept the name.
        """
        if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
            raise SettingsError(f"topic must be 1 to 249 letters, digits, dots, underscores and dashes, got {topic!r}")
        for partition in range(self.partitions):
            self._folder(TopicPartition(topic, partition)).mkdir(parents=True, exist_ok=True)

    def segments(self, part: TopicPartition) -> list[Segment]:
        """The files of a topic partition, oldest first."""
        folder = self._folder(part)
        names = (_SEGMENT.fullmatch(path.name) for path in folder.iterdir())
        return sorted(Segment(int(name[1]), folder / name[0]) for name in names if name is not None)

    def append(self, part: TopicPartition, messages: Sequence[Message]) -> int:
        """Append to a topic partition, whose lock the caller holds, and wait until it is durable.

        Returns
        -------
        int
            The offset after the last message.

        Raises
        ------
        SourceError
            The newest segment is damaged.
        OSError
            The disk does not take it.
        """
        now_ms = self.clock.now_ms()
        end = self._recovered_end(part)
        file = os.open(end.segment.path, os.O_WRONLY)
        try:
            for group in _groups(messages):
                if end.position >= self._segment_bytes:
                    end = self._begin_segment(part, end.next_offset)
                    _sync(file)
                    os.close(file)
                    file = os.open(end.segment.path, os.O_WRONLY)
                batch = encode(group, end.next_offset, now_ms)
                _write_all(file, batch, end.position)
                end.position += len(batch)
                end.next_offset += len(group)
            _sync(file)
        finally:
            os.close(file)
        self._expire(part, now_ms)
        return end.next_offset

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock for appending, against other threads and other processes."""
        with self._thread_lock, (self.directory / "log.lock").open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    # ------------------------------------------------------------------ inside

    def _folder(self, part: TopicPartition) -> Path:
        return self.directory / "topics" / part.topic / str(part.partition)

    def _describe(self, partitions: int) -> int:
        path = self.directory / "log.json"
        if path.exists():
            try:
                description = msgspec.json.decode(path.read_bytes(), type=_Description)
            except msgspec.MsgspecError as error:
                raise SourceError(f"{path} must describe an embedded log: {error}") from error
            if description.format != _FORMAT:
                raise SourceError(f"{path}: this version reads format {_FORMAT}, got {description.format}")
            return description.partitions
        unfinished = path.with_suffix(".new")
        with unfinished.open("wb") as file:
            file.write(msgspec.json.encode(_Description(_FORMAT, partitions)))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        _sync_folder(self.directory)
        return partitions

    def _recovered_end(self, part: TopicPartition) -> _End:
        """Find the end, which another process may have moved, and cut off what a crash left behind it."""
        self.create_topic(part.topic)
        segments = self.segments(part)
        if not segments:
            return self._begin_segment(part, 0)
        newest = segments[-1]
        end = self._ends.get(part)
        size = newest.path.stat().st_size
        if end is None or end.segment != newest or size < end.position:
            end = self._ends[part] = _End(newest, 0, newest.base_offset)
        if size == end.position:
            return end
        file = os.open(newest.path, os.O_RDWR)
        try:
            for batch in walk(newest.path, file, end.position):
                if read_body(newest.path, file, batch) is None:
                    break
                end.position, end.next_offset = batch.end, batch.next_offset
            torn = os.fstat(file).st_size - end.position
            if torn:
                _log.warning(
                    "dropped the torn end of a segment",
                    topic=part.topic,
                    partition=part.partition,
                    offset=end.next_offset,
                    path=str(newest.path),
                    position=end.position,
                    bytes=torn,
                )
                os.ftruncate(file, end.position)
                os.fsync(file)
        finally:
            os.close(file)
        return end

    def _begin_segment(self, part: TopicPartition, base_offset: int) -> _End:
        segment = Segment(base_offset, self._folder(part) / f"{base_offset:020d}.log")
        os.close(os.open(segment.path, os.O_CREAT | os.O_WRONLY, 0o644))
        _sync_folder(segment.path.parent)
        end = self._ends[part] = _End(segment, 0, base_offset)
        return end

    def _expire(self, part: TopicPartition, now_ms: int) -> None:
        """Remove the oldest segments that size or age no longer keeps; never the one that is written."""
        if self._retention_bytes is None and self._retention_ms is None:
            return
        segments = self.segments(part)
        total = sum(segment.path.stat().st_size for segment in segments)
        for segment in segments[:-1]:
            size = segment.path.stat().st_size
            too_much = self._retention_bytes is not None and total - size >= self._retention_bytes
            too_old = self._retention_ms is not None and _newest_ms(segment) < now_ms - self._retention_ms
            if not (too_much or too_old):
                return
            segment.path.unlink()
            total -= size


class OutOfRange(NamedTuple):
    """Where the log begins and ends: the requested offset lies outside."""

    earliest: int
    end: int


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
        self._end_segment: Segment | None = None
        self._end_position = 0
        self._end = 0
        self.offset = 0
        """Of the next record."""

    def seek(self, offset: int) -> OutOfRange | None:
        """Go to an offset; return the range of the log if the offset lies outside."""
        return self._retry(lambda: self._seek(offset))

    def read(self, limit: int) -> list[LogRecord] | OutOfRange:
        """Read the next records, at most so many; none at the end of the log.

        Raises
        ------
        SourceError
            A segment is damaged.
        """
        if not self._rest:
            batch = self._retry(self._next_batch)
            if isinstance(batch, OutOfRange) or not batch:
                return batch
            self._rest = batch
        records, self._rest = self._rest[:limit], self._rest[limit:]
        self.offset = records[-1].offset + 1
        return records

    def end(self) -> int:
        """The end offset. Reads only what was written since the last call."""
        return self._retry(self._find_end)

    def close(self) -> None:
        """Close the file that is open."""
        if self._file >= 0:
            os.close(self._file)
        self._segment, self._file, self._position = None, -1, 0
        self._rest = []

    def _retry(self, look: Callable[[], _T]) -> _T:
        """Look again, with the writers locked out, if the first look saw damage: perhaps an unfinished write."""
        try:
            return look()
        except SourceError:
            with self._log.locked():
                return look()

    def _seek(self, offset: int) -> OutOfRange | None:
        segments = self._log.segments(self._part)
        earliest = segments[0].base_offset if segments else 0
        end = self._find_end()
        if not earliest <= offset <= end:
            return OutOfRange(earliest, end)
        self.close()
        self.offset = offset
        within = [segment for segment in segments if segment.base_offset <= offset]
        if within and self._open(within[-1]):
            for batch in walk(within[-1].path, self._file):
                if batch.next_offset > offset:
                    break
                self._position = batch.end
        return None

    def _next_batch(self) -> list[LogRecord] | OutOfRange:
        """The records of the next batch from our offset on."""
        if self._segment is None:
            outside = self._seek(self.offset)
            if outside is not None:
                return outside
        while self._segment is not None:
            records = self._batch_here(self._segment)
            if records:
                return records
            later = [other for other in self._log.segments(self._part) if other.base_offset > self._segment.base_offset]
            if not later:
                break
            # A next segment means that this one is complete, but it may have grown meanwhile.
            records = self._batch_here(self._segment)
            if records:
                return records
            if later[0].base_offset > self.offset:
                return OutOfRange(later[0].base_offset, self._find_end())
            self._open(later[0])
        return []

    def _batch_here(self, segment: Segment) -> list[LogRecord]:
        for batch in walk(segment.path, self._file, self._position):
            body = read_body(segment.path, self._file, batch)
            if body is None:
                break
            self._position = batch.end
            if batch.next_offset > self.offset:
                return decode(batch, body)[max(self.offset - batch.base_offset, 0) :]
        return []

    def _find_end(self) -> int:
        segments = self._log.segments(self._part)
        if not segments:
            return 0
        newest = segments[-1]
        if newest != self._end_segment:
            self._end_segment, self._end_position, self._end = newest, 0, newest.base_offset
        try:
            file = os.open(newest.path, os.O_RDONLY)
        except FileNotFoundError:
            return self._end  # Its writer has started the next one and removed it meanwhile.
        try:
            for batch in walk(newest.path, file, self._end_position):
                self._end_position, self._end = batch.end, batch.next_offset
        finally:
            os.close(file)
        return self._end

    def _open(self, segment: Segment) -> bool:
        self.close()
        try:
            self._file = os.open(segment.path, os.O_RDONLY)
        except FileNotFoundError:
            return False  # Retention was faster.
        self._segment = segment
        return True


def _groups(messages: Sequence[Message]) -> Iterable[Sequence[Message]]:
    """Cut messages into batches that a reader can hold."""
    start = held_bytes = 0
    for place, message in enumerate(messages):
        size = len(message.value or b"") + len(message.key or b"")
        if place > start and (place - start == _BATCH_RECORDS or held_bytes + size > _BATCH_BYTES):
            yield messages[start:place]
            start, held_bytes = place, 0
        held_bytes += size
    if start < len(messages):
        yield messages[start:]


def _newest_ms(segment: Segment) -> int:
    file = os.open(segment.path, os.O_RDONLY)
    try:
        return max((batch.newest_ms for batch in walk(segment.path, file)), default=0)
    finally:
        os.close(file)


def _write_all(file: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, position)
        position += written
        view = view[written:]


def _sync_folder(folder: Path) -> None:
    """Make a file's entry in its folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
