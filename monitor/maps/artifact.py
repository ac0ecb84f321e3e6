"""A map as bytes that any language reads: one Arrow file, whose schema tells the rest in JSON. No pickle.

The form is described, with a worked example, in docs/decisions/0010-a-map-is-one-arrow-file.md.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor import maps  # as a whole: METHODS is complete only after this file, too, has been scanned
from monitor.errors import CorruptMap, InputError
from monitor.maps.artifact_blocks import check_plain
from monitor.maps.base import MapParts, RecalibrationMap

FORMAT: Final = 1
LARGEST_BYTES: Final = 256 * 2**20
"""Of a map. A larger one could not be sent, stored and held by every scorer without trouble."""
LARGEST_HEADER_BYTES: Final = 16 * 2**20
"""Of the JSON in it, which takes up to twenty times as much once it is read. That is some 100,000 groups."""

_BESIDE_BYTES: Final = 2**20
"""So much larger may a file be than its arrays."""

HEADER_KEY: Final = b"calibration-map"
HASH_KEY: Final = b"calibration-map-sha256"

_TYPES: Final = {"float64": pa.float64(), "float32": pa.float32(), "int64": pa.int64(), "int32": pa.int32()}
_KEYS: Final = {
    "format": int,
    "method": str,
    "classes": int,
    "feature_count": int | None,
    "segment_key": str | None,
    "settings": dict,
    "shapes": dict,
    "types": dict,
    "about": dict,
}
"""Of the header, with the kinds of their values."""


@dataclass(frozen=True)
class Artifact:
    """A map, and what is known of it.

    Attributes
    ----------
    map
        The map, ready to be applied.
    about
        Where it comes from: its id, model, version, method, options, the hash of its data, ...
    """

    map: RecalibrationMap
    about: Mapping[str, Any]


@dataclass(frozen=True)
class _Content:
    """What a file says, each part checked by itself."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    sha256: str


def to_bytes(chosen: RecalibrationMap, about: Mapping[str, Any]) -> bytes:
    """The map as a file. Equal maps with an equal ``about`` have equal bytes.

    Raises
    ------
    InputError
        The file would be larger than 256 MiB, or the JSON in it than 16.
    ValueError
        An array or a setting is of a kind that a file does not hold: the map's ``parts`` are at fault.
    """
    parts = chosen.parts()
    arrays = {name: _plain(name, parts.arrays[name]) for name in sorted(parts.arrays)}
    size = sum(array.nbytes for array in arrays.values())
    if size > LARGEST_BYTES:
        raise _too_large(size)
    header = _dumped(
        {
            "format": FORMAT,
            "method": chosen.method,
            "classes": chosen.classes,
            "feature_count": chosen.feature_count,
            "segment_key": chosen.segment_key,
            "settings": dict(parts.settings),
            "shapes": {name: list(array.shape) for name, array in arrays.items()},
            "types": {name: array.dtype.name for name, array in arrays.items()},
            "about": dict(about),
        }
    )
    if len(header) > LARGEST_HEADER_BYTES:
        raise InputError(
            f"what the map says of itself takes {len(header) / 2**20:.0f} MiB, at most {LARGEST_HEADER_BYTES // 2**20}"
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
    if len(data) > LARGEST_BYTES + _BESIDE_BYTES:  # nobody could read it
        raise _too_large(len(data))
    return data


def from_bytes(data: bytes) -> Artifact:
    """The map that a file holds.

    Raises
    ------
    CorruptMap
        It is no such file, it is damaged, of a newer format, of a method that this version does not know, or what it
        holds is no map of that method. Says which.
    """
    content = _read(data)
    header = content.header
    method = maps.METHODS.get(header["method"])
    if method is None:
        known = ", ".join(maps.METHODS)
        raise CorruptMap(f"the map's method {header['method']!r} is not known here; there are {known}")
    found = method.load(MapParts(header["settings"], content.arrays))
    for key, value in {
        "method": found.method,
        "classes": found.classes,
        "feature_count": found.feature_count,
        "segment_key": found.segment_key,
    }.items():
        if value != header[key]:
            raise CorruptMap(f"the map says {key} {header[key]!r}, and its parts are of {value!r}")
    return Artifact(found, header["about"])


def to_json(data: bytes) -> dict[str, Any]:
    """What a file holds as JSON: its header, its hash, and ``arrays``: lists, of lists where of two dimensions.

    Raises
    ------
    CorruptMap
        It is no such file, it is damaged, or of a newer format.
    """
    content = _read(data)
    arrays = {name: array.tolist() for name, array in content.arrays.items()}
    return {**content.header, "sha256": content.sha256, "arrays": arrays}


def _read(data: bytes) -> _Content:
    if len(data) > LARGEST_BYTES + _BESIDE_BYTES:
        raise CorruptMap(f"a map takes at most {LARGEST_BYTES // 2**20} MiB, and these are {len(data) / 2**20:.0f}")
    try:
        reader = pa.ipc.open_file(pa.BufferReader(data))
        schema = reader.schema
        names = schema.names  # not validated: they may be no UTF-8
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _no_file(error) from error
    check_plain(data)  # before anything is unpacked
    metadata = schema.metadata or {}
    if HEADER_KEY not in metadata:
        raise CorruptMap(f"this Arrow file is no map: its schema has no metadata {HEADER_KEY.decode()!r}")
    header = _header(metadata[HEADER_KEY])
    for name, kind in zip(names, schema.types, strict=True):
        _check_column(name, kind, header["shapes"], header["types"])
    if names != sorted(header["shapes"]):
        raise CorruptMap(f"the map has the columns {names}, its header tells of {list(header['shapes'])}")
    try:
        batch = reader.get_batch(0)
        batch.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise _no_file(error) from error
    if batch.num_columns and batch.num_rows != 1:  # of a batch without columns, Arrow keeps no number of rows
        raise CorruptMap(f"a map has one row, and this has {batch.num_rows}")
    arrays = {name: _array(name, batch.column(at), header["shapes"][name]) for at, name in enumerate(names)}
    found = _hash(metadata[HEADER_KEY], arrays)
    if metadata.get(HASH_KEY) != found.encode():
        raise CorruptMap("the map is damaged: its content does not have the SHA-256 that it says")
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise CorruptMap(f"array {name} of the map holds values that are not finite")
    return _Content(header, arrays, found)


def _header(text: bytes) -> dict[str, Any]:
    if len(text) > LARGEST_HEADER_BYTES:
        raise CorruptMap(
            f"the header of a map takes at most {LARGEST_HEADER_BYTES // 2**20} MiB, and this {len(text) / 2**20:.0f}"
        )
    try:
        header = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise CorruptMap(f"the map's header is no JSON: {_first_line(error)}") from error
    if not isinstance(header, dict) or not _is_a(header.get("format"), int):
        raise CorruptMap("the map's header says no format")
    if header["format"] != FORMAT:
        raise CorruptMap(
            f"the map is of format {header['format']}, and this version reads {FORMAT}: read it with a newer version"
        )
    for key, kind in _KEYS.items():
        if key not in header or not _is_a(header[key], kind):
            raise CorruptMap(f"the map's header has no usable {key!r}: {header.get(key)!r}")
    for name, shape in header["shapes"].items():
        sizes = isinstance(shape, list) and all(_is_a(size, int) and size >= 0 for size in shape)
        if not sizes or len(shape) not in {1, 2}:
            raise CorruptMap(f"array {name} of the map has the shape {shape!r}: one size or two are wanted")
        if sum(shape) > LARGEST_BYTES:  # of an empty array the other size says nothing of how much it takes
            raise CorruptMap(f"array {name} of the map has the shape {shape!r}, which is larger than any map")
        kind = header["types"].get(name)
        if not isinstance(kind, str) or kind not in _TYPES:
            raise CorruptMap(f"array {name} of the map has the type {kind!r}: one of {', '.join(_TYPES)} is wanted")
    return header


def _check_column(name: str, kind: pa.DataType, shapes: dict[str, Any], types: dict[str, Any]) -> None:
    if name not in shapes:
        raise CorruptMap(f"column {name!r} of the map is not in its header")
    if not pa.types.is_large_list(kind) or kind.value_type != _TYPES[types[name]]:
        raise CorruptMap(f"array {name} of the map is of the type {kind}, its header says {types[name]}")


def _array(name: str, column: pa.Array, shape: list[int]) -> NDArray[Any]:
    """One column's values in its shape; a copy, aligned and read-only."""
    values = column.flatten()
    if column.null_count or values.null_count:
        raise CorruptMap(f"array {name} of the map has missing values")
    if len(values) != math.prod(shape):
        raise CorruptMap(f"array {name} of the map has {len(values)} values, its shape is {shape}")
    array = np.array(values.to_numpy(zero_copy_only=False)).reshape(shape)
    array.flags.writeable = False
    return array


def _too_large(size: int) -> InputError:
    return InputError(
        f"the map takes {size / 2**20:.0f} MiB, at most {LARGEST_BYTES // 2**20} are allowed: "
        "store fewer points, or take fewer dimensions"
    )


def _plain(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.name not in _TYPES or array.ndim not in {1, 2}:
        raise ValueError(f"array {name} of a map must be of {', '.join(_TYPES)}, with 1 or 2 dimensions")
    if not np.isfinite(array).all():
        raise ValueError(f"array {name} of a map must be finite")
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


def _hash(header: bytes, arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over the header as it stands and the arrays' values, little-endian, in the order of the columns."""
    digest = hashlib.sha256(header)
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


def _dumped(header: Mapping[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def _is_a(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _no_file(error: BaseException) -> CorruptMap:
    return CorruptMap(f"this is no map, or a damaged one: no whole Arrow file ({_first_line(error)})")


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0]
