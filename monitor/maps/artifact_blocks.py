"""What an Arrow file says of the batch that it holds, before a byte of it is unpacked.

Arrow unpacks compressed buffers to whatever size they name, and an Arrow library tells of no file whether they are:
so its two small tables that do, the footer and the batch's own, are read here. Both are FlatBuffers, see
https://arrow.apache.org/docs/format/Columnar.html and https://flatbuffers.dev/internals.
"""

import struct
from typing import Final, NamedTuple

import numpy as np

from monitor.errors import CorruptMap

_MAGIC: Final = b"ARROW1"
_CONTINUATION: Final = 0xFFFFFFFF
_RECORD_BATCH: Final = 3
"""The kind of message that holds a batch."""
_OLD_COMPRESSION: Final = b"ARROW:experimental_compression"
"""Where Arrow 0.17 said that buffers are compressed; readers still know it."""

# Places of fields in their tables.
_FOOTER_DICTIONARIES: Final = 2
_FOOTER_BATCHES: Final = 3
_MESSAGE_KIND: Final = 1
_MESSAGE_HEADER: Final = 2
_BATCH_BUFFERS: Final = 2
_BATCH_COMPRESSION: Final = 3

_BLOCK: Final = struct.Struct("<qi4xq")
"""Of a message: where it begins, how long what tells of it is, and how long its buffers are together."""
_BUFFER: Final = np.dtype([("at", "<i8"), ("length", "<i8")])


def check_plain(data: bytes) -> None:
    """Check that a file's one batch can be read without anything growing: it takes no more than the file does.

    Parameters
    ----------
    data
        A file that an Arrow library has opened, but not read.

    Raises
    ------
    CorruptMap
        Its buffers are compressed, or overlap, or it holds dictionaries; or its tables cannot be read. Says which.
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
        _bounded(data, buffers.at, buffers.size * _BUFFER.itemsize)
    except struct.error as error:
        raise CorruptMap(f"this is no map, or a damaged one: no whole Arrow file ({error})") from error
    if batch.field(_BATCH_COMPRESSION) is not None:
        raise CorruptMap("the map's buffers are compressed, and those of a map never are: write it uncompressed")
    lengths = np.frombuffer(data, _BUFFER, buffers.size, buffers.at)["length"]
    if not ((lengths >= 0) & (lengths <= len(data))).all() or lengths.sum() > len(data):
        raise CorruptMap(f"the map's buffers take more bytes together than the whole file, {len(data)}")


class _Vector(NamedTuple):
    """Where the first element is, and how many there are."""

    at: int
    size: int


class _Table(NamedTuple):
    """A table of FlatBuffers."""

    data: bytes
    at: int

    def field(self, number: int) -> int | None:
        """Where the field of this number is; None where the table leaves it out."""
        fields = self.at - _whole("<i", self.data, self.at)
        place = 4 + 2 * number
        if place + 2 > _whole("<H", self.data, fields):
            return None
        relative = _whole("<H", self.data, fields + place)
        return self.at + relative if relative else None

    def vector(self, number: int) -> _Vector:
        """The vector in the field of this number; an empty one where the table leaves it out."""
        place = self.field(number)
        if place is None:
            return _Vector(0, 0)
        at = _followed(self.data, place)
        return _Vector(at + 4, _whole("<I", self.data, at))


def _footer(data: bytes) -> _Table:
    """The file's last table, whose length and the magic word stand behind it."""
    end = len(data) - len(_MAGIC) - 4
    start = end - _whole("<i", data, end)
    return _Table(data, _followed(data, start))


def _batch(data: bytes, offset: int, length: int) -> _Table:
    """What a message tells of its batch."""
    _bounded(data, offset, length)
    # Before Arrow 0.15 the length came without a word that says so before it.
    start = offset + (8 if _whole("<I", data, offset) == _CONTINUATION else 4)
    message = _Table(data, _followed(data, start))
    kind, header = message.field(_MESSAGE_KIND), message.field(_MESSAGE_HEADER)
    if kind is None or header is None or _whole("<B", data, kind) != _RECORD_BATCH:
        raise CorruptMap("this is no map, or a damaged one: its batch of records is none")
    if data.find(_OLD_COMPRESSION, offset, offset + length) >= 0:
        raise CorruptMap("the map's buffers are compressed, and those of a map never are: write it uncompressed")
    return _Table(data, _followed(data, header))


def _followed(data: bytes, at: int) -> int:
    """Where what stands here points to."""
    return at + _whole("<I", data, at)


def _whole(form: str, data: bytes, at: int) -> int:
    return int(_unpack(struct.Struct(form), data, at)[0])


def _unpack(form: struct.Struct, data: bytes, at: int) -> tuple[int, ...]:
    _bounded(data, at, form.size)
    return form.unpack_from(data, at)


def _bounded(data: bytes, at: int, length: int) -> None:
    """Check that so many bytes are there: Python itself would count a place below 0 from the end."""
    if at < 0 or length < 0 or at + length > len(data):
        raise struct.error(f"{length} bytes at {at} are not there")
