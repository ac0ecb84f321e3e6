"""Avro: each message is one record, decoded with the schema it was written with.

Evolution follows: a field that a newer schema added is used where it is there; one that it removed is absent; numbers
may be int, long, float or double in one schema and another type in the next.

Source: Apache Avro 1.12 specification, "Binary Encoding" and "Logical Types".
"""

import io
import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import chain, pairwise
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.events.formats.base import Format
from monitor.events.mapping import Column, Document, FieldMapping, Values
from monitor.events.schema_format import Codec, Part, SchemaFormat, decode_documents, require_packages
from monitor.events.schemas import Framed, Schema, Unframed

NAME: Final = "avro"

_BROKEN: Final = (ArithmeticError, EOFError, LookupError, RecursionError, TypeError, ValueError, struct.error)
"""What fastavro raises for bytes that were not written with the schema."""

_MIN_BATCH: Final = 8
"""Fewer are decoded one by one."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the zone of a local time is not known


def _read_local(per_second: int) -> Callable[[int, Any], str]:
    """Read a time without its zone as a text, which is no event's time: it names no moment."""

    def read(ticks: int, _: Any) -> str:
        try:
            return (_EPOCH + timedelta(seconds=ticks // per_second)).isoformat()
        except OverflowError:
            return f"{ticks} ticks"

    return read


def _read_date(days: int, _: Any) -> str:
    try:
        return (date(1970, 1, 1) + timedelta(days)).isoformat()
    except OverflowError:
        return f"{days} days"


def _read_decimal(packed: bytes, schema: Any) -> int | float:
    """The number of a decimal: an integer, or else the double that is nearest to it."""
    unscaled, scale = int.from_bytes(packed, signed=True), int(10 ** schema.get("scale", 0))
    try:
        return unscaled // scale if unscaled % scale == 0 else unscaled / scale
    except OverflowError:
        return math.copysign(math.inf, unscaled)


_LOGICAL: Final[Mapping[tuple[str, str], Callable[[Any, Any], Any]]] = {
    ("long", "timestamp-millis"): lambda ticks, _: ticks,
    ("long", "timestamp-micros"): lambda ticks, _: ticks // 1_000,
    ("long", "timestamp-nanos"): lambda ticks, _: ticks // 1_000_000,
    ("long", "local-timestamp-millis"): _read_local(1_000),
    ("long", "local-timestamp-micros"): _read_local(1_000_000),
    ("long", "local-timestamp-nanos"): _read_local(1_000_000_000),
    ("int", "date"): _read_date,
    ("bytes", "decimal"): _read_decimal,
    ("fixed", "decimal"): _read_decimal,
    ("fixed", "uuid"): lambda packed, _: str(UUID(bytes=packed)),
}
"""Type and logical type -> reads a value as events have it: times are milliseconds since the epoch, floored. Of others
the type alone counts."""
_UUID_BYTES: Final = 16
_OURS: Final = "event-"
"""Before a logical type's name: fastavro's own readers fail for times that no calendar has."""


def make_format(schemas: Framed | Unframed, mapping: FieldMapping | None = None) -> Format:
    """The format, with the schemas of its messages, and where the keys of events are in them.

    Raises
    ------
    SettingsError
        The packages that it needs are not installed.
    """
    require_packages(NAME, "fastavro", "pyruhvro")
    return SchemaFormat("Avro", schemas, compile_schema, mapping).format


def compile_schema(schema: Schema) -> Codec:
    """The codec of a schema. Raises ValueError if it is not an Avro record; says why."""
    from fastavro.read import LOGICAL_READERS  # noqa: PLC0415
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema  # noqa: PLC0415

    for (kind, logical), read in _LOGICAL.items():
        LOGICAL_READERS[f"{kind}-{_OURS}{logical}"] = lambda value, schema, *_, read=read: read(value, schema)
    if schema.kind != "AVRO":
        raise ValueError(f"the registry says that it is {schema.kind}")
    names: dict[str, Any] = {}
    try:
        for reference in schema.references:
            parse_schema(_with_our_types(json.loads(reference.text)), named_schemas=names)
        definitions = dict(names)
        parsed = parse_schema(_with_our_types(json.loads(schema.text)), named_schemas=names)
        for node in (parsed, *names.values()):
            _check_arrays(node, names)
    except UnknownType as error:
        raise ValueError(f"it uses {error.name}, which it does not define") from None
    except (SchemaParseException, LookupError, RecursionError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise ValueError("it must be a record")
    return _AvroCodec(_self_contained(parsed, definitions), names)


class _AvroCodec:
    """Decodes with pyruhvro by columns, and with fastavro one by one.

    Parameters
    ----------
    schema
        The schema, with everything that it uses.
    names
        Name -> definition.
    """

    def __init__(self, schema: Any, names: Mapping[str, Any]) -> None:
        from fastavro import parse_schema, schemaless_reader  # noqa: PLC0415
        from pyruhvro import deserialize_array  # noqa: PLC0415

        self._schema, self._names = schema, names
        self._parsed = parse_schema(schema)
        self._read, self._read_columns = schemaless_reader, deserialize_array
        try:
            self._columnar = json.dumps(_columnar(schema))
        except ValueError:
            self._columnar = ""

    def decode(self, payloads: Sequence[bytes]) -> Iterable[Part]:
        """The messages, by columns where they can be."""
        batches = [*self._read_batches(payloads, 0)] if self._columnar else []
        rows = [*chain.from_iterable(of for of, _ in batches)]
        if batches:
            yield Part(
                rows,
                _ArrowColumn(pa.concat_batches([of for _, of in batches]).to_struct_array(), self._schema, self._names),
            )
        if len(rows) < len(payloads):
            yield decode_documents(self.document, payloads, sorted({*range(len(payloads))}.difference(rows)))

    def _read_batches(self, payloads: Sequence[bytes], begin: int) -> Iterator[tuple[range, Any]]:
        """Decode all, or else each half: one payload that is cut off fails all that are decoded with it."""
        try:
            batch = self._read_columns(payloads, self._columnar)
            for texts in _texts(batch.to_struct_array(), self._schema, self._names):
                texts.validate(full=True)  # it does not check that they are UTF-8
            yield range(begin, begin + len(payloads)), batch
        except ValueError:
            half = len(payloads) // 2
            if half >= _MIN_BATCH:
                yield from self._read_batches(payloads[:half], begin)
                yield from self._read_batches(payloads[half:], begin + half)

    def document(self, payload: bytes) -> Document:
        try:
            document: Any = self._read(io.BytesIO(payload), self._parsed)
        except _BROKEN as error:
            # fastavro's message ends with the address of the object that it reads from.
            raise ValueError(str(error).partition(" from <")[0] or type(error).__name__) from None
        return document  # type: ignore[no-any-return] # the schema is a record


class _ArrowColumn:
    """A column of Arrow, as pyruhvro decodes it.

    Parameters
    ----------
    array
        The values.
    schema
        Theirs, not of what :func:`_columnar` made of it.
    names
        Name -> definition.
    """

    def __init__(self, array: Any, schema: Any, names: Mapping[str, Any]) -> None:
        self._array, self._names = array, names
        self._schema = _resolved(schema, names, array)

    def inside(self, step: str | int) -> Column:
        """The field of each record; the part of each other value."""
        if _kind(self._schema) == "record":
            for at, field in enumerate(self._schema["fields"]):
                if field["name"] == str(step):
                    return _ArrowColumn(pc.struct_field(self._array, [at]), field["type"], self._names)
            return Values([None] * len(self._array))
        if _kind(self._schema) == "array" and isinstance(step, int):
            begins = self._array.offsets.to_numpy()
            has_place = (np.diff(begins) > step) & self._array.is_valid().to_numpy(zero_copy_only=False)
            items = self._array.values.take(pa.array(begins[:-1] + step, mask=~has_place))
            return _ArrowColumn(items, self._schema["items"], self._names)
        return Values(self.values()).inside(step)

    def values(self) -> list[Any]:
        """The values, as fastavro has them."""
        return _values(self._array, self._schema, self._names)


def _kind(schema: Any) -> Any:
    """Name of a schema's type."""
    return schema["type"] if isinstance(schema, dict) else schema


def _resolved(schema: Any, names: Mapping[str, Any], array: Any) -> Any:
    """The schema of an array: a definition for a name, the one branch that is not null for a union with null."""
    if isinstance(schema, list) and not pa.types.is_union(array.type):
        schema = next((branch for branch in schema if branch != "null"), "null")
    return names.get(schema, schema) if isinstance(schema, str) else schema


def _values(array: Any, schema: Any, names: Mapping[str, Any]) -> list[Any]:
    """The values of an array, as fastavro has them."""
    schema = _resolved(schema, names, array)
    if isinstance(schema, list):
        branches = [_values(array.field(at), branch, names) for at, branch in enumerate(schema)]
        return [branches[code][row] for row, code in enumerate(array.type_codes.to_pylist())]
    match kind := _kind(schema):
        case "record":
            fields = [field["name"] for field in schema["fields"]]
            columns = [_values(array.field(at), field["type"], names) for at, field in enumerate(schema["fields"])]
            values: list[Any] = [dict(zip(fields, row, strict=True)) for row in zip(*columns, strict=True)]
        case "array":
            items = _values(array.values, schema["items"], names)
            values = [items[begin:end] for begin, end in pairwise(array.offsets.to_pylist())]
        case "map":
            keys, items = array.keys.to_pylist(), _values(array.items, schema["values"], names)
            ends = pairwise(array.offsets.to_pylist())
            values = [dict(zip(keys[begin:end], items[begin:end], strict=True)) for begin, end in ends]
        case "fixed":
            parts = [array.field(at).to_numpy(zero_copy_only=False) for at in range(array.type.num_fields)]
            values = [*map(b"".join, zip(*([one.tobytes() for one in part] for part in parts), strict=True))]
        case "bytes":
            values = array.view(pa.binary()).to_pylist()
        case _:
            values = array.to_pylist()
    logical = schema.get("logicalType", "") if isinstance(schema, dict) else ""
    read = _LOGICAL.get((kind, logical.removeprefix(_OURS)))
    if array.null_count:
        is_there = array.is_valid().to_pylist()
        values = [value if there else None for value, there in zip(values, is_there, strict=True)]
    return values if read is None else [None if value is None else read(value, schema) for value in values]


def _check_arrays(node: Any, names: Mapping[str, Any]) -> None:
    """Raise ValueError if items of an array take no bytes: then a few bytes may claim to hold any number of them."""
    if isinstance(node, list):
        for item in node:
            _check_arrays(item, names)
    elif isinstance(node, dict):
        if node.get("type") == "array" and _has_no_bytes(node["items"], names):
            raise ValueError("the items of an array take no bytes")
        for key in _INNER:
            _check_arrays(node.get(key), names)


def _has_no_bytes(node: Any, names: Mapping[str, Any]) -> bool:
    if isinstance(node, str):
        return node == "null" or (node in names and _has_no_bytes(names[node], names))
    if not isinstance(node, dict):
        return False  # a union has the number of its branch
    if "fields" in node:
        return all(_has_no_bytes(field["type"], names) for field in node["fields"])
    return node.get("size") == 0 or _has_no_bytes(node["type"], names)


_INNER: Final = ("type", "fields", "items", "values")
"""The keys of a schema that hold further schemas."""


def _with_our_types(node: Any) -> Any:
    """The schema with the logical types that are read here; without the others, whose type alone counts."""
    if isinstance(node, list):
        return [_with_our_types(item) for item in node]
    if not isinstance(node, dict):
        return node
    inner = {key: _with_our_types(value) if key in _INNER else value for key, value in node.items()}
    logical = inner.pop("logicalType", None)
    if logical is not None and (str(inner["type"]), logical) in _LOGICAL and _is_possible(logical, inner):
        inner["logicalType"] = _OURS + logical
    return inner


def _is_possible(logical: str, node: Mapping[str, Any]) -> bool:
    """Whether a type can be of a logical type. One that cannot is read as the type alone, as the specification says."""
    if logical == "uuid":
        return node.get("size") == _UUID_BYTES
    scale, precision = node.get("scale", 0), node.get("precision")
    if logical == "decimal":
        return isinstance(scale, int) and isinstance(precision, int) and 0 <= scale <= precision
    return True


def _self_contained(parsed: Any, definitions: Mapping[str, Any]) -> Any:
    """The schema with the definition of each name that it takes from others, where the name is first used."""
    missing = dict(definitions)

    def insert(node: Any) -> Any:
        if isinstance(node, str):
            definition = missing.pop(node, None)
            return node if definition is None else insert(definition)
        if isinstance(node, list):
            return [insert(item) for item in node]
        if not isinstance(node, dict):
            return node
        return {
            key: insert(value) if key in _INNER else value for key, value in node.items() if not key.startswith("__")
        }

    return insert(parsed)


def _columnar(node: Any) -> Any:
    """The schema of the same bytes in the types that pyruhvro implements; it panics for others.

    Bytes are read as a text that need not be UTF-8, which has the same form, and a fixed as numbers of fixed length.

    Raises
    ------
    ValueError
        There is none.
    """
    if isinstance(node, list):
        return [*map(_columnar, node)]
    if isinstance(node, str):
        return "string" if node == "bytes" else node
    kind = node["type"]
    if kind == "bytes":
        return "string"
    if kind == "fixed":
        doubles, rest = divmod(node["size"], 8)
        if rest not in {0, 4} or node["size"] == 0:
            raise ValueError("a fixed that is not of whole numbers")
        types = ["double"] * doubles + ["float"] * (rest // 4)
        fields = [{"name": f"part{at}", "type": of} for at, of in enumerate(types)]
        return {"type": "record", "name": node["name"], "fields": fields}
    inner = {key: value for key, value in node.items() if key in {"name", "symbols"}}
    inner |= {key: _columnar(node[key]) for key in ("items", "values") if key in node}
    if "fields" in node:
        inner["fields"] = [{"name": field["name"], "type": _columnar(field["type"])} for field in node["fields"]]
    return inner | {"type": _columnar(kind)}


def _texts(array: Any, schema: Any, names: Mapping[str, Any]) -> Iterator[Any]:
    """The arrays of texts in an array; bytes are none."""
    schema = _resolved(schema, names, array)
    if isinstance(schema, list):
        for at, branch in enumerate(schema):
            yield from _texts(array.field(at), branch, names)
    elif (kind := _kind(schema)) == "record":
        for at, field in enumerate(schema["fields"]):
            yield from _texts(array.field(at), field["type"], names)
    elif kind == "array":
        yield from _texts(array.values, schema["items"], names)
    elif kind == "map":
        yield array.keys
        yield from _texts(array.items, schema["values"], names)
    elif kind == "string":
        yield array
