"""Refuse Arrow files whose buffers are compressed or overlap, before Arrow reads them.

Arrow allocates whatever size a compressed buffer declares, and pyarrow has no function that tells whether a file is
compressed and no memory limit. So the two small tables that tell, the footer and the batch's metadata, are read here.
Both are FlatBuffers, see https://arrow.apache.org/docs/format/Columnar.html and https://flatbuffers.dev/internals.
"""

import struct
from typing import Final, NamedTuple

import numpy as np

from monitor.errors import CorruptMap

_MAGIC: Final = b"ARROW1"
_CONTINUATION: Final = 0xFFFFFFFF
_RECORD_BATCH: Final = 3
"""The type of message that holds a batch."""
_OLD_COMPRESSION: Final = b"ARROW:experimental_compression"
"""Metadata key by which Arrow 0.17 declared compression; readers still accept it."""

# Field numbers in their tables.
_FOOTER_DICTIONARIES: Final = 2
_FOOTER_BATCHES: Final = 3
_MESSAGE_KIND: Final = 1
_MESSAGE_HEADER: Final = 2
_BATCH_BUFFERS: Final = 2
_BATCH_COMPRESSION: Final = 3

_BLOCK: Final = struct.Struct("<qi4xq")
"""Position of a message: its offset, the length of its metadata and of its body."""
_BUFFER: Final = np.dtype([("at", "<i8"), ("length", "<i8")])


def check_uncompressed(data: bytes) -> None:
    """Check that a file holds one batch which takes no more memory than the file.

    Parameters
    ----------
    data
        A file that pyarrow has opened, but not read.

    Raises
    ------
    CorruptMap
        Its buffers are compressed or overlap, it holds dictionaries, or its tables cannot be read.
    """
    try:
        footer = _footer(data)
        dictionaries, batches = footer.vector(_FOOTER_DICTIONARIES), footer.vector(_FOOTER_BATCHES)
        if dictionaries.size:
            raise CorruptMap(f"a map has no dictionaries, and this has {dictionaries.size}")
        if batches.size != 1:
            raise CorruptMap(f"a map is one batch of records, and these are {batches.size}")
        offset, length, _ = _unpack(_BLOCK, data, batches.at)
        batch = _batch(data, offset, length)
        buffers = batch.vector(_BATCH_BUFFERS)
        _check_bounds(data, buffers.at, buffers.size * _BUFFER.itemsize)
    except struct.error as error:
        raise CorruptMap(f"this is no map, or a damaged one: no whole Arrow file ({error})") from error
    if batch.field(_BATCH_COMPRESSION) is not None:
        raise CorruptMap("the map's buffers are compressed, and those of a map never are: write it uncompressed")
    lengths = np.frombuffer(data, _BUFFER, buffers.size, buffers.at)["length"]
    if not ((lengths >= 0) & (lengths <= len(data))).all() or lengths.sum() > len(data):
        raise CorruptMap(f"the map's buffers take more bytes together than the whole file, {len(data)}")


class _Vector(NamedTuple):
    """Offset of the first element, and number of elements."""

    at: int
    size: int


class _Table(NamedTuple):
    """A FlatBuffers table."""

    data: bytes
    at: int

    def field(self, number: int) -> int | None:
        """Return the offset of a field; None if the table omits it."""
        fields = self.at - _integer("<i", self.data, self.at)
        place = 4 + 2 * number
        if place + 2 > _integer("<H", self.data, fields):
            return None
        relative = _integer("<H", self.data, fields + place)
        return self.at + relative if relative else None

    def vector(self, number: int) -> _Vector:
        """Return the vector in a field; an empty one if the table omits it."""
        place = self.field(number)
        if place is None:
            return _Vector(0, 0)
        at = _target(self.data, place)
        return _Vector(at + 4, _integer("<I", self.data, at))


def _footer(data: bytes) -> _Table:
    """Return the file's last table; its length and the magic word follow it."""
    end = len(data) - len(_MAGIC) - 4
    start = end - _integer("<i", data, end)
    return _Table(data, _target(data, start))


def _batch(data: bytes, offset: int, length: int) -> _Table:
    """Return the metadata of the batch in a message."""
    _check_bounds(data, offset, length)
    # Before Arrow 0.15 there was no continuation word before the length.
    start = offset + (8 if _integer("<I", data, offset) == _CONTINUATION else 4)
    message = _Table(data, _target(data, start))
    kind, header = message.field(_MESSAGE_KIND), message.field(_MESSAGE_HEADER)
    if kind is None or header is None or _integer("<B", data, kind) != _RECORD_BATCH:
        raise CorruptMap("this is no map, or a damaged one: its batch of records is none")
    if data.find(_OLD_COMPRESSION, offset, offset + length) >= 0:
        raise CorruptMap("the map's buffers are compressed, and those of a map never are: write it uncompressed")
    return _Table(data, _target(data, header))


def _target(data: bytes, at: int) -> int:
    """Return the offset that the relative offset stored here points to."""
    return at + _integer("<I", data, at)


def _integer(form: str, data: bytes, at: int) -> int:
    return int(_unpack(struct.Struct(form), data, at)[0])


def _unpack(form: struct.Struct, data: bytes, at: int) -> tuple[int, ...]:
    _check_bounds(data, at, form.size)
    return form.unpack_from(data, at)


def _check_bounds(data: bytes, at: int, length: int) -> None:
    """Check that the bytes exist: for a negative offset, Python would count from the end."""
    if at < 0 or length < 0 or at + length > len(data):
        raise struct.error(f"{length} bytes at {at} are not there")
