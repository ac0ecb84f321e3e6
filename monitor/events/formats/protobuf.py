"""Protobuf: each message is one of a schema's message types, decoded with the schema it was written with.

With a registry, the message's type follows the prefix: how many steps lead to it, and the place of each among the types
of its level, from the outermost inwards, as zigzag varints. A single 0 is short for the first type.

A field that knows whether it was set (``optional``, a message, in a oneof, proto2) is absent where it was not. Another
one has its zero, as Protobuf defines; of those an empty text counts as absent.

Source: https://protobuf.dev/programming-guides/encoding; Confluent's "Wire format" of its serialisers.
"""

import base64
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from monitor.events.formats.base import Format
from monitor.events.formats.plain_json import decode_each
from monitor.events.mapping import Column, Document, FieldMapping, Values
from monitor.events.schema_format import Codec, Part, SchemaFormat, decode_documents, require_packages
from monitor.events.schemas import Framed, Schema, Unframed

NAME: Final = "protobuf"

_COMPILE_SECONDS: Final = 60
_FILE: Final = "monitored.proto"
_MAX_STEPS: Final = 32
_MAX_TYPES: Final = 16
"""Types in a batch whose messages are decoded together; of a topic there are few."""
_MAX_VARINT_BYTES: Final = 5
_EXACT: Final = 2.0**53
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


def make_format(schemas: Framed | Unframed, mapping: FieldMapping | None = None) -> Format:
    """The format, with the schemas of its messages, and where the keys of events are in them.

    Raises
    ------
    SettingsError
        The packages that it needs are not installed.
    """
    require_packages(NAME, "google.protobuf", "grpc_tools")
    framed = isinstance(schemas, Framed)
    return SchemaFormat("Protobuf", schemas, lambda schema: compile_schema(schema, framed=framed), mapping).format


def compile_schema(schema: Schema, *, framed: bool) -> Codec:
    """The codec of a schema, whose text is Protobuf's language.

    Parameters
    ----------
    schema
        The schema.
    framed
        Whether each message says of which type it is; otherwise all are of ``schema.message``, or of the only one.

    Raises
    ------
    ValueError
        It is not Protobuf, or has no such message type. Says why.
    """
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415

    if schema.kind != "PROTOBUF":
        raise ValueError(f"the registry says that it is {schema.kind}")
    pool = DescriptorPool()
    try:
        for file in _descriptors(schema):
            pool.Add(file)
        types = list(pool.FindFileByName(_FILE).message_types_by_name.values())
    except (TypeError, KeyError) as error:
        raise ValueError(str(error)) from None
    if framed:
        return _ProtobufCodec(types, None)
    names = [of_type.full_name for of_type in types]
    if schema.message is None and len(types) == 1:
        return _ProtobufCodec(types, types[0])
    if schema.message not in names:
        raise ValueError(f"source.topics must name the message, as message, one of {', '.join(names)}")
    return _ProtobufCodec(types, types[names.index(schema.message)])


def message_type(schema: Schema, payload: bytes | None) -> Any:
    """The descriptor of the messages' type: of the one that a payload names, or of ``schema.message``, or the first."""
    from google.protobuf.descriptor_pool import DescriptorPool  # noqa: PLC0415

    pool = DescriptorPool()
    for file in _descriptors(schema):
        pool.Add(file)
    types = list(pool.FindFileByName(_FILE).message_types_by_name.values())
    if payload is not None:
        return _type_at(types, _read_steps(payload)[0])
    return next(of_type for of_type in types if schema.message in {None, of_type.full_name})


def _descriptors(schema: Schema) -> Sequence[Any]:
    """The descriptors of a schema and of all that it imports, those that another one imports before it.

    Some producers register the descriptor of their file, in base64, instead of its source.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    texts = {**dict(schema.references), _FILE: schema.text}
    files: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            files[name] = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (ValueError, DecodeError):
            return list(FileDescriptorSet.FromString(_run_compiler(schema)).file)
        files[name].name = name
    known = {name for file in files.values() for name in file.dependency if name not in files}
    return [*(_well_known(name) for name in sorted(known)), *files.values()]


def _well_known(name: str) -> Any:
    """The descriptor of a file that comes with Protobuf."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415

    stem = name.removeprefix("google/protobuf/").removesuffix(".proto")
    try:
        module = importlib.import_module(f"google.protobuf.{stem}_pb2")
    except ImportError:
        raise ValueError(f"it imports {name}, which the registry does not name among its references") from None
    descriptor = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(descriptor)
    return descriptor


def _run_compiler(schema: Schema) -> bytes:
    """The descriptors of a schema and of all that it imports."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name, text in ((_FILE, schema.text), *schema.references):
            file = (root / name).resolve()
            if not file.is_relative_to(root):
                raise ValueError(f"it imports {name}, which is outside of the schemas")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        options = ["-I.", f"-I{_well_known_types()}", "--include_imports", "--descriptor_set_out=set"]
        done = subprocess.run(  # noqa: S603 - our own interpreter, on files of our own
            [sys.executable, "-m", "grpc_tools.protoc", *options, _FILE],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=_COMPILE_SECONDS,
            check=False,
        )
        if done.returncode:
            wrong = [line.replace(f"{_FILE}:", "line ") for line in done.stderr.splitlines() if ".proto:" in line]
            raise ValueError("; ".join(wrong) or f"the compiler of Protobuf fails with {done.returncode}")
        return (root / "set").read_bytes()


def _well_known_types() -> Path:
    import grpc_tools  # noqa: PLC0415

    return Path(grpc_tools.__file__).parent / "_proto"


class _ProtobufCodec:
    """Decodes messages of the types of one file.

    Parameters
    ----------
    types
        Descriptors of the outermost types, in their order.
    only
        The type of all messages; None: each message says which.
    """

    def __init__(self, types: Sequence[Any], only: Any) -> None:
        self._types = types
        self._only = None if only is None else _Reader(only)
        self._readers: dict[tuple[int, ...], _Reader] = {}

    def decode(self, payloads: Sequence[bytes]) -> Iterable[Part]:
        """The messages, together for each type."""
        left: Sequence[int] = range(len(payloads))
        for _ in range(_MAX_TYPES):
            if not left:
                return
            try:
                reader, start = self._reader(payloads[left[0]])
            except ValueError:
                left = left[1:]
                continue
            steps = payloads[left[0]][:start]
            rows, left = left, []
            if start and {payloads[row][:start] for row in rows} != {steps}:
                left = [row for row in rows if not payloads[row].startswith(steps)]
                rows = [row for row in rows if payloads[row].startswith(steps)]
            yield reader.decode([payloads[row][start:] for row in rows], rows)
        yield decode_documents(self.document, payloads, left)

    def document(self, payload: bytes) -> Document:
        """One message, decoded."""
        reader, start = self._reader(payload)
        return reader.document(payload[start:])

    def _reader(self, payload: bytes) -> tuple["_Reader", int]:
        """What reads a message, and where it begins."""
        if self._only is not None:
            return self._only, 0
        steps, start = _read_steps(payload)
        reader = self._readers.get(steps)
        if reader is None:
            reader = self._readers[steps] = _Reader(_type_at(self._types, steps))
        return reader, start


def _read_steps(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The steps to a message's type, and where the message begins."""
    if payload[:1] == b"\0":
        return (0,), 1
    count, at = _read_varint(payload, 0)
    if not 0 < count <= _MAX_STEPS:
        raise ValueError(f"it has {count} message indexes")
    steps = []
    for _ in range(count):
        step, at = _read_varint(payload, at)
        steps.append(step)
    return tuple(steps), at


def _read_varint(payload: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and where it ends."""
    value = 0
    for place in range(_MAX_VARINT_BYTES):
        if at + place >= len(payload):
            break
        byte = payload[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + place + 1
    raise ValueError("its message indexes are cut off")


def _type_at(types: Sequence[Any], steps: tuple[int, ...]) -> Any:
    of_type = None
    for step in steps:
        if not 0 <= step < len(types):
            raise ValueError(f"its schema has no message type at the indexes {list(steps)}")
        of_type = types[step]
        types = of_type.nested_types
    return of_type


class _Reader:
    """Reads messages of one type."""

    def __init__(self, descriptor: Any) -> None:
        from google.protobuf.message import DecodeError  # noqa: PLC0415
        from google.protobuf.message_factory import GetMessageClass  # noqa: PLC0415

        self._parse = GetMessageClass(descriptor).FromString
        self._broken = DecodeError
        self._descriptor = descriptor

    def decode(self, payloads: Sequence[bytes], rows: Sequence[int]) -> Part:
        """The messages in payloads of these rows; left out are those that are not of the type."""
        messages = decode_each(self._parse, payloads, (self._broken,))
        if not all(messages):
            rows = [row for row, message in zip(rows, messages, strict=True) if message is not None]
            messages = [message for message in messages if message is not None]
        return Part(rows, _Messages(messages, self._descriptor))

    def document(self, payload: bytes) -> Document:
        """One message, decoded."""
        try:
            message = self._parse(payload)
        except self._broken as error:
            raise ValueError(str(error)) from None
        (document,) = _Messages([message], self._descriptor).values()
        return document  # type: ignore[no-any-return] # of a message that is there


class _Messages:
    """A column of messages of one type, as Google's runtime has them.

    Parameters
    ----------
    messages
        None where there is none.
    descriptor
        Their type.
    """

    def __init__(self, messages: list[Any], descriptor: Any) -> None:
        self._messages = messages
        self._descriptor = descriptor

    def inside(self, step: str | int) -> Column:
        """The field of each message; None where it is not set, or is an empty text that does not know whether it is."""
        name = str(step)
        field = self._descriptor.fields_by_name.get(name)
        if field is None:
            return Values([None] * len(self._messages))
        read = attrgetter(name)
        if field.has_presence:
            found = [read(one) if one is not None and one.HasField(name) else None for one in self._messages]
            is_message = field.message_type is not None and field.message_type.full_name not in _VALUES
            return _Messages(found, field.message_type) if is_message else Values(_plain(found, field))
        if all(self._messages):
            found = [*map(read, self._messages)]
        else:
            found = [None if one is None else read(one) for one in self._messages]
        if field.is_repeated:
            return Values(_read_repeated(found, field))
        if field.type == field.TYPE_STRING:
            return Values([text or None for text in found])
        return Values(_plain(found, field))

    def values(self) -> list[Any]:
        """The messages as documents: the fields that are set."""
        if not any(self._messages):
            return [None] * len(self._messages)  # also ends the descent into a type that holds itself
        names = [field.name for field in self._descriptor.fields]
        columns = [self.inside(name).values() for name in names]
        rows = zip(*columns, strict=True) if names else [()] * len(self._messages)
        return [
            None if one is None else {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for one, row in zip(self._messages, rows, strict=True)
        ]


def _plain(values: list[Any], field: Any) -> list[Any]:
    """Single values of a field's type, as documents have them; None stays."""
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return [names.get(value, value) for value in values]
    if field.message_type is None:
        return values
    name = field.message_type.full_name
    if (read := _VALUES.get(name)) is not None:
        return [None if value is None else read(value) for value in values]
    return _Messages(values, field.message_type).values()


def _read_struct(struct: Any) -> dict[str, Any]:
    return {name: _read_value(value) for name, value in struct.fields.items()}


def _read_list(values: Any) -> list[Any]:
    return [*map(_read_value, values.values)]


def _read_value(value: Any) -> Any:
    """A value of any type. Its numbers are doubles: whole ones are integers, as in JSON, while all of these differ."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _read_struct(value.struct_value)
    if kind == "list_value":
        return _read_list(value.list_value)
    if kind in {None, "null_value"}:
        return None
    one = getattr(value, kind)
    return int(one) if kind == "number_value" and one.is_integer() and abs(one) < _EXACT else one


_VALUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "google.protobuf.Timestamp": lambda at: 1000 * at.seconds + at.nanos // 1_000_000,
    **dict.fromkeys(_WRAPPERS, attrgetter("value")),
    "google.protobuf.Struct": _read_struct,
    "google.protobuf.ListValue": _read_list,
    "google.protobuf.Value": _read_value,
}
"""Well-known type -> reads it as events have it. The others are messages with fields."""


def _read_repeated(columns: list[Any], field: Any) -> list[Any]:
    """The lists of a field that is repeated, or its maps; None where there is no message."""
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    inner = field.message_type.fields_by_name["value"] if is_map else field
    if is_map:
        columns = [None if of is None else {str(key): of[key] for key in of} for of in columns]
    if inner.enum_type is None and inner.message_type is None:
        return columns if is_map else [None if of is None else list(of) for of in columns]
    lists = [() if of is None else of.values() if is_map else of for of in columns]
    flat = _plain([*chain.from_iterable(lists)], inner)
    ends = pairwise(accumulate(map(len, lists), initial=0))
    values = [flat[begin:end] for begin, end in ends]
    if is_map:
        return [
            None if of is None else dict(zip(of, items, strict=True)) for of, items in zip(columns, values, strict=True)
        ]
    return [None if of is None else items for of, items in zip(columns, values, strict=True)]
