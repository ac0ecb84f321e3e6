"""Protobuf messages of one type to Arrow columns, without a Python object for each message."""

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from monitor.arrays import Bools, Ints
from monitor.events.protobuf_loops import (
    BYTES,
    FIXED32,
    FIXED64,
    MESSAGE,
    OTHER,
    TEXT,
    VARINT,
    copy_slices,
    find_fields,
    read_numbers,
)

TIMESTAMP: Final = "google.protobuf.Timestamp"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)

_MAX_DEPTH: Final = 20
_MAX_BYTES: Final = 2**31 - 1
"""What Arrow addresses in a column of texts."""
_MAX_SECONDS: Final = 2**53
_WIRE: Final = {
    "double": FIXED64,
    "fixed64": FIXED64,
    "sfixed64": FIXED64,
    "float": FIXED32,
    "fixed32": FIXED32,
    "sfixed32": FIXED32,
    "string": BYTES,
    "bytes": BYTES,
    "message": BYTES,
}
"""Wire type by type; the others are varints."""
_TEXT_AND_BYTES: Final = {"string": pa.string(), "bytes": pa.binary()}


class _Field(NamedTuple):
    name: str
    number: int
    kind: str
    """The type, as a schema names it."""
    is_repeated: bool
    is_map: bool
    has_presence: bool
    message: "MessageType | None"
    names: Mapping[int, str]
    """Names of an enum's numbers."""


class MessageType:
    """Decodes messages of a type.

    Parameters
    ----------
    descriptor
        The type.
    depth
        How many messages this one is in.

    Raises
    ------
    ValueError
        The type holds itself, groups or extensions, which are only decoded one by one.
    """

    def __init__(self, descriptor: Any, depth: int = 0) -> None:
        if depth > _MAX_DEPTH or descriptor.is_extendable:
            raise ValueError(f"{descriptor.full_name} is not decoded by columns")
        self.name = descriptor.full_name
        self.is_entry = descriptor.GetOptions().map_entry
        self.fields = [_field(field, depth) for field in descriptor.fields]
        wire_types = [_WIRE.get(field.kind, VARINT) for field in self.fields]
        contents = {"string": TEXT, "message": MESSAGE}
        plan = [
            (field.number, wire, field.is_repeated, contents.get(field.kind, OTHER))
            for field, wire in zip(self.fields, wire_types, strict=True)
        ]
        self.wire_types = wire_types
        self.plan = np.array(plan, np.int64).reshape(-1, 4)
        places = {field.number: at for at, field in enumerate(self.fields)}
        self.oneofs = [
            [places[field.number] for field in oneof.fields] for oneof in descriptor.oneofs if len(oneof.fields) > 1
        ]

    def decode(self, payloads: Sequence[bytes], skip: int, names: Collection[str]) -> tuple[Bools, dict[str, Any]]:
        """Decode messages.

        Parameters
        ----------
        payloads
            The messages.
        skip
            How many bytes are in front of each.
        names
            The fields that are needed.

        Returns
        -------
        good
            bool, shape (n,): the messages that were decoded. The others may be valid, and are to be decoded one by one.
        columns
            Field -> Arrow array of as many rows as there are good messages.
        """
        ends = np.fromiter(accumulate(map(len, payloads)), np.int64, len(payloads))
        if ends[-1] > _MAX_BYTES:
            return np.zeros(len(payloads), np.bool_), {}
        begins = np.concatenate(([0], ends[:-1])) + skip
        messages = _Messages(self, np.frombuffer(b"".join(payloads), np.uint8), begins, ends)
        columns = {field.name: messages.column(at) for at, field in enumerate(self.fields) if field.name in names}
        good = messages.good
        if not good.all():
            columns = {name: column.filter(pa.array(good)) for name, column in columns.items()}
        return good, columns


def _field(field: Any, depth: int) -> _Field:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto  # noqa: PLC0415 - an extra

    if field.type == field.TYPE_GROUP:
        raise ValueError(f"{field.full_name} is a group")
    message = None if field.message_type is None else MessageType(field.message_type, depth + 1)
    numbers = {} if field.enum_type is None else field.enum_type.values_by_number
    return _Field(
        field.name,
        field.number,
        FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower(),
        field.is_repeated,
        message is not None and message.is_entry,
        field.has_presence,
        message,
        {number: value.name for number, value in numbers.items()},
    )


class _Values(NamedTuple):
    """The values of a field that is repeated."""

    rows: Ints
    """The message of each run of values."""
    begins: Ints
    ends: Ints
    counts: Ints
    """How many values are in each run."""


class _Messages:
    """Messages of one type, all fields found.

    Parameters
    ----------
    of_type
        Their type.
    data
        uint8: bytes that hold them.
    begins, ends
        int64, shape (n,): where each begins and ends.
    """

    def __init__(self, of_type: MessageType, data: Any, begins: Ints, ends: Ints) -> None:
        self._type = of_type
        self._data = data
        self._count = count = begins.size
        fields = of_type.fields
        self._first = np.zeros((len(fields), count), np.int64)
        self._last = np.full((len(fields), count), -1, np.int64)
        self.good: Bools = np.ones(count, np.bool_)
        has_repeated = any(field.is_repeated for field in fields)
        items = np.empty((5, int((ends - begins).sum()) // 2 + 1 if has_repeated else 0), np.int64)
        found = find_fields(
            data, begins, ends, of_type.plan, of_type.is_entry, self._first, self._last, items, self.good
        )
        self._values = {
            at: _Values(*items[1:, :found][:, items[0, :found] == at])
            for at, field in enumerate(fields)
            if field.is_repeated
        }
        self._inner = {at: self._find_inner(at, field.message) for at, field in enumerate(fields) if field.message}
        for at, field in enumerate(fields):
            if field.names:
                self._check_enum(at, field)
            if of_type.is_entry and (field.names or field.message):
                self.good &= self._last[at] >= 0  # its default is not zero
        for members in of_type.oneofs:
            self.good &= (self._last[members] >= 0).sum(axis=0) <= 1
        if of_type.name == TIMESTAMP:
            self.good &= np.abs(self._first[0]) < _MAX_SECONDS

    def _find_inner(self, at: int, of_type: MessageType) -> "_Messages":
        if at in self._values:
            values = self._values[at]
            rows, begins, ends = values.rows, values.begins, values.ends
        else:
            rows = np.flatnonzero(self._last[at] >= 0)
            begins, ends = self._first[at, rows], self._last[at, rows]
        inner = _Messages(of_type, self._data, begins, ends)
        self.good[rows[~inner.good]] = False
        return inner

    def _check_enum(self, at: int, field: _Field) -> None:
        """Mark messages whose number has no name: one by one it stays a number, or counts as unknown."""
        if field.is_repeated:
            values = self._values[at]
            known = np.isin(self._numbers(values, VARINT).astype(np.int32), list(field.names))
            self.good[np.repeat(values.rows, values.counts)[~known]] = False
        else:
            self.good &= np.isin(self._first[at].astype(np.int32), list(field.names)) | (self._last[at] < 0)

    def _numbers(self, values: _Values, wire: int) -> Ints:
        bits = np.empty(int(values.counts.sum()), np.int64)
        read_numbers(self._data, values.begins, values.ends, wire, bits)
        return bits

    def column(self, at: int) -> Any:
        """The values of a field, an Arrow array of shape (n,)."""
        field = self._type.fields[at]
        if not field.is_repeated:
            return self._single(at, field)
        values = self._values[at]
        counts = np.bincount(values.rows, weights=values.counts, minlength=self._count).astype(np.int64)
        offsets = pa.array(np.concatenate(([0], np.cumsum(counts))), pa.int32())
        if field.is_map:
            return self._map(offsets, self._inner[at])
        if field.message is not None:
            return pa.ListArray.from_arrays(offsets, self._inner[at].whole())
        if field.kind in _TEXT_AND_BYTES:
            inner = self._slices(field.kind, values.begins, values.ends, None)
        else:
            bits = self._numbers(values, self._type.wire_types[at])
            inner = _numbers(field, bits, None)
        return pa.ListArray.from_arrays(offsets, inner)

    def _single(self, at: int, field: _Field) -> Any:
        is_set = self._last[at] >= 0
        if field.message is not None:
            values = self._inner[at].whole()
            if is_set.all():
                return values
            return values.take(pa.array(np.cumsum(is_set) - 1, mask=~is_set))
        valid = is_set if field.has_presence and not self._type.is_entry else None
        if field.kind not in _TEXT_AND_BYTES:
            return _numbers(field, self._first[at], valid)
        begins, ends = self._first[at], np.maximum(self._last[at], 0)
        if field.kind == "string" and valid is None and not self._is_value():
            valid = ends > begins  # an empty text counts as absent
        return self._slices(field.kind, begins, ends, valid)

    def _is_value(self) -> bool:
        """Whether these messages only hold a value, of a map or of one that knows whether it was set."""
        return self._type.is_entry or self._type.name in WRAPPERS

    def whole(self) -> Any:
        """The messages, an Arrow array of shape (n,)."""
        if self._type.name == TIMESTAMP:
            seconds, nanos = self._first[0], self._first[1].astype(np.int32)
            return pa.array(1000 * seconds + nanos // 1_000_000)
        if self._type.name in WRAPPERS:
            return self.column(0)
        fields = self._type.fields
        if not fields:
            return pa.array([{}] * self._count, pa.struct([]))
        return pa.StructArray.from_arrays(
            [self.column(at) for at in range(len(fields))], [field.name for field in fields]
        )

    def _map(self, offsets: Any, entries: "_Messages") -> Any:
        keys, values = entries.column(0), entries.column(1)
        if not pa.types.is_string(keys.type):
            keys = pa.array(map(str, keys.to_pylist()), pa.string())
        return pa.MapArray.from_arrays(offsets, keys, values)

    def _slices(self, kind: str, begins: Ints, ends: Ints, valid: Bools | None) -> Any:
        offsets = np.zeros(begins.size + 1, np.int32)
        np.cumsum(ends - begins, out=offsets[1:])
        copied = np.empty(offsets[-1], np.uint8)
        copy_slices(self._data, begins, ends, copied)
        bitmap = None
        if valid is not None and not valid.all():
            bitmap = pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(copied)]
        return pa.Array.from_buffers(_TEXT_AND_BYTES[kind], begins.size, buffers)


def _numbers(field: _Field, bits: Ints, valid: Bools | None) -> Any:
    """Numbers of a field from their 64 bits; null where they are not valid."""
    values: Any = bits
    match field.kind:
        case "double":
            values = bits.view(np.float64)
        case "float":
            values = bits.astype(np.int32).view(np.float32).astype(np.float64)
        case "int32" | "sfixed32":
            values = bits.astype(np.int32)
        case "uint32" | "fixed32":
            values = bits & 0xFFFFFFFF
        case "uint64" | "fixed64":
            values = bits.view(np.uint64) if (bits < 0).any() else bits
        case "sint32" | "sint64":
            bits = bits & 0xFFFFFFFF if field.kind == "sint32" else bits
            values = (bits >> 1 & 0x7FFFFFFFFFFFFFFF) ^ -(bits & 1)
        case "bool":
            values = bits != 0
        case "enum":
            numbers = np.array(sorted(field.names))
            names = pa.array([field.names[number] for number in numbers.tolist()], pa.string())
            places = np.minimum(np.searchsorted(numbers, bits.astype(np.int32)), numbers.size - 1)
            return names.take(pa.array(places, mask=None if valid is None else ~valid))
    return pa.array(values, mask=None if valid is None else ~valid)
