"""Protobuf messages that are read together are what each is alone, field by field.

Messages come whole, in parts, in any order, with unknown fields, with fields of other types, cut off and changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from monitor.events.formats.protobuf import compile_schema
from monitor.events.schema_format import Codec
from monitor.events.schemas import Schema
from tests.events.naive_mapping import read_message
from tests.long import examples

BODY: Final = """
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Kind { none = 0; prediction = 1; outcome = 5; same = -3; }
message Empty {}
message Inner { LABEL string name = 1; LABEL int32 n = 2; repeated sint32 xs = 3; LABEL Deep deep = 4;
  LABEL Empty empty = 5; }
message Deep { repeated string names = 1; repeated bool flags = 2; LABEL Kind kind = 3; }
message All {
  LABEL double f_double = 1; LABEL float f_float = 2; LABEL int32 f_int32 = 3; LABEL int64 f_int64 = 4;
  LABEL uint32 f_uint32 = 5; LABEL uint64 f_uint64 = 6; LABEL sint32 f_sint32 = 7; LABEL sint64 f_sint64 = 8;
  LABEL fixed32 f_fixed32 = 9; LABEL fixed64 f_fixed64 = 10; LABEL sfixed32 f_sfixed32 = 11;
  LABEL sfixed64 f_sfixed64 = 12; LABEL bool f_bool = 13; LABEL string f_string = 14; LABEL bytes f_bytes = 15;
  LABEL Kind f_kind = 16; LABEL Inner f_inner = 17; LABEL google.protobuf.Timestamp f_time = 18;
  LABEL google.protobuf.DoubleValue f_wrapped = 19; LABEL google.protobuf.StringValue f_text = 20;
  oneof either { int32 one = 21; string other = 22; Inner third = 23; }
  optional string o_string = 24; optional int64 o_int64 = 2000;
  repeated double r_double = 31; repeated float r_float = 32; repeated int32 r_int32 = 33;
  repeated uint64 r_uint64 = 34;
  repeated sint64 r_sint64 = 35; repeated fixed32 r_fixed32 = 36; repeated string r_string = 37;
  repeated bytes r_bytes = 38; repeated Kind r_kind = 39; repeated Inner r_inner = 40; repeated bool r_bool = 41;
  map<string, string> m_text = 51; map<int32, double> m_number = 52; map<bool, Inner> m_inner = 53;
  map<string, Kind> m_kind = 54;
}
"""


def codec_of(syntax: str) -> Codec:
    label = "optional" if syntax == "proto2" else ""
    text = f'syntax = "{syntax}";{BODY.replace("LABEL", label)}'
    return compile_schema(Schema("PROTOBUF", text, message="All"), framed=False)


def class_of(schema: Schema) -> Any:
    """The class of messages of a schema's only type."""
    codec: Any = compile_schema(schema, framed=False)
    (of_type,) = codec._types
    return GetMessageClass(of_type)


CODECS: Final = {syntax: codec_of(syntax) for syntax in ("proto2", "proto3")}
TYPES: Final = {syntax: codec._types[-1] for syntax, codec in CODECS.items()}  # type: ignore[attr-defined]

INTEGERS: Final = st.one_of(st.integers(-3, 5), st.integers(-(2**63), 2**64 - 1))
TEXTS: Final = st.one_of(st.sampled_from(["", "a", "é", "日本", "🙂"]), st.text(max_size=3))
ODD_VARINTS: Final = (b"\x80\x00", b"\xff" * 10, b"\x80" * 9 + b"\x7f")


def value_of(field: Any) -> st.SearchStrategy[Any]:
    """One value of a field's type."""
    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    if kind == "message":
        return message_of(field.message_type)
    if kind in {"double", "float"}:
        return st.floats(width=64 if kind == "double" else 32)
    if kind == "string":
        return TEXTS
    if kind == "bytes":
        return st.binary(max_size=4)
    if kind == "bool":
        return st.booleans()
    if kind == "enum":
        return st.sampled_from([0, 1, 5, -3])
    size = int(kind[-2:])
    if kind.startswith(("u", "fixed")):
        return st.one_of(st.integers(0, 9), st.integers(0, 2**size - 1))
    return st.one_of(st.integers(-9, 9), st.integers(-(2 ** (size - 1)), 2 ** (size - 1) - 1))


def message_of(descriptor: Any) -> st.SearchStrategy[Message]:
    """A message of a type, as a producer makes it: some fields are set."""

    def build(values: Mapping[str, Any]) -> Message:
        message = GetMessageClass(descriptor)()
        for name, value in values.items():
            field = descriptor.fields_by_name[name]
            if field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry:
                for key, one in value:
                    if isinstance(one, Message):
                        getattr(message, name)[key].CopyFrom(one)
                    else:
                        getattr(message, name)[key] = one
            elif field.is_repeated:
                getattr(message, name).extend(value)
            elif isinstance(value, Message):
                getattr(message, name).CopyFrom(value)
            else:
                setattr(message, name, value)
        return message

    def values_of(field: Any) -> st.SearchStrategy[Any]:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, one = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            return st.lists(st.tuples(value_of(key), value_of(one)), max_size=3)
        return st.lists(value_of(field), max_size=3) if field.is_repeated else value_of(field)

    if descriptor.full_name == "google.protobuf.Timestamp":
        moments = {"seconds": st.integers(-(10**12), 10**12), "nanos": st.integers(-(10**9), 10**9)}
        return st.fixed_dictionaries({}, optional=moments).map(build)
    fields = st.lists(st.sampled_from(list(descriptor.fields)), max_size=6, unique_by=lambda field: field.name)
    if not descriptor.fields:
        return st.just(GetMessageClass(descriptor)())
    return fields.flatmap(
        lambda chosen: st.fixed_dictionaries({field.name: values_of(field) for field in chosen}).map(build)
    )


def varint(value: int) -> bytes:
    written = bytearray()
    value &= 2**64 - 1
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


@st.composite
def raw_fields(draw: st.DrawFn, depth: int = 2) -> bytes:
    """Fields of any number and wire type, right or not."""
    written = b""
    for _ in range(draw(st.integers(0, 4))):
        numbers = [*range(26), *range(31, 42), *range(51, 55), 2000, 536_870_911, 2**29]
        number, wire = draw(st.sampled_from(numbers)), draw(st.sampled_from([0, 0, 1, 2, 2, 2, 5, 3, 6]))
        written += varint(number << 3 | wire)
        if wire == 0:
            written += draw(st.one_of(INTEGERS.map(varint), st.sampled_from(ODD_VARINTS)))
        elif wire in {1, 5}:
            written += draw(st.binary(min_size=8, max_size=8))[: 8 if wire == 1 else 4]
        elif wire == 2:
            inner = raw_fields(depth - 1) if depth else st.just(b"")
            value = draw(st.one_of(st.binary(max_size=9), TEXTS.map(str.encode), inner, st.just(b"\x80\x01" * 3)))
            written += varint(len(value)) + value
        elif wire == 3:
            written += varint(number << 3 | 4)
    return written


@st.composite
def changed(draw: st.DrawFn, value: bytes) -> bytes:
    """The bytes, cut off or with one of them changed."""
    if not value:
        return value
    at = draw(st.integers(0, len(value) - 1))
    return draw(st.sampled_from([value[:at], value[:at] + bytes([draw(st.integers(0, 255))]) + value[at + 1 :]]))


WHOLE: Final = {
    syntax: message_of(of_type).map(lambda message: message.SerializeToString()) for syntax, of_type in TYPES.items()
}
ANY: Final = {
    syntax: st.one_of(
        whole,
        st.tuples(whole, whole).map(b"".join),
        st.tuples(whole, raw_fields()).map(b"".join),
        raw_fields(),
        st.tuples(whole, whole).map(b"".join).flatmap(changed),
        st.binary(max_size=20),
    )
    for syntax, whole in WHOLE.items()
}


def plain(value: Any) -> Any:
    """A value by what it is: also nan, and maps in any order; without what is absent."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in sorted(value.items()) if inner is not None}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return (type(value).__name__, repr(value))


def decode(codec: Codec, payloads: Sequence[bytes]) -> dict[int, Any]:
    """The messages that are decoded together."""
    parts = list(codec.decode(payloads))
    return {row: document for part in parts for row, document in zip(part.rows, part.messages.values(), strict=True)}


@pytest.mark.parametrize("syntax", CODECS)
@examples(30, 100)
@given(data=st.data())
def test_bytes_of_all_sorts_are_what_each_is_alone(syntax: str, data: st.DataObject) -> None:
    payloads = data.draw(st.lists(ANY[syntax], min_size=1, max_size=6))
    decoded = decode(CODECS[syntax], payloads)
    for row, payload in enumerate(payloads):
        try:
            message = GetMessageClass(TYPES[syntax]).FromString(payload)
        except DecodeError:
            assert row not in decoded
        else:
            assert plain(decoded[row]) == plain(read_message(message))
            assert plain(CODECS[syntax].document(payload)) == plain(decoded[row])


def test_types_that_hold_themselves() -> None:
    text = 'syntax = "proto3"; message Tree { string id = 1; repeated Tree trees = 2; Tree only = 3; }'
    codec = compile_schema(Schema("PROTOBUF", text), framed=False)
    assert decode(codec, [b"\x0a\x01a", b"\x1a\x03\x0a\x01b"]) == {
        0: {"id": "a", "trees": []},
        1: {"trees": [], "only": {"id": "b", "trees": []}},
    }
