"""Avro: each message is one record, decoded with the schema it was written with.

Evolution follows: a field that a newer schema added is used where it is there; one that it removed is absent; numbers
may be int, long, float or double in one schema and another type in the next.

Source: Apache Avro 1.12 specification, "Binary Encoding" and "Logical Types".
"""

import io
import json
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from monitor.errors import SettingsError
from monitor.events.formats.base import Format
from monitor.events.mapping import Document, FieldMapping
from monitor.events.schema_format import Codec, Columns, SchemaFormat
from monitor.events.schemas import Framed, Schema, Unframed

NAME: Final = "avro"

_BROKEN: Final = (ArithmeticError, EOFError, LookupError, RecursionError, TypeError, ValueError, struct.error)
"""What fastavro raises for bytes that were not written with the schema."""

_MIN_BATCH: Final = 16
"""Fewer are decoded one by one."""
_COLUMNAR_LOGICAL: Final = {"date", "timestamp-millis", "timestamp-micros"}
_TICKS_PER_MS: Final = {"timestamp-millis": 1, "timestamp-micros": 1_000, "timestamp-nanos": 1_000_000}
_OURS: Final = "event-"
_OUR_READERS: Final = {
    f"long-{_OURS}{name}": lambda ticks, *_, per_ms=per_ms: ticks // per_ms for name, per_ms in _TICKS_PER_MS.items()
}
"""Read times as milliseconds since the epoch, floored: fastavro's own readers fail for those that no calendar has."""


def make_format(schemas: Framed | Unframed, mapping: FieldMapping | None = None) -> Format:
    """The format, with the schemas of its messages, and where the keys of events are in them.

    Raises
    ------
    SettingsError
        The packages that it needs are not installed.
    """
    try:
        import fastavro  # noqa: F401, PLC0415 - an extra
        import pyruhvro  # noqa: F401, PLC0415
    except ImportError as error:
        raise SettingsError(
            f"format avro needs the package {error.name}, which is not installed: "
            "pip install 'calibration-monitor[avro]'"
        ) from error
    return SchemaFormat("Avro", schemas, compile_schema, mapping).format


def compile_schema(schema: Schema) -> Codec:
    """The codec of a schema. Raises ValueError if it is not an Avro record; says why."""
    from fastavro.read import LOGICAL_READERS  # noqa: PLC0415
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema  # noqa: PLC0415

    LOGICAL_READERS.update(_OUR_READERS)
    if schema.kind != "AVRO":
        raise ValueError(f"the registry says that it is {schema.kind}")
    names: dict[str, Any] = {}
    try:
        for reference in schema.references:
            parse_schema(_plain_ids(json.loads(reference.text)), named_schemas=names)
        definitions = dict(names)
        parsed = parse_schema(_plain_ids(json.loads(schema.text)), named_schemas=names)
        for node in (parsed, *names.values()):
            _check_arrays(node, names)
    except UnknownType as error:
        raise ValueError(f"it uses {error.name}, which it does not define") from None
    except (SchemaParseException, LookupError, RecursionError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise ValueError("it must be a record")
    return _AvroCodec(_self_contained(parsed, definitions))


class _AvroCodec:
    """Decodes with pyruhvro by columns, and with fastavro one by one.

    Parameters
    ----------
    schema
        The schema, with everything that it uses.
    """

    def __init__(self, schema: Any) -> None:
        from fastavro import parse_schema, schemaless_reader  # noqa: PLC0415
        from pyruhvro import deserialize_array  # noqa: PLC0415

        self._parsed = parse_schema(_with_our_times(schema))
        self._text = json.dumps(schema)
        self._read, self._read_columns = schemaless_reader, deserialize_array
        self._columnar = _is_columnar(schema)

    def columns(self, payloads: Sequence[bytes], names: Collection[str]) -> Iterable[Columns]:
        batches = [*self._read_batches(payloads, 0)] if self._columnar else []
        if not batches:
            return
        columns = {
            name: pa.concat_arrays([batch.column(name) for _, batch in batches])
            for name in batches[0][1].schema.names
            if name in names
        }
        for name, column in columns.items():
            if pa.types.is_timestamp(column.type):  # it leaves out that they are in UTC
                columns[name] = column.cast(pa.timestamp(column.type.unit, "UTC"))
        yield Columns([*chain.from_iterable(rows for rows, _ in batches)], columns)

    def _read_batches(self, payloads: Sequence[bytes], begin: int) -> Iterable[tuple[range, Any]]:
        """Decode all, or else each half: one payload that is cut off fails all that are decoded with it."""
        try:
            batch = self._read_columns(payloads, self._text)
            batch.validate(full=True)  # it does not check that texts are UTF-8
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


def _plain_ids(node: Any) -> Any:
    """The schema with UUIDs as the texts that they are: as written, whichever way they are decoded."""
    if isinstance(node, list):
        return [_plain_ids(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "string" and node.get("logicalType") == "uuid":
        return "string"
    return {key: _plain_ids(value) if key in _INNER else value for key, value in node.items()}


_INNER: Final = ("type", "fields", "items", "values")
"""The keys of a schema that hold further schemas."""


def _with_our_times(node: Any) -> Any:
    """The schema with logical types of times that our readers know."""
    if isinstance(node, list):
        return [_with_our_times(item) for item in node]
    if not isinstance(node, dict):
        return node
    inner = {key: _with_our_times(value) if key in _INNER else value for key, value in node.items()}
    if inner.get("logicalType") in _TICKS_PER_MS:
        inner["logicalType"] = _OURS + inner["logicalType"]
    return inner


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


def _is_columnar(node: Any) -> bool:
    """Whether pyruhvro implements all types of a schema; it panics, or returns nothing usable, for the others."""
    if isinstance(node, list):
        return all(map(_is_columnar, node))
    if isinstance(node, str):
        # The name of a type that the schema defines is checked where it is defined.
        return node not in {"bytes", "fixed"}
    if node.get("logicalType", "date") not in _COLUMNAR_LOGICAL:
        return False
    inner = [node[key] for key in ("type", "items", "values") if key in node]
    return all(map(_is_columnar, [*inner, *(field["type"] for field in node.get("fields", ()))]))
