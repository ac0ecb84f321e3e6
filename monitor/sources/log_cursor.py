"""Reading one partition of the embedded log, while others append to it and remove its oldest segments."""

import os
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from monitor.errors import SourceError
from monitor.sources.base import TopicPartition
from monitor.sources.embedded_log import EmbeddedLog, Segment
from monitor.sources.log_format import LogRecord, decode, read_body, walk


class OutOfRange(NamedTuple):
    """Where the log begins and ends, since the offset that was asked for lies outside."""

    earliest: int
    end: int


_T = TypeVar("_T")


class LogCursor:
    """A place in a topic partition. One thread owns it.

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
        """Go to an offset; where the log does not reach it, say where the log is instead."""
        return self._settled(lambda: self._seek(offset))

    def read(self, limit: int) -> list[LogRecord] | OutOfRange:
        """Bring records that follow, at most so many; none at the log's end.

        Raises
        ------
        SourceError
            A segment is damaged.
        """
        if not self._rest:
            found = self._settled(self._next_batch)
            if isinstance(found, OutOfRange) or not found:
                return found
            self._rest = found
        taken, self._rest = self._rest[:limit], self._rest[limit:]
        self.offset = taken[-1].offset + 1
        return taken

    def end(self) -> int:
        """Where the partition ends. Only what was written since this was last asked is looked at."""
        return self._settled(self._find_end)

    def close(self) -> None:
        """Close the file that is open."""
        if self._file >= 0:
            os.close(self._file)
        self._segment, self._file, self._position = None, -1, 0
        self._rest = []

    def _settled(self, look: Callable[[], _T]) -> _T:
        """Look again, with writers kept out, where the first look saw damage: it may have been a write half done."""
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
            found = self._seek(self.offset)
            if found is not None:
                return found
        while self._segment is not None:
            records = self._batch_here(self._segment)
            if records:
                return records
            later = [other for other in self._log.segments(self._part) if other.base_offset > self._segment.base_offset]
            if not later:
                break
            # A next segment means that this one is complete, but it may have grown since we looked.
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
            return self._end  # Its writer has begun the next one and dropped it since we looked.
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
