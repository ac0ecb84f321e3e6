"""The embedded log: topics as append-only files, with Kafka's partitions and offsets. It needs no service."""

import fcntl
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog

from monitor.clock import Clock, SystemClock
from monitor.errors import SettingsError, SourceError, SourceUnavailable
from monitor.sources.base import Message, TopicPartition
from monitor.sources.log_format import encode, read_body, walk

_FORMAT: Final = 1
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_BATCH_RECORDS: Final = 16_384
_BATCH_BYTES: Final = 4 << 20

_sync: Final = getattr(os, "fdatasync", os.fsync)
"""Only some systems can leave a file's times behind."""

_log = structlog.get_logger(__name__)


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
    """A log in a directory. Threads and processes may share it: whoever appends holds its lock.

    Parameters
    ----------
    directory
        Where it is kept. Made when it is not there.
    partitions
        Partitions of each topic, for a log that is new; one that exists keeps its own.
    retention_bytes
        Size of a topic partition beyond which its oldest segments go; None keeps all of them.
    retention_ms
        Age of a segment's newest record beyond which the segment goes; None keeps all of them.
    segment_bytes
        Size at which a new file is begun.
    clock
        Tells when messages that name no time were written, and what is old.

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
        # Whole segments go, so a bound on the size wants segments well below it.
        self._segment_bytes = segment_bytes if retention_bytes is None else min(segment_bytes, retention_bytes // 4 + 1)
        self._ends: dict[TopicPartition, _End] = {}
        self._thread_lock = threading.Lock()
        try:
            # For its owner alone: events say things of people.
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            (directory / "topics").mkdir(exist_ok=True)
            with self.locked():
                self.partitions = self._describe(partitions)
        except OSError as error:
            raise SourceUnavailable(f"cannot write the embedded log in {directory}: {error.strerror}") from error

    def create_topic(self, topic: str) -> None:
        """Make a topic where there is none.

        Raises
        ------
        SettingsError
            The name is none that Kafka would take.
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
        """Hold the right to append, against other threads and other processes."""
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
        known = self._ends.get(part)
        size = newest.path.stat().st_size
        if known is None or known.segment != newest or size < known.position:
            known = self._ends[part] = _End(newest, 0, newest.base_offset)
        if size == known.position:
            return known
        file = os.open(newest.path, os.O_RDWR)
        try:
            for batch in walk(newest.path, file, known.position):
                if read_body(newest.path, file, batch) is None:
                    break
                known.position, known.next_offset = batch.end, batch.next_offset
            torn = os.fstat(file).st_size - known.position
            if torn:
                _log.warning(
                    "dropped the torn end of a segment",
                    topic=part.topic,
                    partition=part.partition,
                    offset=known.next_offset,
                    path=str(newest.path),
                    position=known.position,
                    bytes=torn,
                )
                os.ftruncate(file, known.position)
                os.fsync(file)
        finally:
            os.close(file)
        return known

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
