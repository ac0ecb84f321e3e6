"""The embedded log on disk: a segment is a file of batches, one after the other.

A batch is a header and a body. The header has a checksum of its own, so that the length in it can be trusted; the
body is columns (times, lengths of keys, values and headers), then the bytes they measure, so that reading and writing
cost little per record. All numbers are little-endian.

A process that ends while it writes leaves the first bytes of a batch, and a power failure may leave zeros to the end of
the file: such a tail was never acknowledged and is dropped. All else is damage, a whole last batch whose checksum is
wrong too, for it may have been acknowledged.
"""

import itertools
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from monitor.errors import SourceError
from monitor.events.model import Headers, Message

_MAGIC: Final = b"CML1"
_HEADER: Final = struct.Struct("<4sIIIqq")
_CHECKSUM: Final = struct.Struct("<I")
_HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
_COLUMN_BYTES: Final = 8 + 3 * 4
_ABSENT: Final = -1

_encode_headers = msgspec.msgpack.Encoder().encode
_decode_headers = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]]).decode


class LogRecord(NamedTuple):
    """One message of a log."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Batch(NamedTuple):
    """The position of a batch in its file, and the fields of its header."""

    position: int
    body_bytes: int
    checksum: int
    records: int
    base_offset: int
    newest_ms: int

    @property
    def body_position(self) -> int:
        """Where the body begins in the file."""
        return self.position + _HEADER_BYTES

    @property
    def end(self) -> int:
        """Where the next batch begins in the file."""
        return self.position + _HEADER_BYTES + self.body_bytes

    @property
    def next_offset(self) -> int:
        """Offset of the record after the last one here."""
        return self.base_offset + self.records


def encode(messages: Sequence[Message], base_offset: int, now_ms: int) -> bytes:
    """Encode messages as one batch whose first record has the given offset."""
    times = np.fromiter(
        (now_ms if message.timestamp_ms is None else message.timestamp_ms for message in messages), "<i8", len(messages)
    )
    keys = [message.key for message in messages]
    values = [message.value for message in messages]
    headers = [_encode_headers(list(message.headers)) if message.headers else b"" for message in messages]
    body = b"".join(
        [
            times.tobytes(),
            _lengths(keys),
            _lengths(values),
            _lengths(headers),
            *(key for key in keys if key is not None),
            *(value for value in values if value is not None),
            *headers,
        ]
    )
    header = _HEADER.pack(_MAGIC, len(body), zlib.crc32(body), len(messages), base_offset, int(times.max()))
    return header + _CHECKSUM.pack(zlib.crc32(header)) + body


def decode(batch: Batch, body: bytes) -> list[LogRecord]:
    """Decode the records of a batch, whose checksum has been verified."""
    n = batch.records
    times = np.frombuffer(body, "<i8", n).tolist()
    lengths = np.frombuffer(body, "<i4", 3 * n, 8 * n).reshape(3, n)
    # Keys, values and headers follow each other, so one running sum places them all.
    ends = np.cumsum(np.maximum(lengths, 0).ravel(), dtype=np.int64) + n * _COLUMN_BYTES
    starts = ends - np.maximum(lengths, 0).ravel()
    keys = _pieces(body, starts[:n], ends[:n], lengths[0])
    values = _pieces(body, starts[n : 2 * n], ends[n : 2 * n], lengths[1])
    headers: Sequence[Headers]
    if lengths[2].any():
        raw = (body[start:end] for start, end in zip(starts[2 * n :].tolist(), ends[2 * n :].tolist(), strict=True))
        headers = [_decode_headers(piece) if piece else () for piece in raw]
    else:
        headers = [()] * n
    offsets = range(batch.base_offset, batch.next_offset)
    return make_records(offsets, times, keys, values, headers)


def make_records(*columns: Iterable[object]) -> list[LogRecord]:
    """Return a record for each row of its columns; the shortest one ends them."""
    # Without the Python frame of LogRecord(...), which takes longer than all the rest.
    return list(map(tuple.__new__, itertools.repeat(LogRecord), zip(*columns, strict=False)))


def walk(path: Path, file: int, position: int = 0) -> Iterator[Batch]:
    """Read the headers of the complete batches of an open segment from a position on, without the bodies.

    Raises
    ------
    SourceError
        A header is damaged.
    """
    size = os.fstat(file).st_size
    while size - position >= _HEADER_BYTES:
        raw = os.pread(file, _HEADER_BYTES, position)
        if len(raw) < _HEADER_BYTES:
            return  # a writer is removing a torn tail
        if _CHECKSUM.unpack_from(raw, _HEADER.size)[0] != zlib.crc32(raw[: _HEADER.size]) or raw[:4] != _MAGIC:
            if _zeros(file, position, size):
                return
            raise damaged(path, position, "a batch header's checksum does not fit")
        _, body_bytes, checksum, records, base_offset, newest_ms = _HEADER.unpack_from(raw)
        batch = Batch(position, body_bytes, checksum, records, base_offset, newest_ms)
        if batch.end > size:
            return
        yield batch
        position = batch.end


def read_body(path: Path, file: int, batch: Batch) -> bytes:
    """Read a batch's body.

    Raises
    ------
    SourceError
        The body is damaged.
    """
    body = os.pread(file, batch.body_bytes, batch.body_position)
    if len(body) != batch.body_bytes or zlib.crc32(body) != batch.checksum:
        raise damaged(
            path, batch.position, f"the checksum of offsets {batch.base_offset} to {batch.next_offset - 1} is off"
        )
    return body


def damaged(path: Path, position: int, what: str) -> SourceError:
    """The error for a damaged segment."""
    return SourceError(
        f"{path} is damaged at byte {position}: {what}; stop the service and put back a copy of the file. Without one, "
        f"events are lost: cut it there (truncate -s {position} {path}), or move it and all older ones of its folder "
        "away, and start with source.when_purged: earliest"
    )


def _lengths(pieces: Sequence[bytes | None]) -> bytes:
    lengths = (_ABSENT if piece is None else len(piece) for piece in pieces)
    return np.fromiter(lengths, "<i4", len(pieces)).tobytes()


def _pieces(
    body: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], lengths: NDArray[np.int32]
) -> list[bytes | None]:
    pieces: list[bytes | None] = [body[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    for place in np.flatnonzero(lengths == _ABSENT).tolist():
        pieces[place] = None
    return pieces


def _zeros(file: int, position: int, size: int) -> bool:
    """Whether a file holds only zeros from a position on: an unfinished write after a power failure."""
    while position < size:
        piece = os.pread(file, 1 << 20, position)
        if piece.strip(b"\0"):
            return False
        position += max(len(piece), 1)
    return True
