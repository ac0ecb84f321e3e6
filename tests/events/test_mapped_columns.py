"""Mapped messages of Avro and Protobuf by columns are what they are one by one."""

import io
import json
from collections.abc import Iterable
from typing import Any, Final

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.events.formats import avro, protobuf
from monitor.events.mapped_columns import map_columns
from monitor.events.mapping import FieldMapping
from monitor.events.model import Kind
from monitor.events.schema_format import Codec, Columns, SchemaFormat
from monitor.events.schemas import Schema, Unframed
from tests.events.messages import NOW_MS, Message, decode
from tests.events.test_avro import assert_same
from tests.events.test_schema_formats import decoder_of

CUSTOMER: Final = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "region", "type": ["null", "string"]}, {"name": "plan", "type": ["null", "long"]}],
}
SCHEMA: Final = {
    "type": "record",
    "name": "Scored",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", CUSTOMER]},
        {"name": "scores", "type": {"type": "array", "items": "double"}},
        {"name": "by_name", "type": ["null", {"type": "map", "values": "double"}]},
        {"name": "created", "type": ["null", "double"]},
        {"name": "micros", "type": "long"},
        {"name": "label", "type": ["null", "string"]},
        {"name": "hit", "type": "boolean"},
        {"name": "amount", "type": ["null", "double"]},
        {"name": "age", "type": "int"},
        {"name": "version", "type": "string"},
        {"name": "moment", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
MESSAGES: Final = st.fixed_dictionaries(
    {
        "id": st.integers(0, 5),
        "customer": st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {
                    "region": st.one_of(st.none(), st.sampled_from(["eu", "", "a=b"])),
                    "plan": st.one_of(st.none(), st.integers(-1, 2)),
                }
            ),
        ),
        "scores": st.lists(st.floats(-0.5, 1.5), max_size=3),
        "by_name": st.one_of(st.none(), st.dictionaries(st.sampled_from(["good", "bad"]), st.floats(0, 1))),
        "created": st.one_of(
            st.none(), st.floats(1_795_000_000, 1_795_168_800), st.floats(), st.sampled_from([1e300, -0.5, 0.0005])
        ),
        "micros": st.one_of(st.integers(NOW_MS * 1000 - 9999, NOW_MS * 1000), st.integers(-(2**63), 2**63 - 1)),
        "label": st.one_of(st.none(), st.sampled_from(["fraud", "genuine", "other"])),
        "hit": st.booleans(),
        "amount": st.one_of(st.none(), st.floats()),
        "age": st.integers(-3, 3),
        "version": st.sampled_from(["7", "8"]),
        "moment": st.integers(NOW_MS - 9, NOW_MS),
    }
)
COMMON: Final[dict[str, str]] = {"model": "=churn", "id": "id", "ts": "created"}
MAPPINGS: Final = {
    "of the documentation": FieldMapping(
        keys=COMMON | {"version": "$header.version", "y": "label"},
        p=["scores[1]"],
        features=["amount", "age"],
        segments={"region": "customer.region", "plan": "customer.plan"},
        ts_unit="seconds",
        positive=["fraud"],
        negative=["genuine"],
    ),
    "lists and maps": FieldMapping(
        keys={"model": "$key", "id": "customer.region", "ts": "micros", "y": "hit"},
        p=["by_name.bad", "by_name.good"],
        features=["scores"],
        ts_unit="microseconds",
        positive=["true"],
    ),
    "what is not there": FieldMapping(
        keys=COMMON | {"ts": "$timestamp", "version": "id.deeper", "y": "scores.name"},
        p=["scores"],
        features=["nowhere[0].at.all"],
        segments={"plan": "customer.plan", "region": "label[0]"},
        positive=["x"],
    ),
    "a moment": FieldMapping(keys=COMMON | {"ts": "moment"}, p=["by_name.good"], segments={"region": "by_name"}),
    "a moment with a unit": FieldMapping(keys=COMMON | {"ts": "moment"}, p=["by_name.good"], ts_unit="seconds"),
}
AVRO: Final = Schema("AVRO", json.dumps(SCHEMA))
PARSED: Final = fastavro.parse_schema(SCHEMA)


class OneByOne:
    """A codec that decodes nothing by columns."""

    def __init__(self, codec: Codec) -> None:
        self.document = codec.document

    def columns(self, payloads: object, names: object) -> Iterable[Columns]:
        return ()


def avro_of(message: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, PARSED, message)
    return written.getvalue()


@pytest.mark.parametrize("name", MAPPINGS)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=5), cut=st.booleans())
def test_avro_by_columns_is_what_it_is_one_by_one(name: str, messages: list[Any], cut: bool) -> None:
    values = [avro_of(message) for message in messages]
    if cut:
        values[0] = values[0][:-3]
    records = [Message(value, [("version", b"7")], key=b"churn") for value in values]
    by_columns = avro.make_format(Unframed(AVRO), MAPPINGS[name])
    one_by_one = SchemaFormat(
        "Avro", Unframed(AVRO), lambda schema: OneByOne(avro.compile_schema(schema)), MAPPINGS[name]
    ).format
    ours, theirs = (
        decode(*records, default_kind=Kind.LABELLED, decoder=decoder_of(form)) for form in (by_columns, one_by_one)
    )
    assert_same(ours, theirs)
    assert [letter.detail for letter in ours.dead_letters] == [letter.detail for letter in theirs.dead_letters]


USUAL: Final = {
    "id": 9003,
    "customer": {"region": "eu", "plan": None},
    "scores": [0.25, 0.75],
    "by_name": {"good": 0.25, "bad": 0.75},
    "created": 1_795_168_800.25,
    "micros": NOW_MS * 1000,
    "label": "fraud",
    "hit": True,
    "amount": 12.5,
    "age": 40,
    "version": "7",
    "moment": NOW_MS,
}


@pytest.mark.parametrize("name", ["of the documentation", "lists and maps", "what is not there", "a moment"])
def test_usual_messages_are_mapped_by_columns(name: str) -> None:
    mapping = MAPPINGS[name]
    (columns,) = avro.compile_schema(AVRO).columns([avro_of(USUAL)], mapping.names)
    records = [Message(b"", [("version", b"7")], key=b"churn", timestamp=NOW_MS)]
    mapped = map_columns(mapping, columns.values, records)
    assert mapped is not None
    assert mapped[0].all()


def test_protobuf_by_columns() -> None:
    """Nested messages, maps and lists of Protobuf, with a Timestamp."""
    text = """
    syntax = "proto3";
    import "google/protobuf/timestamp.proto";
    message Scored {
      message Customer { string region = 1; }
      string id = 1; Customer customer = 2; repeated double scores = 3; map<string, double> by_name = 4;
      google.protobuf.Timestamp at = 5; repeated Customer others = 6;
    }
    """
    schema = Schema("PROTOBUF", text, message="Scored")
    mapping = FieldMapping(
        keys={"model": "=churn", "id": "id", "ts": "at"},
        p=["scores[1]"],
        features=["by_name.a", "by_name.b"],
        segments={"region": "customer.region", "plan": "others[1].region"},
    )
    whole = (
        b"\x0a\x01x\x12\x04\x0a\x02eu\x1a\x10" + np.array([0.25, 0.75]).tobytes()
        + b"\x22\x0c\x0a\x01a\x11" + np.array([0.5]).tobytes() + b"\x22\x0c\x0a\x01b\x11" + np.array([2.5]).tobytes()
        + b"\x2a\x06\x08" + bytes([0xE0, 0xB8, 0x80, 0xD8, 0x06])
        + b"\x32\x00\x32\x04\x0a\x02p1"
    )  # fmt: skip
    codec = protobuf.compile_schema(schema, framed=False)
    document = codec.document(whole)
    assert document["by_name"] == {"a": 0.5, "b": 2.5}
    values = [whole, whole[:21], b"", whole[:-1]]
    one_by_one = SchemaFormat("Protobuf", Unframed(schema), lambda _: OneByOne(codec), mapping).format
    forms = (protobuf.make_format(Unframed(schema), mapping), one_by_one)
    ours, theirs = (decode(*values, default_kind=Kind.PREDICTION, decoder=decoder_of(form)) for form in forms)
    assert_same(ours, theirs)
    (columns,) = codec.columns([whole], mapping.names)
    mapped = map_columns(mapping, columns.values, [Message(whole)])
    assert mapped is not None
    assert {key: column.to_pylist() for key, column in mapped[1].items()} == {
        "model": ["churn"],
        "id": ["x"],
        "ts": [document["at"]],
        "p": [0.75],
        "features": [[0.5, 2.5]],
        "segments": [{"region": "eu", "plan": "p1"}],
    }
