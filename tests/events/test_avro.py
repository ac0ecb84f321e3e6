"""Avro: what the decoder makes of it is what it makes of the same events as JSON; other bytes are dead letters."""

import io
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.errors import SchemaUnavailable
from monitor.events.codec import Decoded, Decoder
from monitor.events.formats.avro import compile_schema, make_format
from monitor.events.formats.base import Rules
from monitor.events.model import Kind, Reason
from monitor.events.schemas import Framed, Reference, Schema, SchemaId, Unframed
from tests.events.messages import CLASSES, NOW_MS, Message, batch_of, decode, new_strata

NULLABLE = ["null", "string"]
GUID = uuid.UUID("1ad0a4c5-95f5-4b41-8b8e-42a4ee6f29dc")
FIELDS: dict[str, Any] = {
    "type": "string",
    "model": "string",
    "id": "string",
    "ts": {"type": "long", "logicalType": "timestamp-millis"},
    "p": ["null", "double"],
    "y": ["null", "int"],
    "version": NULLABLE,
    "segments": {"type": "map", "values": "string"},
    "features": ["null", {"type": "array", "items": "double"}],
}
EVENT: dict[str, Any] = {
    "type": "prediction",
    "model": "churn",
    "id": "7f3a",
    "ts": NOW_MS,
    "p": 0.83,
    "y": None,
    "version": "7",
    "segments": {"region": "eu"},
    "features": [0.1, -2.3],
}


def record(**fields: Any) -> dict[str, Any]:
    """The schema of an event, with other types of some fields; those of None are left out."""
    chosen = {name: type_ for name, type_ in (FIELDS | fields).items() if type_ is not None}
    return {
        "type": "record",
        "name": "Event",
        "namespace": "shop",
        "fields": [{"name": name, "type": type_} for name, type_ in chosen.items()],
    }


def encode(schema: Any, event: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), event)
    return file.getvalue()


class Schemas:
    """A registry in memory."""

    def __init__(self, *schemas: Any) -> None:
        self.asked: list[SchemaId] = []
        self.schemas: dict[SchemaId, Schema] = {
            number: Schema("AVRO", json.dumps(schema)) for number, schema in enumerate(schemas, 1)
        }

    def schema(self, identifier: SchemaId) -> Schema | None:
        self.asked.append(identifier)
        if identifier == 99:
            raise SchemaUnavailable("the registry is away")
        return self.schemas.get(identifier)


def decoder_of(schemas: Framed | Unframed) -> Decoder:
    rules = Rules(clock=ManualClock(NOW_MS), classes=CLASSES)
    return Decoder(rules, {"events": make_format(schemas)})


def framed(payload: bytes, schema_id: int = 1) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + payload


def decode_avro(schema: Any, *events: Mapping[str, Any]) -> Decoded:
    """Decode events that were written with one schema."""
    return decode(*(framed(encode(schema, event)) for event in events), decoder=decoder_of(Framed(Schemas(schema))))


def assert_same(avro: Decoded, as_json: Decoded) -> None:
    assert [(letter.offset, letter.reason) for letter in avro.dead_letters] == [
        (letter.offset, letter.reason) for letter in as_json.dead_letters
    ]
    for name in ("kind", "id_hash", "time_ms", "prediction", "outcome", "model", "stratum"):
        ours, theirs = getattr(avro.columns, name), getattr(as_json.columns, name)
        assert ours.tobytes() == theirs.tobytes(), name
    assert (avro.columns.vectors is None) == (as_json.columns.vectors is None)
    if avro.columns.vectors is not None and as_json.columns.vectors is not None:
        assert avro.columns.vectors.probabilities.tobytes() == as_json.columns.vectors.probabilities.tobytes()
    for ours, theirs in zip(avro.features, as_json.features, strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or theirs is None or ours.tobytes() == theirs.tobytes()


# ---------------------------------------------------------------------- the same as JSON

texts = st.one_of(st.sampled_from(["churn", "digits", "undeclared", "", "a\0b", "x" * 129]), st.text(max_size=4))
numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1.5, -1e-9, 0.1]), st.floats(allow_nan=False, allow_infinity=False)
)
events_of_all_sorts = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["prediction", "outcome", "labelled", "other"]),
        "model": texts,
        "id": st.one_of(texts, st.sampled_from(["i" * 512, "i" * 513])),
        "ts": st.one_of(st.integers(NOW_MS - 10, NOW_MS + 10), st.integers(-(2**50), 2**50)),
        "p": st.one_of(st.none(), st.floats(0, 1), numbers),
        "y": st.one_of(st.none(), st.integers(-1, 3)),
        "version": st.one_of(st.none(), texts),
        "segments": st.dictionaries(
            st.one_of(st.sampled_from(["region", "plan", "a=b", ""]), texts), texts, max_size=3
        ),
        "features": st.one_of(st.none(), st.lists(numbers, max_size=3)),
    }
)


@given(st.lists(events_of_all_sorts, min_size=1, max_size=6))
def test_events_of_all_sorts_are_what_they_are_as_json(events: list[dict[str, Any]]) -> None:
    assert_same(decode_avro(record(), *events), decode(*(json.dumps(event).encode() for event in events)))


@given(st.lists(events_of_all_sorts, min_size=1, max_size=4))
def test_schemas_that_are_not_columnar_give_the_same(events: list[dict[str, Any]]) -> None:
    schema = record(extra="bytes")
    rows = [event | {"extra": b"\xff"} for event in events]
    assert_same(decode_avro(schema, *rows), decode(*(json.dumps(event).encode() for event in events)))


# ---------------------------------------------------------------------- types of fields

MOMENT = datetime(2026, 11, 20, 10, 0, 0, 250_999, UTC)


@pytest.mark.parametrize(
    ("name", "type_", "written", "as_json"),
    [
        ("p", "double", 0.1, 0.1),
        ("p", "float", 0.1, float(np.float32(0.1))),
        ("p", "int", 1, 1),
        ("p", "long", 0, 0),
        ("p", ["int", "double"], 0.25, 0.25),
        ("p", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 4}, Decimal("0.3001"), 0.3001),
        (
            "p",
            {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 4},
            Decimal("0.3001"),
            0.3001,
        ),
        ("p", {"type": "array", "items": "double"}, [0.25, 0.75], [0.25, 0.75]),
        ("p", {"type": "array", "items": "float"}, [0.25, 0.75], [0.25, 0.75]),
        ("p", {"type": "array", "items": "double"}, [0.25, 1.75], [0.25, 1.75]),
        ("p", {"type": "array", "items": "double"}, [0.25], [0.25]),
        ("p", "string", "0.5", "0.5"),
        ("id", "long", 2**60 + 1, 2**60 + 1),
        ("id", "int", -3, -3),
        ("id", ["null", "long", "string"], "a", "a"),
        ("id", {"type": "string", "logicalType": "uuid"}, "5F0E-not-canonical", "5F0E-not-canonical"),
        ("id", {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, GUID.bytes, str(GUID)),
        ("id", ["null", "string"], None, None),
        ("id", "double", 7.0, 7.5),
        ("model", {"type": "enum", "name": "Model", "symbols": ["churn", "fraud"]}, "fraud", "fraud"),
        ("version", "int", 7, 7),
        ("version", "boolean", True, True),
        ("type", ["null", "string"], None, None),
        ("ts", "long", NOW_MS, NOW_MS),
        ("ts", "string", "2026-11-20T10:00:00.250999Z", "2026-11-20T10:00:00.250Z"),
        ("ts", {"type": "long", "logicalType": "timestamp-millis"}, MOMENT, "2026-11-20T10:00:00.250Z"),
        ("ts", {"type": "long", "logicalType": "timestamp-micros"}, MOMENT, "2026-11-20T10:00:00.250Z"),
        ("ts", {"type": "long", "logicalType": "timestamp-nanos"}, 1_795_168_800_250_999_999, NOW_MS + 250),
        ("ts", ["null", {"type": "long", "logicalType": "timestamp-micros"}], MOMENT, "2026-11-20T10:00:00.250Z"),
        ("ts", {"type": "long", "logicalType": "timestamp-millis"}, -1, -1),
        ("ts", {"type": "long", "logicalType": "timestamp-millis"}, 2**62, 2**62),
        ("ts", {"type": "int", "logicalType": "date"}, 20_000, "2024-10-04"),
        ("ts", {"type": "int", "logicalType": "date"}, 2**31 - 1, "2147483647 days"),
        ("ts", {"type": "int", "logicalType": "time-millis"}, 5, 5),
        ("ts", {"type": "long", "logicalType": "local-timestamp-micros"}, NOW_MS * 1000, "2026-11-20T10:00:00"),
        ("ts", {"type": "long", "logicalType": "local-timestamp-nanos"}, NOW_MS * 10**6, "2026-11-20T10:00:00"),
        ("ts", {"type": "long", "logicalType": "local-timestamp-millis"}, 2**62, "4611686018427387904 ticks"),
        ("ts", {"type": "long", "logicalType": "local-timestamp-millis"}, NOW_MS, "2026-11-20T10:00:00"),
        ("ts", ["null", "long"], None, None),
        ("segments", {"type": "map", "values": ["null", "string"]}, {"region": None, "plan": "b"}, {"plan": "b"}),
        ("segments", {"type": "map", "values": "long"}, {"region": 5}, {"region": 5}),
        ("segments", {"type": "map", "values": "boolean"}, {"region": True}, {"region": True}),
        ("segments", {"type": "map", "values": "double"}, {"region": 1.5}, {"region": 1.5}),
        (
            "segments",
            {
                "type": "record",
                "name": "S",
                "fields": [{"name": "region", "type": "string"}, {"name": "plan", "type": NULLABLE}],
            },
            {"region": "eu", "plan": None},
            {"region": "eu"},
        ),
        ("segments", ["null", {"type": "map", "values": "string"}], None, None),
        ("features", {"type": "array", "items": "float"}, [0.1, 0.2], [float(np.float32(0.1)), float(np.float32(0.2))]),
        ("features", {"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ("features", {"type": "array", "items": ["null", "float"]}, [1, None], [1, None]),
        ("features", "bytes", np.array([0.5, 2], "<f4").tobytes(), [0.5, 2]),
        ("features", {"type": "array", "items": "double"}, [1e300], [1e300]),
    ],
)
def test_types_of_a_field(name: str, type_: Any, written: Any, as_json: Any) -> None:
    as_avro = decode_avro(record(**{name: type_}), EVENT | {name: written})
    assert_same(as_avro, decode(json.dumps(EVENT | {name: as_json}).encode()))


@pytest.mark.parametrize(
    ("key", "type_"), [("id", {"type": "fixed", "name": "F", "size": 16}), ("version", "bytes"), ("model", "bytes")]
)
def test_bytes_are_no_name(key: str, type_: Any) -> None:
    """As base64 an id would never be that of the outcome, which has the text."""
    (letter,) = decode_avro(record(**{key: type_}), EVENT | {key: GUID.bytes}).dead_letters
    assert letter.reason is Reason.WRONG_TYPE
    assert letter.detail.startswith(f"{key} must be a text or a number, got 16 bytes; write a text (in Avro, a UUID")


def test_bytes_and_fixed_are_decoded_by_columns_and_texts_still_checked() -> None:
    """What pyruhvro does not have is read as types of the same bytes."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    schema = record(p=decimal, digest={"type": "fixed", "name": "F", "size": 12}, extra=["null", "bytes", "string"])
    event = EVENT | {"p": Decimal("0.25"), "digest": bytes(range(244, 256)), "extra": b"\xff"}
    good = encode(schema, event)
    codec = compile_schema(Schema("AVRO", json.dumps(schema)))
    (part,) = codec.decode([good] * 2)
    document = codec.document(good)
    assert part.messages.values() == [document] * 2
    assert (document["p"], document["digest"], document["extra"]) == (0.25, bytes(range(244, 256)), b"\xff")
    bad = encode(schema, event | {"model": "x" * 8}).replace(b"x" * 8, b"\xff" * 8)
    assert [row for of in codec.decode([good, bad, good] * 20) for row in of.rows if row % 3 == 1] == []


@pytest.mark.parametrize(("type_", "written"), [("boolean", True), ("int", 1), ("double", 1.0), (["null", "long"], 1)])
def test_outcomes(type_: Any, written: Any) -> None:
    event = {"type": "outcome", "model": "churn", "id": "7", "ts": NOW_MS, "y": written}
    schema = record(p=None, version=None, segments=None, features=None, y=type_)
    assert decode_avro(schema, event).columns.outcome.tolist() == [1]
    assert decode_avro(schema, event | {"y": 0}).columns.outcome.tolist() == [0]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_named(bad: float) -> None:
    decoded = decode_avro(record(), EVENT, EVENT | {"p": bad}, EVENT | {"features": [1.0, bad]})
    assert [letter.reason for letter in decoded.dead_letters] == [Reason.INVALID_PREDICTION, Reason.INVALID_FEATURES]
    assert "must be finite" in decoded.dead_letters[0].detail


def test_a_schema_without_the_fields_of_an_event_names_them() -> None:
    (letter,) = decode_avro(record(p=None, id=None), EVENT).dead_letters
    assert letter.reason is Reason.MISSING_KEY
    assert letter.detail == "prediction must have model, id, ts, p; it has no id, p"


# ---------------------------------------------------------------------- schemas that evolve, and what they use


def test_messages_of_several_schemas_share_a_batch() -> None:
    old = record(version=None, features=None, p="float", segments=None)
    new = record(p="double", comment=["null", "string"], ts={"type": "long", "logicalType": "timestamp-micros"})
    decoder = decoder_of(Framed(Schemas(old, new)))
    messages = [
        framed(encode(old, EVENT), 1),
        framed(encode(new, EVENT | {"ts": MOMENT, "comment": "added"}), 2),
        framed(encode(old, EVENT | {"p": 0.5}), 1),
    ]
    columns = decode(*messages, decoder=decoder).columns
    assert columns.prediction.tolist() == [float(np.float32(0.83)), 0.83, 0.5]
    assert columns.time_ms.tolist() == [NOW_MS, NOW_MS + 250, NOW_MS]
    assert columns.stratum.tolist() == [0, 1, 0], "the old ones have no version and no segments"


def test_types_of_other_schemas_are_used() -> None:
    region = {"type": "enum", "name": "Region", "namespace": "shop", "symbols": ["eu", "us"]}
    place = {"type": "record", "name": "shop.Place", "fields": [{"name": "region", "type": "Region"}]}
    event = record(segments="Place", other=["null", "shop.Place"])
    whole = Schema("AVRO", json.dumps(event), (Reference("a", json.dumps(region)), Reference("b", json.dumps(place))))
    codec = compile_schema(whole)
    named: dict[str, Any] = {}
    for schema in (region, place):
        fastavro.parse_schema(schema, named_schemas=named)
    file = io.BytesIO()
    written = EVENT | {"segments": {"region": "us"}, "other": None}
    fastavro.schemaless_writer(file, fastavro.parse_schema(event, named_schemas=named), written)
    (part,) = codec.decode([file.getvalue()])
    assert part.messages.inside("segments").values() == [{"region": "us"}]
    assert codec.document(file.getvalue())["segments"] == {"region": "us"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1"),
        ('"string"', "it must be a record"),
        ('{"type": "record", "name": "A", "fields": [{"name": "a", "type": "Missing"}]}', "it uses Missing"),
        ('{"type": "nonsense"}', "nonsense"),
        (json.dumps(record(other={"type": "array", "items": "null"})), "items of an array take no bytes"),
        (
            json.dumps(
                record(
                    first={"type": "record", "name": "Empty", "fields": [{"name": "n", "type": "null"}]},
                    other=["null", {"type": "map", "values": {"type": "array", "items": "Empty"}}],
                )
            ),
            "items of an array take no bytes",
        ),
    ],
)
def test_a_schema_that_is_none(text: str, says: str) -> None:
    schemas = Schemas()
    schemas.schemas[1] = Schema("AVRO", text)
    (letter,) = decode(framed(b"1"), decoder=decoder_of(Framed(schemas))).dead_letters
    assert letter.reason is Reason.UNDECODABLE
    assert letter.detail.startswith("the message's schema is not Avro: ")
    assert says in letter.detail


def test_a_schema_of_another_format_is_named_and_compiled_once() -> None:
    schemas = Schemas()
    schemas.schemas[1] = Schema("PROTOBUF", "message A {}")
    letter, _ = decode(framed(b"1"), framed(b"2"), decoder=decoder_of(Framed(schemas))).dead_letters
    assert schemas.asked == [1]
    assert letter.detail == "the message's schema is not Avro: the registry says that it is PROTOBUF"


def test_one_schema_without_a_registry() -> None:
    decoder = decoder_of(Unframed(Schema("AVRO", json.dumps(record()))))
    decoded = decode(encode(record(), EVENT), b"", None, b"\xff", decoder=decoder)
    assert decoded.columns.prediction.tolist() == [0.83]
    reasons = [letter.reason for letter in decoded.dead_letters]
    assert reasons == [Reason.EMPTY, Reason.EMPTY, Reason.UNDECODABLE]


# ---------------------------------------------------------------------- frames


def test_ids_guids_and_headers_name_the_schema() -> None:
    schemas = Schemas(record())
    schemas.schemas[GUID] = schemas.schemas[1]
    payload = encode(record(), EVENT)
    in_header = [("__value_schema_id", b"\1" + GUID.bytes)]
    messages = [
        Message(framed(payload)),
        Message(b"\1" + GUID.bytes + payload),
        Message(payload, in_header),
        Message(payload, [("trace", b"1"), ("__value_schema_id", b"\0\0\0\0\1")]),
        Message(framed(payload), [("trace", b"1")]),
    ]
    decoded = decode(*messages, decoder=decoder_of(Framed(schemas)))
    assert decoded.columns.prediction.tolist() == [0.83] * 5


@pytest.mark.parametrize(
    ("message", "reason", "says"),
    [
        (Message(b'{"type":"prediction"}'), Reason.INVALID_FRAME, "begins with 7b 22 74 79 70; this looks like JSON"),
        (Message(b"\0\0\0\1"), Reason.INVALID_FRAME, "it begins with 00 00 00 01"),
        (Message(b"\2rest"), Reason.INVALID_FRAME, "must begin with the byte 0"),
        (Message(b"x", [("__value_schema_id", b"\0\1")]), Reason.INVALID_FRAME, "header __value_schema_id"),
        (Message(b"\0\0\0\0\7x"), Reason.UNKNOWN_SCHEMA, "has no schema of id 7"),
        (Message(b"\1" + GUID.bytes), Reason.UNKNOWN_SCHEMA, f"has no schema of id {GUID}"),
        (Message(b"\0\0\0\0\1\xff"), Reason.UNDECODABLE, "the message is not Avro of its schema: "),
        (Message(b"\0\0\0\0\1"), Reason.UNDECODABLE, "the message is not Avro of its schema: "),
        (Message(b""), Reason.EMPTY, "empty"),
        (Message(None), Reason.EMPTY, "tombstone"),
        (Message(b"\0" * 2_000_000), Reason.OVERSIZED, "at most"),
    ],
)
def test_what_is_wrong_is_said_and_changes_no_other_message(message: Message, reason: Reason, says: str) -> None:
    good = Message(framed(encode(record(), EVENT)))
    decoded = decode(good, message, good, decoder=decoder_of(Framed(Schemas(record()))))
    assert len(decoded.columns) == 2
    ((offset, got, detail),) = [(letter.offset, letter.reason, letter.detail) for letter in decoded.dead_letters]
    assert (offset, got) == (1, reason)
    assert says in detail


def test_a_schema_that_cannot_be_had_stops_the_batch_and_interns_nothing() -> None:
    strata, schemas = new_strata(), Schemas(record())
    batch = batch_of([framed(b"x", 99), framed(encode(record(), EVENT)), framed(b"x", 7)])
    with pytest.raises(SchemaUnavailable):
        decoder_of(Framed(schemas)).decode(batch, strata, None)
    assert strata.models == []
    assert schemas.asked == [99, 1, 7], "all are asked for, so that they do not wait one after the other"


def test_the_envelope_of_a_binary_cloudevent_completes_an_event() -> None:
    headers = [
        (f"ce_{name}", value.encode())
        for name, value in {
            "specversion": "1.0",
            "id": "d",
            "source": "s",
            "type": "shop.prediction",
            "time": "2026-11-20T10:00:00Z",
        }.items()
    ]
    schema = record(type=None, ts=None)
    message = Message(framed(encode(schema, EVENT)), headers)
    decoded = decode(message, decoder=decoder_of(Framed(Schemas(schema))))
    assert decoded.columns.kind.tolist() == [Kind.PREDICTION]
    assert decoded.columns.time_ms.tolist() == [NOW_MS]


# ---------------------------------------------------------------------- bytes of all sorts

ANY_SCHEMAS = (
    record(),
    record(id=["null", "string", "long"], p={"type": "array", "items": "double"}),
    record(segments={"type": "record", "name": "S", "fields": [{"name": "region", "type": NULLABLE}]}),
    record(
        extra={"type": "fixed", "name": "F", "size": 4}, p={"type": "bytes", "logicalType": "decimal", "precision": 4}
    ),
    record(
        ts={"type": "long", "logicalType": "timestamp-nanos"}, model={"type": "enum", "name": "E", "symbols": ["m"]}
    ),
    record(tags={"type": "array", "items": {"type": "map", "values": ["null", "boolean", "float"]}}),
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Bytes of all sorts, and messages of which some bytes were changed or cut off."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=60))
    message = bytearray(framed(encode(record(), EVENT), draw(st.integers(1, len(ANY_SCHEMAS)))))
    for _ in range(draw(st.integers(1, 3))):
        message[draw(st.integers(0, len(message) - 1))] = draw(st.integers(0, 255))
    return bytes(message[: draw(st.integers(0, len(message)))])


@given(st.lists(st.one_of(damaged(), st.binary(max_size=40).map(lambda rest: framed(rest, 4))), max_size=6))
def test_damaged_bytes_are_dead_letters_and_change_no_other_message(messages: Sequence[bytes]) -> None:
    # 99 would be a registry that is away.
    messages = [message for message in messages if message[:5] != b"\0\0\0\0\x63"]
    good = framed(encode(record(), EVENT))
    decoded = decode(good, *messages, good, decoder=decoder_of(Framed(Schemas(*ANY_SCHEMAS))))
    alone = [decode(message, decoder=decoder_of(Framed(Schemas(*ANY_SCHEMAS)))) for message in messages]
    assert len(decoded.columns) == 2 + sum(len(of_one.columns) for of_one in alone)
    assert [letter.detail for letter in decoded.dead_letters] == [
        letter.detail for of_one in alone for letter in of_one.dead_letters
    ]
