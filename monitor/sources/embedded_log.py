"""The embedded log: topics as append-only files, with Kafka's partitions and offsets, and no service."""

import fcntl
import os
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec
import structlog

from monitor.clock import Clock
from monitor.errors import SettingsError, SourceError, SourceMisconfigured, SourceUnavailable
from monitor.events.log import LogRange
from monitor.events.model import Message, TopicPartition
from monitor.events.partitions import choose_partitions
from monitor.sources.log_format import encode, read_body, walk

_FORMAT: Final = 1
_COMMITTED: Final = "committed.json"
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


_read_description: Final = msgspec.json.Decoder(_Description).decode


class _End(NamedTuple):
    """Where the batches of a topic partition end that have been read so far."""

    segment: Segment
    position: int
    next_offset: int


class EmbeddedLog:
    """A log in a directory, and its writer. Threads and processes may share it: appending takes its lock.

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
        clock: Clock,
    ) -> None:
        if partitions < 1:
            raise SettingsError(f"partitions must be at least 1, got {partitions}")
        if segment_bytes < 1:
            raise SettingsError(f"segment_bytes must be at least 1, got {segment_bytes}")
        self.directory = directory
        self.clock = clock
        self._retention_bytes = retention_bytes
        self._retention_ms = retention_ms
        # Whole segments are removed, so they must be much smaller than the bound.
        self._segment_bytes = segment_bytes if retention_bytes is None else min(segment_bytes, retention_bytes // 4 + 1)
        self._next_partition = 0  # of messages without a key
        self._appended: dict[TopicPartition, _End] = {}
        self._damage: SourceError | None = None
        self._read: dict[TopicPartition, _End] = {}
        self._thread_lock = threading.Lock()
        try:
            # For its owner alone: events are about people.
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            (directory / "topics").mkdir(exist_ok=True)
            with self._locked():
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
        folders = [self._folder(TopicPartition(topic, partition)) for partition in range(self.partitions)]
        if not all(folder.exists() for folder in folders):
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            _sync_folder(folders[0].parent)
            _sync_folder(folders[0].parent.parent)

    def segments(self, part: TopicPartition) -> list[Segment]:
        """The files of a topic partition, oldest first."""
        folder = self._folder(part)
        names = (_SEGMENT.fullmatch(path.name) for path in folder.iterdir())
        return sorted(Segment(int(name[1]), folder / name[0]) for name in names if name is not None)

    def bounds(self, part: TopicPartition) -> LogRange:
        """Where a topic partition begins and ends. Reads only what was written since the last call.

        Raises
        ------
        SourceError
            A segment is damaged.
        """
        return self.retry(lambda: self.find_bounds(part))

    def find_bounds(self, part: TopicPartition) -> LogRange:
        """Return what :meth:`bounds` does, for use within :meth:`retry`."""
        segments = self.segments(part)
        if not segments:
            return LogRange(0, 0)
        newest = segments[-1]
        end = self._read.get(part)
        if end is None or end.segment != newest:
            end = _End(newest, 0, newest.base_offset)
        # Its writer may have started the next segment and removed this one meanwhile.
        with suppress(FileNotFoundError), _opened(newest.path, os.O_RDONLY) as file:
            if os.fstat(file).st_size < end.position:
                end = _End(newest, 0, newest.base_offset)
            for batch in walk(newest.path, file, end.position):
                end = _End(newest, batch.end, batch.next_offset)
        self._read[part] = end
        return LogRange(segments[0].base_offset, end.next_offset)

    def retry(self, read: Callable[[], _T]) -> _T:
        """Read again, with the writers locked out, if the first attempt saw damage: perhaps an unfinished write."""
        try:
            return read()
        except SourceError:
            with self._locked():
                self._read.clear()  # another process may have cut off what a crash left, and written on
                try:
                    return read()
                except SourceError as damage:
                    self._damage = damage
                    raise

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store how far the log was read and saved: its writers, in any process, never write before that.

        Raises
        ------
        SourceError
            What is stored cannot be read.
        SourceUnavailable
            It cannot be written.
        """
        try:
            with self._locked():
                committed = self._committed()
                if not offsets.items() <= committed.items():
                    topics: dict[str, dict[int, int]] = defaultdict(dict)
                    for part, offset in (committed | dict(offsets)).items():
                        topics[part.topic][part.partition] = offset
                    _replace(self.directory / _COMMITTED, msgspec.json.encode(topics))
        except OSError as error:
            raise SourceUnavailable(f"cannot write the embedded log in {self.directory}: {error.strerror}") from error

    def write(self, messages: Sequence[Message]) -> None:
        """Write the messages; they are durable when this returns. Missing topics are created.

        All messages without a key and a partition go to one partition, the next one at each call.

        Raises
        ------
        SourceUnavailable
            The disk did not accept them. Some may have been written.
        SourceMisconfigured
            A message is for a partition that the log does not have.
        SourceError
            The log is damaged, or ends before what was written or read. Nothing is written where no reader comes.
        """
        if not messages:
            return
        if self._damage is not None:
            raise SourceError(f"nothing is written while the log cannot be read: {self._damage}")
        self._next_partition = (self._next_partition + 1) % self.partitions
        placed: dict[TopicPartition, list[Message]] = defaultdict(list)
        for message, partition in zip(messages, choose_partitions(messages, lambda _: self.partitions), strict=True):
            number = self._next_partition if partition is None else partition
            if not 0 <= number < self.partitions:
                raise SourceMisconfigured(
                    f"partition of a message for {message.topic} must be 0 to {self.partitions - 1}, as in "
                    f"{self.directory}, got {number}"
                )
            placed[TopicPartition(message.topic, number)].append(message)
        try:
            with self._locked():
                for part, group in placed.items():
                    self._append(part, group)
        except OSError as error:
            raise SourceUnavailable(
                f"the embedded log in {self.directory} did not take {len(messages)} messages: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Do nothing: no resource is held between writes."""

    # ------------------------------------------------------------------ inside

    def _append(self, part: TopicPartition, messages: Sequence[Message]) -> None:
        """Append to a topic partition, with the lock held, and wait until it is durable."""
        now_ms = self.clock.now_ms()
        segment, position, offset = self._recovered_end(part)
        for group in _groups(messages):
            if position >= self._segment_bytes:
                segment, position, offset = self._begin_segment(part, offset)
            batch = encode(group, offset, now_ms)
            with _opened(segment.path, os.O_WRONLY) as file:
                _write_all(file, batch, position)
                _sync(file)
            position += len(batch)
            offset += len(group)
            self._appended[part] = _End(segment, position, offset)
        self._expire(part, now_ms)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock for appending, against other threads and other processes."""
        with self._thread_lock, (self.directory / "log.lock").open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _folder(self, part: TopicPartition) -> Path:
        return self.directory / "topics" / part.topic / str(part.partition)

    def _describe(self, partitions: int) -> int:
        path = self.directory / "log.json"
        if path.exists():
            try:
                description = _read_description(path.read_bytes())
            except msgspec.MsgspecError as error:
                raise SourceError(f"{path} must describe an embedded log: {error}") from error
            if description.format != _FORMAT:
                raise SourceError(f"{path}: this version reads format {_FORMAT}, got {description.format}")
            return description.partitions
        _replace(path, msgspec.json.encode(_Description(_FORMAT, partitions)))
        return partitions

    def _committed(self) -> dict[TopicPartition, int]:
        path = self.directory / _COMMITTED
        try:
            stored = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[int, int]])
        except FileNotFoundError:
            return {}
        except msgspec.MsgspecError as error:
            raise SourceError(
                f"{path} must hold the offsets up to which the log is read: {error}; remove it, and start the service"
            ) from error
        return {TopicPartition(topic, number): stored[topic][number] for topic in stored for number in stored[topic]}

    def _recovered_end(self, part: TopicPartition) -> _End:
        """Find the end, which another process may have moved, and cut off what a crash left behind it."""
        self.create_topic(part.topic)
        segments = self.segments(part)
        if not segments:
            self._check_reach(part, self._folder(part), 0)
            return self._begin_segment(part, 0)
        newest = segments[-1]
        with _opened(newest.path, os.O_RDWR) as file:
            end, committed = self._appended.get(part), 0
            if end is None or end.segment != newest or os.fstat(file).st_size < end.position:
                end, committed = _End(newest, 0, newest.base_offset), self._committed().get(part, 0)
            for batch in walk(newest.path, file, end.position):
                if batch.next_offset > committed:  # else it was read, and its damage would lose nothing
                    read_body(newest.path, file, batch)
                end = _End(newest, batch.end, batch.next_offset)
            self._check_reach(part, newest.path, end.next_offset)
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
        self._appended[part] = end
        return end

    def _check_reach(self, part: TopicPartition, path: Path, end: int) -> None:
        """Refuse to go on at an offset that was used before: a reader would take the new records for the old ones."""
        appended = self._appended.get(part)
        least = max(self._committed().get(part, 0), 0 if appended is None else appended.next_offset)
        if end < least:
            raise SourceError(
                f"{path} ends at offset {end}, and records up to offset {least} were written and read: it was cut, or "
                "is an older copy; stop the service and put back a newer copy, or start it with source.when_purged: "
                "earliest to go on without them"
            )

    def _begin_segment(self, part: TopicPartition, base_offset: int) -> _End:
        segment = Segment(base_offset, self._folder(part) / f"{base_offset:020d}.log")
        with _opened(segment.path, os.O_CREAT | os.O_WRONLY):
            _sync_folder(segment.path.parent)
        return _End(segment, 0, base_offset)

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
    with _opened(segment.path, os.O_RDONLY) as file:
        return max((batch.newest_ms for batch in walk(segment.path, file)), default=0)


def _write_all(file: int, data: bytes, position: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, position)
        position += written
        view = view[written:]


def _replace(path: Path, content: bytes) -> None:
    """Replace a file: whole and durable, or not at all."""
    unfinished = path.with_suffix(".new")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a file's entry in its folder durable."""
    with _opened(folder, os.O_RDONLY) as handle:
        os.fsync(handle)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """Open a file, or a folder, by its descriptor."""
    file = os.open(path, flags, 0o644)
    try:
        yield file
    finally:
        os.close(file)
