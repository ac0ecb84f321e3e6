"""Events from a file of JSON lines, plain or packed."""

import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

from monitor.errors import InputError
from monitor.events.model import RecordBatch
from monitor.sources.log_format import LogRecord
from monitor.sources.stored_files import PACKED

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LINE_END: Final = b"\r\n"


class EventFile:
    """A file of events, one JSON object a line; blank lines, CRLF and a byte order mark do not matter.

    Parameters
    ----------
    path
        The file; packed if its name ends in ``.gz``, ``.bz2`` or ``.zst``.

    Attributes
    ----------
    size
        Bytes on disk.
    bytes_read
        How many of them have been read, for a progress bar. It ends at ``size``.

    Raises
    ------
    InputError
        There is no such file.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            what = "is a directory" if path.is_dir() else "no such file"
            raise InputError(f"{path}: {what}; name a file of JSON lines that is there")
        self.path = path
        self.size = path.stat().st_size
        self.bytes_read = 0

    def batches(self, records: int = 10_000) -> Iterator[RecordBatch]:
        """Read the file in batches of at most so many lines; offsets are line numbers from 1.

        Raises
        ------
        InputError
            The file cannot be read to its end.
        """
        self.bytes_read = 0
        batch: list[LogRecord] = []
        number = 0
        try:
            with ExitStack() as files:
                raw = files.enter_context(self.path.open("rb"))
                unpack = PACKED.get(self.path.suffix.lower())
                lines: IO[bytes] = raw if unpack is None else files.enter_context(unpack(raw))
                for number, line in enumerate(lines, start=1):
                    text = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
                    if not text.strip():
                        continue
                    batch.append(LogRecord(number, -1, None, text.rstrip(_LINE_END), ()))
                    if len(batch) == records:
                        self.bytes_read = raw.tell()
                        yield self._batch(batch, number)
                        batch = []
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{self.path}: cannot be read after line {number}: {error}; is it whole?") from error
        self.bytes_read = self.size
        if batch:
            yield self._batch(batch, number)

    def _batch(self, records: list[LogRecord], number: int) -> RecordBatch:
        return RecordBatch(self.path.name, 0, records, number + 1)
