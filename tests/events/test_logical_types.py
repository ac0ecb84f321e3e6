"""Each type that a schema may name, as an id, a time, a number and a segment: the rows of docs/formats.md."""

import io
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest
from google.protobuf import text_format

from monitor.clock import ManualClock
from monitor.events.codec import Decoder
from monitor.events.fields import Rejected
from monitor.events.formats import avro, json_schema, protobuf
from monitor.events.formats.base import Format, Messages, Rules
from monitor.events.mapping import FieldMapping
from monitor.events.model import Kind, Reason
from monitor.events.schemas import Schema, Unframed
from monitor.events.times import format_time
from tests.events.messages import NOW_MS, Message, decode, mapping_of
from tests.events.test_protobuf_messages import class_of

MILLIS: Final = NOW_MS + 250
UUID_BYTES: Final = bytes.fromhex("1ad0a4c595f54b418b8e42a4ee6f29dc")
RULES: Final = Rules(clock=ManualClock(NOW_MS))
REFUSED: Final = "refused"

AVRO: Final[Mapping[str, tuple[Any, Any]]] = {
    "`timestamp-millis`": ("long", MILLIS),
    "`timestamp-micros`": ("long", MILLIS * 10**3 + 999),
    "`timestamp-nanos`": ("long", MILLIS * 10**6 + 999_999),
    "`local-timestamp-millis`": ("long", MILLIS),
    "`local-timestamp-micros`": ("long", MILLIS * 10**3),
    "`local-timestamp-nanos`": ("long", MILLIS * 10**6),
    "`date`": ("int", MILLIS // 86_400_000),
    "`time-millis`": ("int", 36_000_250),
    "`time-micros`": ("long", 36_000_250_999),
    "`decimal`": ({"type": "bytes", "precision": 9, "scale": 4}, (3001).to_bytes(2)),
    "`decimal`, of fixed": (
        {"type": "fixed", "name": "F", "size": 4, "precision": 9, "scale": 2},
        (900_300).to_bytes(4),
    ),
    "`big-decimal`": ("bytes", bytes.fromhex("040bb908")),
    "`uuid`, of string": ("string", "1AD0A4C5-95F5-4B41-8B8E-42A4EE6F29DC"),
    "`uuid`, of `fixed(16)`": ({"type": "fixed", "name": "F", "size": 16}, UUID_BYTES),
    "`duration`": ({"type": "fixed", "name": "F", "size": 12}, struct.pack("<3I", 1, 15, 500)),
    "`fixed(16)` alone": ({"type": "fixed", "name": "F", "size": 16}, UUID_BYTES),
    "`bytes` alone": ("bytes", UUID_BYTES),
}
"""Name -> type without its logical type, and a value of that type."""

PROTOBUF: Final = {
    "`Timestamp`": "seconds: 1795168800 nanos: 250999999",
    "`Duration`": "seconds: 1 nanos: 500000000",
    "`DoubleValue`": "value: 0.25",
    "`FloatValue`": "value: 0.25",
    "`Int64Value`": "value: 9003",
    "`UInt64Value`": "value: 9003",
    "`Int32Value`": "value: 9003",
    "`UInt32Value`": "value: 9003",
    "`BoolValue`": "value: true",
    "`StringValue`": 'value: "eu"',
    "`BytesValue`": 'value: "eu"',
    "`Value`, a text": 'string_value: "eu"',
    "`Value`, a number": "number_value: 9003",
    "`ListValue`": "values { number_value: 0.25 }",
    "`Struct`": 'fields { key: "region" value { string_value: "eu" } }',
    "`Any`": 'type_url: "shop" value: "eu"',
    "`Empty`": "",
    "`FieldMask`": 'paths: "region"',
}
"""Name -> a value, in Protobuf's text format."""

JSON_TEXTS: Final = {
    "date-time": "2026-11-20T10:00:00.250Z",
    "date": "2026-11-20",
    "time": "10:00:00Z",
    "duration": "P1DT12H",
    "uuid": "1AD0A4C5-95F5-4B41-8B8E-42A4EE6F29DC",
}

JSON_OTHERS: Final = {
    "email": "a@example.com",
    "idn-email": "ä@example.com",
    "hostname": "example.com",
    "idn-hostname": "bücher.example",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/a",
    "uri-reference": "/a",
    "iri": "https://bücher.example",
    "iri-reference": "/ä",
    "uri-template": "/a/{b}",
    "json-pointer": "/a/0",
    "relative-json-pointer": "1/a",
    "regex": "^a+$",
}
"""With those above, the formats of draft 2020-12."""

ROLES: Final = {
    "id": mapping_of({"id": "v"}, model="=churn", ts="$timestamp", p=["half"]),
    "ts": mapping_of({"id": "=a", "ts": "v"}, model="=churn", p=["half"]),
    "number": mapping_of({"id": "=a"}, model="=churn", ts="$timestamp", p=["half"], features=["half", "v"]),
    "segment": mapping_of({"id": "=a"}, model="=churn", ts="$timestamp", p=["half"], segments={"region": "v"}),
}


def read(make: Callable[[FieldMapping], Format], message: bytes) -> dict[str, str]:
    """The value as it is read in each role, or ``refused``; by columns and one by one alike."""
    return {role: _read(make(mapping), role, Message(message)) for role, mapping in ROLES.items()}


def _read(of: Format, role: str, message: Message) -> str:
    decoded = decode(*[message] * 20, decoder=Decoder(RULES, {"events": of}), default_kind=Kind.PREDICTION)
    assert len(decoded.columns) in {0, 20}
    if not len(decoded.columns):
        return REFUSED
    event = of.examine(message, RULES, Kind.PREDICTION)
    (fast, *_) = of.decode(Messages.of([message] * 20, 10**6))
    if fast is not None:
        assert str(fast.id) == event.id
    match role:
        case "id":
            return str(event.id)
        case "ts":
            assert decoded.columns.time_ms.tolist() == [event.ts] * 20
            return format_time(int(event.ts or 0))
        case "number":
            return str(json.loads(bytes(event.features))[1])
        case _:
            return str(json.loads(bytes(event.segments))["region"])


def row_of(name: str, written: str, values: Mapping[str, str]) -> str:
    """The row of the documentation."""
    cells = [value if value == REFUSED else f"`{value}`" for value in values.values()]
    return " | ".join([f"| {name}", f"`{written}`" if written else "-", *cells]) + " |"


def avro_of(type_: Any, value: Any, logical: str | None) -> tuple[str, bytes]:
    """The schema of a record with a value of a type, and such a record."""
    fields = [{"name": "v", "type": type_}, {"name": "half", "type": "double"}]
    record: dict[str, Any] = {"type": "record", "name": "E", "fields": fields}
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(json.loads(json.dumps(record))), {"v": value, "half": 0.5})
    if logical is not None:
        fields[0]["type"] = (type_ if isinstance(type_, dict) else {"type": type_}) | {"logicalType": logical}
    return json.dumps(record), file.getvalue()


def read_avro(type_: Any, value: Any, logical: str | None) -> dict[str, str]:
    schema, message = avro_of(type_, value, logical)
    return read(lambda mapping: avro.make_format(Unframed(Schema("AVRO", schema)), mapping), message)


def avro_row(name: str) -> str:
    type_, value = AVRO[name]
    logical = None if name.endswith("alone") else name.split("`")[1]
    written = value.hex() if isinstance(value, bytes) else str(value)
    return row_of(name, written, read_avro(type_, value, logical))


def protobuf_row(name: str) -> str:
    type_, text = name.split("`")[1], PROTOBUF[name]
    imports = "".join(
        f'import "google/protobuf/{file}.proto"; '
        for file in ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
    )
    source = f'syntax = "proto3"; {imports} message E {{ google.protobuf.{type_} v = 1; double half = 2; }}'
    schema = Schema("PROTOBUF", source)
    message = text_format.Parse(f"v {{ {text} }} half: 0.5", class_of(schema)())
    values = read(lambda mapping: protobuf.make_format(Unframed(schema), mapping), message.SerializeToString())
    return row_of(name, text, values)


def read_json(value: str) -> dict[str, str]:
    return read(json_schema.make_mapped_json, json.dumps({"v": value, "half": 0.5}).encode())


def json_row(name: str) -> str:
    return row_of(f"`{name}`", JSON_TEXTS[name], read_json(JSON_TEXTS[name]))


DOCUMENTED: Final = Path("docs/formats.md").read_text("utf-8").splitlines()


@pytest.mark.parametrize("name", AVRO)
def test_logical_types_of_avro(name: str) -> None:
    assert avro_row(name) in DOCUMENTED


@pytest.mark.parametrize("name", PROTOBUF)
def test_well_known_types_of_protobuf(name: str) -> None:
    assert protobuf_row(name) in DOCUMENTED


@pytest.mark.parametrize("name", JSON_TEXTS)
def test_formats_of_json_schema(name: str) -> None:
    assert json_row(name) in DOCUMENTED


@pytest.mark.parametrize("name", JSON_OTHERS)
def test_other_formats_of_json_schema_are_texts(name: str) -> None:
    text = JSON_OTHERS[name]
    assert read_json(text) == {"id": text, "ts": REFUSED, "number": REFUSED, "segment": text}
    (row,) = (line for line in DOCUMENTED if line.startswith("| the others: "))
    assert f"`{name}`" in row


@pytest.mark.parametrize(
    ("type_", "logical"),
    [
        ({"type": "fixed", "name": "F", "size": 8}, "uuid"),
        ({"type": "fixed", "name": "F", "size": 8}, "decimal"),
        ({"type": "fixed", "name": "F", "size": 8, "precision": 4, "scale": -2}, "decimal"),
        ({"type": "fixed", "name": "F", "size": 8, "precision": 4, "scale": 5}, "decimal"),
        ("bytes", "uuid"),
    ],
)
def test_a_logical_type_that_its_type_cannot_have_is_none(type_: Any, logical: str) -> None:
    """A UUID of 8 bytes stopped the decoding of its whole batch."""
    assert set(read_avro(type_, bytes(8), logical).values()) == {REFUSED}


def test_fields_of_a_struct_are_reached_by_a_path() -> None:
    source = (
        'syntax = "proto3"; import "google/protobuf/struct.proto"; '
        "message E { google.protobuf.Struct order = 1; google.protobuf.Struct segments = 2; }"
    )
    schema = Schema("PROTOBUF", source)
    text = """order { fields { key: "id" value { number_value: 9003 } } fields { key: "ps" value { list_value {
        values { number_value: 0.25 } values { number_value: 0.75 } } } }
        fields { key: "big" value { number_value: 1e17 } } fields { key: "gone" value { null_value: NULL_VALUE } } }
        segments { fields { key: "region" value { string_value: "eu" } } }"""
    message = text_format.Parse(text, class_of(schema)()).SerializeToString()
    mapping = mapping_of({"id": "order.id"}, model="=churn", ts="$timestamp", p=["order.ps[1]"])
    event = protobuf.make_format(Unframed(schema), mapping).examine(Message(message), RULES, Kind.PREDICTION)
    assert (event.id, event.p, bytes(event.segments)) == ("9003", 0.75, b'{"region":"eu"}')
    for path, says in (("order.big", "id must be a string or an integer, got 1e+17"), ("order.gone", "it has no id")):
        mapping = mapping_of({"id": path}, model="=churn", ts="$timestamp", p=["order.ps[1]"])
        with pytest.raises(Rejected, match="id") as refused:
            protobuf.make_format(Unframed(schema), mapping).examine(Message(message), RULES, Kind.PREDICTION)
        assert says in refused.value.detail


@pytest.mark.parametrize(
    ("keys", "others"),
    [
        ({"id": "v"}, {}),
        ({"id": "v"}, {"p": ["ps[]"]}),
        ({"id": "=a", "version": "v"}, {}),
        ({"id": "=a"}, {"segments": {"region": "v"}}),
        ({"id": "=a"}, {"features": ["half", "v"]}),
        ({"id": "=a", "y": "v"}, {"positive": ["fraud"]}),
    ],
)
def test_bytes_are_refused_wherever_a_mapping_leads(keys: dict[str, str], others: dict[str, Any]) -> None:
    """As an id of a batch they were ``b'\\x1a'-0``, and as an outcome 0, without a word."""
    record = {
        "type": "record",
        "name": "E",
        "fields": [
            {"name": "v", "type": "bytes"},
            {"name": "half", "type": "double"},
            {"name": "ps", "type": {"type": "array", "items": "double"}},
        ],
    }
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(record), {"v": b"\x1a", "half": 0.5, "ps": [0.25, 0.5]})
    mapping = mapping_of(keys, **{"model": "=churn", "ts": "$timestamp", "p": ["half"]} | others)
    of = avro.make_format(Unframed(Schema("AVRO", json.dumps(record))), mapping)
    kind = Kind.OUTCOME if "y" in keys else Kind.PREDICTION
    decoded = decode(*[file.getvalue()] * 10, decoder=Decoder(RULES, {"events": of}), default_kind=kind)
    assert not len(decoded.columns)
    assert {letter.reason for letter in decoded.dead_letters} == {Reason.WRONG_TYPE}
    assert all("got 1 bytes; write a text" in letter.detail for letter in decoded.dead_letters)
