"""Protobuf, JSON behind a prefix, and MessagePack: events are what they are as JSON; other bytes are dead letters."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.json_format import ParseDict
from grpc_tools import protoc
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.errors import SettingsError
from monitor.events.codec import Decoded, Decoder
from monitor.events.formats import json_schema, messagepack, protobuf
from monitor.events.formats.base import Format, Rules
from monitor.events.model import Reason
from monitor.events.schemas import Framed, Reference, Schema, SchemaId, Unframed
from tests.events.messages import CLASSES, NOW_MS, decode
from tests.events.test_avro import assert_same

EVENT: dict[str, Any] = {
    "type": "prediction",
    "model": "churn",
    "id": "7f3a",
    "ts": NOW_MS,
    "p": 0.83,
    "version": "7",
    "segments": {"region": "eu"},
    "features": [0.5, -2.25],
}
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Kind { prediction = 0; outcome = 1; labelled = 2; }
message Other { string name = 1; }
message Outer {
  message Event {
    string type = 1;
    string model = 2;
    string id = 3;
    int64 ts = 4;
    double p = 5;
    optional int32 y = 6;
    string version = 7;
    map<string, string> segments = 8;
    repeated float features = 9;
    string note = 10;
  }
  message Rich {
    Kind type = 1;
    string model = 2;
    uint64 id = 3;
    google.protobuf.Timestamp ts = 4;
    google.protobuf.DoubleValue p = 5;
    repeated double features = 9;
    bytes note = 10;
  }
}
"""


def decoder_of(format_: Format) -> Decoder:
    return Decoder(Rules(clock=ManualClock(NOW_MS), classes=CLASSES), {"events": format_})


def as_json(*events: Mapping[str, Any]) -> Decoded:
    return decode(*(json.dumps(event).encode() for event in events))


# ---------------------------------------------------------------------- MessagePack

SOME = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.lists(st.floats(0, 1), max_size=3),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
)
MESSY = st.dictionaries(st.sampled_from([*EVENT, "y", "other"]), SOME).map(lambda changed: EVENT | changed)


@given(st.lists(MESSY, min_size=1, max_size=4))
def test_messagepack_is_what_it_is_as_json(events: list[dict[str, Any]]) -> None:
    packed = decode(*map(msgspec.msgpack.encode, events), decoder=decoder_of(messagepack.make_format(None)))
    assert_same(packed, as_json(*events))


def test_what_json_lacks_in_messagepack() -> None:
    events = [
        EVENT | {"ts": datetime.fromtimestamp(NOW_MS / 1000, UTC)},
        EVENT | {"features": np.array([0.5, -2.25], "<f4").tobytes()},
    ]
    packed = decode(*map(msgspec.msgpack.encode, events), decoder=decoder_of(messagepack.make_format(None)))
    assert_same(packed, as_json(EVENT, EVENT))


NESTED = st.recursive(SOME, lambda inner: st.dictionaries(st.integers(0, 9), inner))


@given(st.one_of(st.binary(max_size=40), NESTED.map(
    lambda value: msgspec.msgpack.encode(EVENT | {"segments": value, "p": value})
)))  # fmt: skip
def test_other_bytes_are_dead_letters_of_messagepack(value: bytes) -> None:
    good = msgspec.msgpack.encode(EVENT)
    decoded = decode(good, value, good, decoder=decoder_of(messagepack.make_format(None)))
    assert len(decoded.columns) + len(decoded.dead_letters) == 3
    assert [letter.offset for letter in decoded.dead_letters] in ([], [1])


def test_keys_that_are_all_different_take_no_more_memory_than_they_have() -> None:
    events = [EVENT | {"segments": {f"key-{at}": "x"}, "p": {f"key-{at}": 1}} for at in range(3000)]
    packed = decode(*map(msgspec.msgpack.encode, events), decoder=decoder_of(messagepack.make_format(None)))
    assert {letter.reason for letter in packed.dead_letters} == {Reason.INVALID_PREDICTION}


# ---------------------------------------------------------------------- JSON behind a prefix


def test_json_behind_a_prefix_needs_no_registry() -> None:
    decoder = decoder_of(json_schema.make_format(None))
    text = json.dumps(EVENT).encode()
    decoded = decode(b"\0\0\0\0\7" + text, text, b"\0\0\0\0\7[1]", b"\0\0\0\0\7{", decoder=decoder)
    assert decoded.columns.prediction.tolist() == [0.83]
    reasons = [letter.reason for letter in decoded.dead_letters]
    assert reasons == [Reason.INVALID_FRAME, Reason.UNDECODABLE, Reason.UNDECODABLE]


@given(st.lists(MESSY, min_size=1, max_size=4))
def test_json_behind_a_prefix_is_what_it_is_without(events: list[dict[str, Any]]) -> None:
    framed = [b"\0\0\0\0\7" + json.dumps(event).encode() for event in events]
    assert_same(decode(*framed, decoder=decoder_of(json_schema.make_format(None))), as_json(*events))


# ---------------------------------------------------------------------- Protobuf


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> descriptor_pool.DescriptorPool:
    """The types of ``PROTO``, compiled as a producer would."""
    folder = tmp_path_factory.mktemp("proto")
    (folder / "shop.proto").write_text(PROTO)
    well_known = Path(protoc.__file__).parent / "_proto"
    arguments = ["", f"-I{folder}", f"-I{well_known}", "--include_imports", f"--descriptor_set_out={folder / 'set'}"]
    assert protoc.main([*arguments, "shop.proto"]) == 0
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString((folder / "set").read_bytes()).file:
        pool.Add(file)
    return pool


def parsed(pool: descriptor_pool.DescriptorPool, name: str, event: Mapping[str, Any]) -> Any:
    """A message of a type."""
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
    return ParseDict({key: value for key, value in event.items() if value is not None}, message)


def encode(pool: descriptor_pool.DescriptorPool, name: str, event: Mapping[str, Any]) -> bytes:
    return parsed(pool, name, event).SerializeToString()  # type: ignore[no-any-return]


class OneSchema:
    """A registry of one schema."""

    def __init__(self, text: str = PROTO, references: tuple[Reference, ...] = ()) -> None:
        self.text, self.references = text, references

    def schema(self, identifier: SchemaId) -> Schema:
        return Schema("PROTOBUF", self.text, self.references)


FRAME = b"\0\0\0\0\7"
TO_EVENT = b"\4\2\0"
"""Two steps: the second type of the file, and the first in it."""


@given(
    events=st.lists(
        st.fixed_dictionaries(
            {
                **{key: st.just(value) for key, value in EVENT.items()},
                "p": st.one_of(st.floats(0, 1), st.floats(allow_nan=False, allow_infinity=False)),
                "ts": st.one_of(st.integers(NOW_MS - 9, NOW_MS), st.integers(-(2**62), 2**62)),
                "type": st.sampled_from(["prediction", "labelled", "outcome", "other"]),
                "y": st.one_of(st.none(), st.integers(-1, 2)),
                "segments": st.dictionaries(st.sampled_from(["region", "plan", "a=b"]), st.text(max_size=3)),
                "features": st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=3),
            }
        ),
        min_size=1,
        max_size=4,
    )
)
def test_protobuf_is_what_it_is_as_json(messages: descriptor_pool.DescriptorPool, events: list[dict[str, Any]]) -> None:
    values = [FRAME + TO_EVENT + encode(messages, "shop.Outer.Event", event) for event in events]
    # In JSON, an absent y is an absent key.
    written = [{key: value for key, value in event.items() if value is not None} for event in events]
    assert_same(decode(*values, decoder=FRAMED), as_json(*written))


FRAMED = decoder_of(protobuf.make_format(Framed(OneSchema())))


def test_the_types_that_protobuf_knows(messages: descriptor_pool.DescriptorPool) -> None:
    rich = {"model": "churn", "id": 2**63 + 7, "ts": "2026-11-20T10:00:00.250999Z", "p": 0.0}
    unset = {key: value for key, value in rich.items() if key != "p"}
    values = [FRAME + b"\4\2\2" + encode(messages, "shop.Outer.Rich", event) for event in (rich, unset)]
    decoded = decode(*values, decoder=FRAMED)
    assert decoded.columns.time_ms.tolist() == [NOW_MS + 250]
    expected = as_json({"type": "prediction", **rich})
    assert decoded.columns.id_hash.tolist() == expected.columns.id_hash.tolist()
    (letter,) = decoded.dead_letters
    assert letter.detail == "prediction must have model, id, ts, p; it has no p"


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        (b"", "cut off"),
        (b"\4\2", "cut off"),
        (b"\xff\xff\xff\xff\xff\xff", "cut off"),
        (b"\1x", "it has -1 message indexes"),
        (b"\2\x10", "no message type at the indexes [8]"),
        (b"\4\2\0\xff\xff", "Error parsing message"),
    ],
)
def test_wrong_indexes_and_bytes_are_dead_letters(payload: bytes, says: str) -> None:
    (letter,) = decode(FRAME + payload, decoder=FRAMED).dead_letters
    assert letter.reason is Reason.UNDECODABLE
    assert says in letter.detail


def test_the_short_form_is_the_first_type(messages: descriptor_pool.DescriptorPool) -> None:
    other = encode(messages, "shop.Other", {"name": "n"})
    for steps in (b"\0", b"\2\0"):
        (letter,) = decode(FRAME + steps + other, decoder=FRAMED).dead_letters
        assert letter.reason is Reason.MISSING_KEY, "it was decoded, and has no field of an event"


def test_imports_come_as_references(messages: descriptor_pool.DescriptorPool) -> None:
    base = 'syntax = "proto3"; package base; message Place { string region = 1; }'
    text = (
        'syntax = "proto3"; import "base/place.proto";'
        "message Event { string type = 1; string model = 2; string id = 3; int64 ts = 4; double p = 5;"
        "base.Place segments = 8; }"
    )
    registry = OneSchema(text, (Reference("base/place.proto", base),))
    decoder = decoder_of(protobuf.make_format(Framed(registry)))
    event = b"\0" + encode(messages, "shop.Outer.Event", EVENT | {"segments": {}, "features": [], "version": ""})
    place = b"\x42\x04\x0a\x02eu"
    assert_same(decode(FRAME + event + place, decoder=decoder), as_json({**EVENT, "version": None, "features": None}))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("message {", "line 1"),
        ('syntax = "proto3"; import "missing.proto"; message A {}', "missing.proto"),
        ('syntax = "proto3";', "no message type at the indexes [0]"),
    ],
)
def test_schemas_that_are_none(text: str, says: str) -> None:
    decoder = decoder_of(protobuf.make_format(Framed(OneSchema(text))))
    (letter,) = decode(FRAME + b"\0", decoder=decoder).dead_letters
    assert letter.reason is Reason.UNDECODABLE
    assert says in letter.detail


def test_references_stay_inside_their_folder() -> None:
    registry = OneSchema(PROTO, (Reference("../../outside.proto", "x"),))
    (letter,) = decode(FRAME + b"\0", decoder=decoder_of(protobuf.make_format(Framed(registry)))).dead_letters
    assert "outside of the schemas" in letter.detail


def test_one_schema_without_a_registry(messages: descriptor_pool.DescriptorPool) -> None:
    flat = PROTO.replace("message Outer {", "").rstrip().removesuffix("}")
    event = encode(messages, "shop.Outer.Event", EVENT)
    named = protobuf.make_format(Unframed(Schema("PROTOBUF", flat, message="shop.Event")))
    assert_same(decode(event, decoder=decoder_of(named)), as_json(EVENT))
    with pytest.raises(SettingsError, match=r"must name the message, as message, one of shop.Other, shop.Event, shop."):
        protobuf.make_format(Unframed(Schema("PROTOBUF", flat)))


ANY_BYTES = st.one_of(st.binary(max_size=40), st.binary(max_size=40).map(lambda rest: FRAME + TO_EVENT + rest))


@given(values=st.lists(ANY_BYTES, max_size=5))
def test_other_bytes_are_dead_letters_of_protobuf(
    messages: descriptor_pool.DescriptorPool, values: Sequence[bytes]
) -> None:
    good = FRAME + TO_EVENT + encode(messages, "shop.Outer.Event", EVENT)
    decoded = decode(good, *values, good, decoder=FRAMED)
    assert len(decoded.columns) + len(decoded.dead_letters) == len(values) + 2
    assert {0, len(values) + 1}.isdisjoint(letter.offset for letter in decoded.dead_letters)
