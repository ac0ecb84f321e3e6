"""Changed bytes of real messages never stop the stream in any format, nor touch the messages beside them.

The seeds are what once did, here or in a decoder that was tried. A long run::

    LONG_FORMS=1 FUZZ_EXAMPLES=50_000 pytest -n0 tests/events/test_fuzz.py
"""

import io
import json
import os
from typing import Final

import fastavro
import msgspec
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from monitor.events.formats import avro, json_schema, messagepack, protobuf
from monitor.events.formats.base import Format
from monitor.events.formats.json_schema import make_mapped_json
from monitor.events.model import Kind
from monitor.events.schemas import Framed, Schema, SchemaId, Unframed
from tests.events.messages import decode, mapping_of
from tests.events.test_avro import EVENT as FULL
from tests.events.test_avro import record
from tests.events.test_schema_formats import decoder_of
from tests.long import examples

EXAMPLES: Final = int(os.environ.get("FUZZ_EXAMPLES", "2500"))
EVENT: Final = {key: value for key, value in FULL.items() if value is not None}
PROTO: Final = """
syntax = "proto3";
message Event {
  string type = 1; string model = 2; string id = 3; int64 ts = 4; optional double p = 5; optional int32 y = 6;
  string version = 7; map<string, string> segments = 8; repeated double features = 9;
}
"""
AVRO: Final = Schema("AVRO", json.dumps(record()))
PROTOBUF: Final = Schema("PROTOBUF", PROTO)
MAPPING: Final = mapping_of(
    keys={"model": "=churn", "id": "id", "y": "y"},
    p=["p"],
    features=["features[0]", "features[1]"],
    segments={"region": "segments.region"},
    positive=["1"],
)


class Registry:
    """Knows two schemas."""

    def schema(self, identifier: SchemaId) -> Schema | None:
        return AVRO if identifier == 1 else PROTOBUF if identifier == 2 else None


def as_avro() -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(record()), FULL)
    return written.getvalue()


def as_protobuf() -> bytes:
    (of_type,) = protobuf.compile_schema(PROTOBUF, framed=True)._types  # type: ignore[attr-defined]
    return ParseDict(EVENT, GetMessageClass(of_type)()).SerializeToString()  # type: ignore[no-any-return]


JSON: Final = json.dumps(EVENT).encode()
CLOUD: Final = {"specversion": "1.0", "id": "1", "source": "/s", "type": "prediction", "data": EVENT}
CASES: Final[dict[str, tuple[Format | None, bytes]]] = {
    "json": (None, JSON),
    "cloudevents": (None, json.dumps(CLOUD).encode()),
    "mapped json": (make_mapped_json(MAPPING), JSON),
    "json_schema": (json_schema.make_format(None), b"\0\0\0\0\1" + JSON),
    "messagepack": (messagepack.make_format(None), msgspec.msgpack.encode(EVENT)),
    "avro": (avro.make_format(Framed(Registry())), b"\0\0\0\0\1" + as_avro()),
    "mapped avro": (avro.make_format(Unframed(AVRO), MAPPING), as_avro()),
    "protobuf": (protobuf.make_format(Framed(Registry())), b"\0\0\0\0\2\0" + as_protobuf()),
    "mapped protobuf": (protobuf.make_format(Unframed(PROTOBUF), MAPPING), as_protobuf()),
}
ODD: Final = (
    b"", b"\0", b"\x80", b"\xff", b"\xff" * 9 + b"\x01", b"\x80" * 9 + b"\x02", b"\xed\xa0\x80", b"NaN", b"1e999",
    b"[" * 40, b"{", b'"', b"\\ud800", b"\x93", b"\xdf\xff\xff\xff\xff", b"\x0b", b"\x0c", b"\x42\x00", b"9" * 30,
)  # fmt: skip


@st.composite
def changed(draw: st.DrawFn, message: bytes) -> bytes:
    """A message, changed in one to four places: a byte, what is cut out, what is repeated, what is put in."""
    value = message
    for _ in range(draw(st.integers(1, 4))):
        at, end = sorted(draw(st.tuples(st.integers(0, len(value)), st.integers(0, len(value)))))
        middle = draw(
            st.one_of(
                st.sampled_from([b"", value[at:end] * 2, value[at:end][::-1]]),
                st.sampled_from(ODD),
                st.binary(min_size=1, max_size=3),
            )
        )
        value = value[:at] + middle + value[draw(st.sampled_from([at, min(at + 1, len(value)), end])) :]
    return value


def assert_goes_on(name: str, value: bytes) -> None:
    """The message is an event or a dead letter, and those beside it are events."""
    form, good = CASES[name]
    decoder = None if form is None else decoder_of(form)
    decoded = decode(good, value, good, default_kind=Kind.LABELLED if "mapped" in name else None, decoder=decoder)
    assert len(decoded.columns) + len(decoded.dead_letters) == 3
    assert [letter.offset for letter in decoded.dead_letters] in ([], [1])


@pytest.mark.parametrize("name", CASES)
@examples(40, EXAMPLES)
@given(data=st.data())
def test_changed_bytes(name: str, data: st.DataObject) -> None:
    assert_goes_on(name, data.draw(changed(CASES[name][1])))


SEEDS: Final[dict[str, bytes]] = {
    "a text that is not UTF-8": b"\xff\xfe3a",
    "a surrogate": b"\xed\xa0\x80a",
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("text", SEEDS)
def test_texts_that_are_not_utf8(name: str, text: str) -> None:
    """Avro's decoder by columns makes texts of any bytes; reading them stopped the stream."""
    good = CASES[name][1]
    assert_goes_on(name, good.replace(b"7f3a", SEEDS[text]))
    assert_goes_on(name, good.replace(b"eu", SEEDS[text][:2]))


@pytest.mark.parametrize(
    "rest",
    [
        b"\xa3\x06" * 400_000,  # groups in groups: too deep for a decoder that calls itself
        b"\xa3\x06" * 99 + b"\xa4\x06" * 99,
        b"\x42\x00",  # an entry of a map with neither key nor value
        b"\x42\x04\x1a\x02xx",
        b"\x4a\x07" + bytes(7),  # packed doubles that are cut off
        b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x88\x80\x80\x80\x80\x80\x00\x01",
    ],
    ids=lambda rest: rest[:8].hex(),
)
def test_protobuf_that_ends_other_decoders(rest: bytes) -> None:
    for name in ("protobuf", "mapped protobuf"):
        assert_goes_on(name, CASES[name][1] + rest)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b"\x91", b"\x81\xa1a"])
def test_what_is_nested_too_deeply(opening: bytes) -> None:
    for name in ("json", "mapped json", "json_schema", "messagepack"):
        assert_goes_on(name, (b"\0\0\0\0\1" if name == "json_schema" else b"") + opening * 200_000)
