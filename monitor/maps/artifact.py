"""Store a map as one Arrow file with JSON in its schema, which any language can read. No pickle.

docs/decisions/0010-a-map-is-one-arrow-file.md describes the format with an example, and
docs/decisions/0019-reading-artifacts.md what is checked when a file is read.
"""

import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor import maps  # the module: METHODS is complete only after the scan, which imports this file too
from monitor.arrays import from_arrow
from monitor.errors import CorruptMap, InputError
from monitor.maps import MapParts, RecalibrationMap

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


class _FlatTable(NamedTuple):
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


def _footer(data: bytes) -> _FlatTable:
    """Return the file's last table; its length and the magic word follow it."""
    end = len(data) - len(_MAGIC) - 4
    start = end - _integer("<i", data, end)
    return _FlatTable(data, _target(data, start))


def _batch(data: bytes, offset: int, length: int) -> _FlatTable:
    """Return the metadata of the batch in a message."""
    _check_bounds(data, offset, length)
    # Before Arrow 0.15 there was no continuation word before the length.
    start = offset + (8 if _integer("<I", data, offset) == _CONTINUATION else 4)
    message = _FlatTable(data, _target(data, start))
    kind, header = message.field(_MESSAGE_KIND), message.field(_MESSAGE_HEADER)
    if kind is None or header is None or _integer("<B", data, kind) != _RECORD_BATCH:
        raise CorruptMap("this is no map, or a damaged one: its batch of records is none")
    if data.find(_OLD_COMPRESSION, offset, offset + length) >= 0:
        raise CorruptMap("the map's buffers are compressed, and those of a map never are: write it uncompressed")
    return _FlatTable(data, _target(data, header))


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


FORMAT: Final = 1
MAX_BYTES: Final = 256 * 2**20
"""The largest map that is sent, stored and held in memory by every scorer."""
MAX_HEADER_BYTES: Final = 16 * 2**20
"""The largest JSON header: about 100,000 groups. Parsed JSON takes up to twenty times as much memory."""

OVERHEAD_BYTES: Final = 2**20
"""How much larger a file may be than its arrays."""

HEADER_KEY: Final = b"calibration-map"
HASH_KEY: Final = b"calibration-map-sha256"

_TYPES: Final = {"float64": pa.float64(), "float32": pa.float32(), "int64": pa.int64(), "int32": pa.int32()}

_Size = Annotated[int, msgspec.Meta(ge=0, le=MAX_BYTES)]  # an empty array may have one huge dimension


class _Format(msgspec.Struct):
    format: int


class _Header(_Format):
    """The JSON in the metadata of the schema."""

    method: str
    classes: int
    feature_count: int | None
    segment_key: str | None
    settings: dict[str, Any]
    shapes: dict[str, Annotated[list[_Size], msgspec.Meta(min_length=1, max_length=2)]]
    types: dict[str, Literal["float64", "float32", "int64", "int32"]]
    about: dict[str, Any]


_read_format: Final = msgspec.json.Decoder(_Format).decode
_read_header: Final = msgspec.json.Decoder(_Header).decode


@dataclass(frozen=True)
class Artifact:
    """A map and its metadata.

    Attributes
    ----------
    map
        The map, ready to be applied.
    about
        Where the map comes from: its id, model, version, method, options, the hash of its data, ...
    """

    map: RecalibrationMap
    about: Mapping[str, Any]


@dataclass(frozen=True)
class _Content:
    """The content of a file, each part checked on its own."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    sha256: str


def to_bytes(chosen: RecalibrationMap, about: Mapping[str, Any]) -> bytes:
    """Write a map to bytes. Equal maps with an equal ``about`` have equal bytes.

    Raises
    ------
    InputError
        The file would be larger than 256 MiB, or the JSON in it than 16.
    ValueError
        An array or a setting has a type that a file cannot store: the map's ``parts`` method is wrong.
    """
    parts = chosen.parts()
    arrays = {name: _check_array(name, parts.arrays[name]) for name in sorted(parts.arrays)}
    size = sum(array.nbytes for array in arrays.values())
    if size > MAX_BYTES:
        raise _too_large(size)
    header = json.dumps(
        {
            "format": FORMAT,
            **_signature(chosen),
            "settings": dict(parts.settings),
            "shapes": {name: list(array.shape) for name, array in arrays.items()},
            "types": {name: array.dtype.name for name, array in arrays.items()},
            "about": dict(about),
        },
        sort_keys=True,
        allow_nan=False,
        ensure_ascii=False,
        separators=(",", ":"),
    ).encode()
    if len(header) > MAX_HEADER_BYTES:
        raise InputError(
            f"the settings of the map take {len(header) / 2**20:.0f} MiB, at most {MAX_HEADER_BYTES // 2**20}"
            " are allowed: take fewer groups"
        )
    columns = [
        pa.LargeListArray.from_arrays(pa.array([0, array.size], pa.int64()), pa.array(array.reshape(-1)))
        for array in arrays.values()
    ]
    fields = [pa.field(name, column.type, nullable=False) for name, column in zip(arrays, columns, strict=True)]
    metadata = {HEADER_KEY: header, HASH_KEY: _hash(header, arrays).encode()}
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields, metadata=metadata))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = bytes(sink.getvalue())
    if len(data) > MAX_BYTES + OVERHEAD_BYTES:
        raise _too_large(len(data))
    return data


def from_bytes(data: bytes) -> Artifact:
    """Read a map from the bytes of a file.

    Raises
    ------
    CorruptMap
        The bytes are not such a file, are damaged, of a newer format or of an unknown method, or the content is not a
        map of that method.
    """
    content = _read(data)
    header = content.header
    method = maps.METHODS.get(header["method"])
    if method is None:
        methods = ", ".join(maps.METHODS)
        raise CorruptMap(f"the map's method {header['method']!r} is not known here; there are {methods}")
    loaded = method.load(MapParts(header["settings"], content.arrays))
    for key, value in _signature(loaded).items():
        if value != header[key]:
            raise CorruptMap(f"the map says {key} {header[key]!r}, and its parts are of {value!r}")
    return Artifact(loaded, header["about"])


def _signature(chosen: RecalibrationMap) -> dict[str, Any]:
    """Return what the header says of the predictions that a map is for."""
    return {
        "method": chosen.method,
        "classes": chosen.classes,
        "feature_count": chosen.feature_count,
        "segment_key": chosen.segment_key,
    }


def to_json(data: bytes) -> dict[str, Any]:
    """Convert a file to JSON: its header, its hash, and ``arrays`` as (nested) lists.

    Raises
    ------
    CorruptMap
        The bytes are not such a file, are damaged, or of a newer format.
    """
    content = _read(data)
    arrays = {name: array.tolist() for name, array in content.arrays.items()}
    return {**content.header, "sha256": content.sha256, "arrays": arrays}


def _read(data: bytes) -> _Content:
    if len(data) > MAX_BYTES + OVERHEAD_BYTES:
        raise CorruptMap(f"a map takes at most {MAX_BYTES // 2**20} MiB, and these are {len(data) / 2**20:.0f}")
    try:
        reader = pa.ipc.open_file(pa.BufferReader(data))
        schema = reader.schema
        names = schema.names  # Arrow does not validate them: they may not be UTF-8
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CorruptMap(_not_a_file(error)) from error
    check_uncompressed(data)  # before Arrow allocates memory for buffers
    metadata = schema.metadata or {}
    if HEADER_KEY not in metadata:
        raise CorruptMap(f"this Arrow file is no map: its schema has no metadata {HEADER_KEY.decode()!r}")
    header = _header(metadata[HEADER_KEY])
    for name, kind in zip(names, schema.types, strict=True):
        _check_column(name, kind, header["shapes"], header["types"])
    if not names == sorted(header["shapes"]) == sorted(header["types"]):
        raise CorruptMap(f"the map has the columns {names}, its header names {list(header['shapes'])}")
    try:
        batch = reader.get_batch(0)
        batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise CorruptMap(_not_a_file(error)) from error
    if batch.num_columns and batch.num_rows != 1:  # Arrow stores no row count for a batch without columns
        raise CorruptMap(f"a map has one row, and this has {batch.num_rows}")
    arrays = {name: _array(name, batch.column(name), header) for name in names}
    sha256 = _hash(metadata[HEADER_KEY], arrays)
    if metadata.get(HASH_KEY) != sha256.encode():
        raise CorruptMap("the map is damaged: its content does not have the SHA-256 that it says")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise CorruptMap(f"array {name} of the map holds values that are not finite")
    return _Content(header, arrays, sha256)


def _header(text: bytes) -> dict[str, Any]:
    if len(text) > MAX_HEADER_BYTES:
        raise CorruptMap(
            f"the header of a map takes at most {MAX_HEADER_BYTES // 2**20} MiB, and this {len(text) / 2**20:.0f}"
        )
    try:
        found = _read_format(text).format
        if found != FORMAT:
            raise CorruptMap(
                f"the map is of format {found}, and this version reads {FORMAT}: read it with a newer version"
            )
        header = _read_header(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptMap(f"the map's header cannot be read: {_first_line(error)}") from error
    return {name: getattr(header, name) for name in sorted(header.__struct_fields__)}


def _check_column(name: str, kind: pa.DataType, shapes: dict[str, Any], types: dict[str, Any]) -> None:
    if name not in shapes or name not in types:
        raise CorruptMap(f"column {name!r} of the map is not in its header")
    if not pa.types.is_large_list(kind) or kind.value_type != _TYPES[types[name]]:
        raise CorruptMap(f"array {name} of the map is of the type {kind}, its header says {types[name]}")


def _array(name: str, column: pa.Array, header: Mapping[str, Any]) -> NDArray[Any]:
    """Copy one column's values to an aligned, read-only array of the shape that the header gives."""
    shape, kind = header["shapes"][name], np.dtype(header["types"][name])
    values = column.flatten()
    if column.null_count or values.null_count:
        raise CorruptMap(f"array {name} of the map has missing values")
    if len(values) != math.prod(shape):
        raise CorruptMap(f"array {name} of the map has {len(values)} values, its shape is {shape}")
    array = np.array(from_arrow(values), kind).reshape(shape)
    array.flags.writeable = False
    return array


def _too_large(size: int) -> InputError:
    return InputError(
        f"the map takes {size / 2**20:.0f} MiB, at most {MAX_BYTES // 2**20} are allowed: "
        "store fewer points, or take fewer dimensions"
    )


def _check_array(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.name not in _TYPES or array.ndim not in {1, 2}:
        raise ValueError(f"array {name} of a map must be of {', '.join(_TYPES)}, with 1 or 2 dimensions")
    if not np.isfinite(array).all():
        raise ValueError(f"array {name} of a map must be finite")
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def _hash(header: bytes, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of the header's bytes and the arrays' values, little-endian, in the order of the columns."""
    digest = hashlib.sha256(header)
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def _not_a_file(error: BaseException) -> str:
    return f"this is no map, or a damaged one: no whole Arrow file ({_first_line(error)})"


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]
