"""Messages that are mapped together, in any format, are what they are one at a time (``naive_mapping.py``)."""

import io
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import fastavro
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.events.fields import Rejected
from monitor.events.formats import avro, protobuf
from monitor.events.mapping import FieldMapping
from monitor.events.model import Kind
from monitor.events.schema_format import Codec, DocumentCodec
from monitor.events.schemas import Schema, Unframed
from tests.events.messages import NOW_MS, Message, decode, mapping_of
from tests.events.naive_mapping import read_events
from tests.events.test_avro import assert_same
from tests.events.test_mapping import JSON
from tests.events.test_protobuf_messages import plain
from tests.events.test_schema_formats import decoder_of
from tests.long import examples

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
    "of the documentation": mapping_of(
        keys=COMMON | {"version": "$header.version", "y": "label"},
        p=["scores[1]"],
        features=["amount", "age"],
        segments={"region": "customer.region", "plan": "customer.plan"},
        ts_unit="seconds",
        positive=["fraud"],
        negative=["genuine"],
    ),
    "lists and maps": mapping_of(
        keys={"model": "$key", "id": "customer.region", "ts": "micros", "y": "hit"},
        p=["by_name.bad", "by_name.good"],
        features=["scores"],
        ts_unit="microseconds",
        positive=["true"],
    ),
    "what is not there": mapping_of(
        keys=COMMON | {"ts": "$timestamp", "version": "id.deeper", "y": "scores.name"},
        p=["scores"],
        features=["nowhere[0].at.all"],
        segments={"plan": "customer.plan", "region": "label[0]"},
        positive=["x"],
    ),
    "a moment": mapping_of(keys=COMMON | {"ts": "moment"}, p=["by_name.good"], segments={"region": "by_name"}),
    "a moment with a unit": mapping_of(keys=COMMON | {"ts": "moment"}, p=["by_name.good"], ts_unit="seconds"),
}
AVRO: Final = Schema("AVRO", json.dumps(SCHEMA))
PARSED: Final = fastavro.parse_schema(SCHEMA)


def avro_of(message: Any) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, PARSED, message)
    return written.getvalue()


def outcome_of(read: Callable[[], Sequence[Any]]) -> Any:
    """The events, or why there are none."""
    try:
        return plain(list(read()))
    except Rejected as rejected:
        return str(rejected)


def assert_mapped_alike(mapping: FieldMapping, codec: Codec, payloads: Sequence[bytes], message: Message) -> None:
    """What a codec decodes together is, mapped, what each document is alone; it leaves out what is no document."""
    documents = {}
    for row, payload in enumerate(payloads):
        with suppress(ValueError):
            documents[row] = codec.document(payload)
    got: dict[int, Any] = {}
    for part in codec.decode(payloads):
        rows = mapping.read(part.messages, [message] * len(part.rows))
        for row in part.rows:
            got[row] = []
        for at, place in enumerate(rows.messages):
            got[part.rows[place]].append(rows.event(at))
        got |= {part.rows[place]: rejected for place, rejected in rows.refused.items()}
    got = {row: str(of) if isinstance(of, Rejected) else plain(of) for row, of in got.items()}
    assert got == {
        row: outcome_of(lambda document=document: read_events(mapping, document, message))  # type: ignore[misc]
        for row, document in documents.items()
    }


MESSAGE: Final = Message(b"", [("version", b"7")], key=b"churn")


@pytest.mark.parametrize("name", MAPPINGS)
@examples(25, 100)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=5), cut=st.booleans())
def test_avro(name: str, messages: list[Any], cut: bool) -> None:
    values = [avro_of(message) for message in messages]
    if cut:
        values[0] = values[0][:-3]
    assert_mapped_alike(MAPPINGS[name], avro.compile_schema(AVRO), values, MESSAGE)


BATCHES: Final = {
    "rows": mapping_of(
        keys={"model": "=churn", "id": "label", "ts": "created"},
        p=["scores[]"],
        segments={"region": "customer[].region"},
    ),
    "tensors": mapping_of(
        keys={"id": "customer[].id"}, p=["scores.data[]"], features=["inputs[][0]"], where={"hit": "true"}
    ),
    "a condition": mapping_of(keys={"id": "customer.region"}, where={"label": "fraud", "$header.version": "7"}),
}
ANY: Final = st.dictionaries(
    st.sampled_from(["id", "label", "scores", "customer", "created", "inputs", "hit", "p", "by_name", "segments"]),
    st.one_of(
        JSON,
        st.sampled_from(["fraud", True, "1,2", "[1, 2]", '{"region": "eu"}', [1, 2], [[1], [2]], [{"region": "eu"}]]),
        st.fixed_dictionaries({"data": st.lists(st.floats(0, 1)), "shape": st.lists(st.integers(-1, 3), max_size=2)}),
        MESSAGES.flatmap(lambda message: st.sampled_from(list(message.values()))),
    ),
)


@pytest.mark.parametrize("name", [*MAPPINGS, *BATCHES])
@examples(25, 100)
@given(messages=st.lists(st.one_of(ANY, MESSAGES), max_size=4), pack=st.booleans())
def test_json_and_messagepack(name: str, messages: list[Any], pack: bool) -> None:
    mapping = (MAPPINGS | BATCHES)[name]
    codec = DocumentCodec(msgspec.msgpack if pack else msgspec.json, mapping)
    values = [json.dumps(json.loads(msgspec.json.encode(message))).encode() for message in messages]
    if pack:
        values = [msgspec.msgpack.encode(json.loads(value)) for value in small(values)]
    assert_mapped_alike(mapping, codec, [*values, b"{", b"[]", b"\xc1", b'{"other": "\xff"}'], MESSAGE)


def small(values: Sequence[bytes]) -> list[bytes]:
    """Those without integers that MessagePack does not have."""
    fits = []
    for value in values:
        with suppress(OverflowError):
            msgspec.msgpack.encode(json.loads(value))
            fits.append(value)
    return fits


@pytest.mark.parametrize("name", MAPPINGS)
@examples(25, 100)
@given(messages=st.lists(MESSAGES, min_size=1, max_size=5))
def test_what_is_mapped_is_what_it_is_as_json(name: str, messages: list[Any]) -> None:
    """Events, dead letters, reasons and details."""
    records = [Message(avro_of(message), [("version", b"7")], key=b"churn") for message in messages]
    mapping = MAPPINGS[name]
    ours = decode(*records, default_kind=Kind.LABELLED, decoder=decoder_of(avro.make_format(Unframed(AVRO), mapping)))
    events = [read_events(mapping, avro.compile_schema(AVRO).document(of.value or b""), of)[0] for of in records]
    assert_same(ours, decode(*(json.dumps(event).encode() for event in events), default_kind=Kind.LABELLED))


def test_protobuf() -> None:
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
    mapping = mapping_of(
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
    codec = protobuf.compile_schema(Schema("PROTOBUF", text, message="Scored"), framed=False)
    assert_mapped_alike(mapping, codec, [whole, whole[:21], b"", whole[:-1]], MESSAGE)
    (part,) = codec.decode([whole])
    assert mapping.read(part.messages, [MESSAGE]).event(0) == {
        "model": "churn",
        "id": "x",
        "ts": 1_795_169_376_000,
        "p": 0.75,
        "features": [0.5, 2.5],
        "segments": {"region": "eu", "plan": "p1"},
    }
