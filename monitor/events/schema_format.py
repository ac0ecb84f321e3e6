"""Formats whose messages are not events of JSON: decoded together, mapped by columns, and checked as rows."""

import base64
import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import takewhile
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, cast

import msgspec

from monitor.errors import SchemaUnavailable, SettingsError
from monitor.events.cloudevents import Mode, mode_of
from monitor.events.examine import examine_json, value_within
from monitor.events.fields import Rejected, shown
from monitor.events.formats.base import Format, Messages, Rules
from monitor.events.formats.plain_json import UNREADABLE, decode_each, utf8_values
from monitor.events.mapping import Column, Document, FieldMapping, Path, Rows, Values
from monitor.events.model import Headers, Kind, Reason, Record
from monitor.events.schemas import Framed, Payloads, Schema, Unframed
from monitor.events.wire import ABSENT, KEYS, Event, Row

_MAX_SCHEMAS: Final = 10_000
_MAX_SHOWN: Final = 300


def require_packages(extra: str, *packages: str) -> None:
    """Refuse a format whose packages, an extra of this one of its name, are not installed.

    Raises
    ------
    SettingsError
        Says which package is missing, and how to install it.
    """
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise SettingsError(
                f"format {extra} needs the package {error.name}, which is not installed: "
                f"pip install 'calibration-monitor[{extra}]'"
            ) from error


class Part(NamedTuple):
    """Messages that were decoded together."""

    rows: Sequence[int]
    """Which of the payloads they are, ascending."""
    messages: Column


class Codec(Protocol):
    """Decodes payloads of one schema."""

    def decode(self, payloads: Sequence[bytes]) -> Iterable[Part]:
        """The messages. Payloads that are in no part were not written with this schema."""
        ...

    def document(self, payload: bytes) -> Document:
        """One message.

        Raises
        ------
        ValueError
            It was not written with this schema. Says why.
        """
        ...


def decode_documents(document: Callable[[bytes], Document], payloads: Sequence[bytes], rows: Sequence[int]) -> Part:
    """Decode the payloads of these rows one by one; left out are those whose decoder raises."""
    documents = decode_each(document, [payloads[row] for row in rows])
    good = [at for at, one in enumerate(documents) if one is not None]
    return Part([rows[at] for at in good], Values([documents[at] for at in good]))


class DocumentCodec:
    """Decodes messages without a schema.

    Only what the mapping reads is decoded, into structures made for it; messages of another shape become mappings.

    Parameters
    ----------
    module
        ``msgspec.json`` or ``msgspec.msgpack``.
    mapping
        Says which parts of messages are read.
    """

    def __init__(self, module: Any, mapping: FieldMapping | None) -> None:
        self._is_text = module is msgspec.json
        self._decode = module.Decoder(dict[str, Any]).decode
        self._parts = _parts_of((mapping or FieldMapping()).paths)
        self._decode_parts = module.Decoder(_structure(self._parts)).decode

    def decode(self, payloads: Sequence[bytes]) -> Iterable[Part]:
        """All that can be decoded."""
        structures = decode_each(self._decode_parts, utf8_values(payloads) if self._is_text else payloads)
        rows: Sequence[int] = range(len(payloads))
        if not all(structures):
            yield decode_documents(self._decode, payloads, [row for row in rows if structures[row] is None])
            rows = [row for row in rows if structures[row] is not None]
            structures = [structures[row] for row in rows]
        yield Part(rows, _Structures(structures, self._parts))

    def document(self, payload: bytes) -> Document:
        """One message, decoded."""
        try:
            return cast("Document", self._decode(payload))
        except UNREADABLE as error:
            raise ValueError(str(error)) from None


_Parts = dict[str, Any]
"""The keys that are read: those of the mapping under a key, or None where all of its value is read."""


def _parts_of(paths: Iterable[Path]) -> _Parts:
    """The parts that paths lead to; of a list, and of what a shorter path leads to, all is read."""
    keys = [[str(first), *map(str, takewhile(lambda step: isinstance(step, str), rest))] for first, *rest in paths]
    parts: _Parts = {}
    for *above, last in sorted(keys, key=len):
        inner: _Parts | None = parts
        for key in above:
            inner = None if inner is None else inner.setdefault(key, {})
        if inner is not None:
            inner[last] = None
    return parts


def _structure(parts: _Parts) -> Any:
    """The type of a mapping whose parts are read: its fields are ``_0``, ``_1``, ..."""
    fields = [
        (f"_{at}", Any if inner is None else _structure(inner) | None, None) for at, inner in enumerate(parts.values())
    ]
    names = {f"_{at}": key for at, key in enumerate(parts)}
    return msgspec.defstruct("Structure", fields, rename=names, gc=False)


class _Structures:
    """A column of structures; None where there is none."""

    def __init__(self, structures: list[Any], parts: _Parts) -> None:
        self._structures, self._parts = structures, parts

    def inside(self, step: str | int) -> Column:
        """A part that is read."""
        read = attrgetter(f"_{list(self._parts).index(str(step))}")
        inner = self._parts[str(step)]
        if all(self._structures):
            values = [*map(read, self._structures)]
        else:
            values = [None if one is None else read(one) for one in self._structures]
        return Values(values) if inner is None else _Structures(values, inner)

    def values(self) -> list[Any]:
        """Not needed: paths lead to what is in structures."""
        raise NotImplementedError


class MappedRow(NamedTuple):
    """A row of a mapped message, as a record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    number: int | None
    """Which row of a batch; None for a message that is one event."""
    event: Callable[[], Document]
    """The event. Raises Rejected if the message has none."""


class SchemaFormat:
    """Messages that are decoded with a schema.

    Parameters
    ----------
    name
        What messages call the format.
    schemas
        How a message's schema is found.
    mapping
        Where the keys of events are; None: under their own names.
    compile_schema
        Makes the codec of a schema. Raises ValueError if the schema is not of this format; says why.

    Raises
    ------
    SettingsError
        The one schema of all messages is not of this format.
    """

    def __init__(
        self,
        name: str,
        schemas: Framed | Unframed,
        compile_schema: Callable[[Schema], Codec],
        mapping: FieldMapping | None = None,
    ) -> None:
        self._name = name
        self._schemas = schemas
        self._compile = compile_schema
        self._mapping = mapping
        self._codecs: dict[bytes, Codec | str] = {}
        """Codec of each schema, or why it has none: compiling it again for each message would take too long."""
        if isinstance(schemas, Unframed):
            try:
                self._codec(b"")
            except Rejected as rejected:
                raise SettingsError(f"source.topics: {rejected.detail}") from None

    @property
    def format(self) -> Format:
        """What the decoder needs."""
        read_rows = None if self._mapping is None or self._mapping.is_single else self.read_rows
        return Format(self.decode, self.examine, read_rows=read_rows, document=self.document)

    def decode(self, messages: Messages) -> list[Event | None]:
        """The event of each message; None where it has to be examined.

        Raises
        ------
        SchemaUnavailable
            A schema cannot be had now.
        """
        events: list[Event | None] = [None] * len(messages.values)
        for at, read in self._read(messages):
            decoded = _events(read.columns)
            if len(decoded) == len(events):
                events = decoded
            else:
                for row, event in zip(at, decoded, strict=True):
                    events[row] = event
        if messages.have_headers and self._mapping is None:
            for row, record in enumerate(messages.records):
                if mode_of(record.headers) is Mode.BINARY:
                    events[row] = None  # a CloudEvent: its headers may complete the event
        return events

    def examine(self, record: Record, rules: Rules, default_kind: Kind | None) -> Event:
        """The event of one message.

        Raises
        ------
        Rejected
            The message is not a valid event.
        SchemaUnavailable
            Its schema cannot be had now.
        """
        value = value_within(record, rules.max_bytes)
        if not value:
            raise Rejected(Reason.EMPTY, "the message is empty")
        row = record if isinstance(record, MappedRow) else self._whole(record)
        if self._mapping is not None:
            row = row._replace(headers=())  # the mapping says all, also where the message is a CloudEvent
        try:
            return examine_json(self._encode(row.event()), row, rules, default_kind)
        except Rejected as rejected:
            detail = rejected.detail if row.number is None else f"row {row.number}: {rejected.detail}"
            if rejected.reason is Reason.MISSING_KEY and self._mapping is not None:
                detail = f"{detail}; the mapping takes {self._mapping}"
            raise Rejected(rejected.reason, detail) from None

    def read_rows(self, messages: Messages) -> tuple[Sequence[MappedRow], list[Event | None]]:
        """The rows of mapped messages, and the event of each; None where it has to be examined.

        Raises
        ------
        SchemaUnavailable
            A schema cannot be had now.
        """
        rows: list[MappedRow] = []
        events: list[Event | None] = []
        places: list[tuple[int, int]] = []
        left = set(range(len(messages.records)))
        for at, read in self._read(messages):
            left.difference_update(row for place, row in enumerate(at) if place not in read.refused)
            numbers: Sequence[int | None] = read.numbers or [None] * len(read.messages)
            for row, (place, number) in enumerate(zip(read.messages, numbers, strict=True)):
                places.append((at[place], len(rows)))
                rows.append(MappedRow(*_fields(messages.records[at[place]]), number, partial(read.event, row)))
            events += _events(read.columns)
        for row in left:
            places.append((row, len(rows)))
            rows.append(self._whole(messages.records[row]))
            events.append(None)
        order = [row for _, row in sorted(places)]
        return [rows[row] for row in order], [events[row] for row in order]

    def document(self, record: Record) -> Document:
        """A message, decoded.

        Raises
        ------
        Rejected
            It cannot be.
        SchemaUnavailable
            Its schema cannot be had now.
        """
        prefix, payload = self._schemas.split(record, record.value or b"")
        try:
            return self._codec(prefix).document(payload)
        except ValueError as error:
            raise self._undecodable(error) from None

    def _read(self, messages: Messages) -> Iterator[tuple[Sequence[int], Rows]]:
        """The rows of messages that were decoded together, and which messages these are."""
        for codec, payloads in self._group(messages):
            for part in codec.decode(payloads.values):
                at, records = part.rows, messages.records
                if len(at) < len(records):
                    at = [payloads.rows[row] for row in at]
                    records = [records[row] for row in at]
                if self._mapping is None:
                    columns = {key: part.messages.inside(key).values() for key in KEYS}
                    yield at, Rows(range(len(at)), None, columns, {})
                else:
                    yield at, self._mapping.read(part.messages, records)

    def _whole(self, record: Record) -> MappedRow:
        """A message that is one event, or none."""

        def event() -> Document:
            if self._mapping is None:
                return self.document(record)
            rows = self._mapping.read(Values([self.document(record)]), [record])
            for rejected in rows.refused.values():
                raise rejected
            return rows.event(0)

        return MappedRow(*_fields(record), None, event)

    def _group(self, messages: Messages) -> list[tuple[Codec, Payloads]]:
        """The messages by their schema, those left out that have no valid one."""
        groups = []
        unavailable: SchemaUnavailable | None = None
        for prefix, payloads in self._schemas.group(messages).items():
            try:
                groups.append((self._codec(prefix), payloads))
            except Rejected:
                continue
            except SchemaUnavailable as error:
                unavailable = error  # the others are asked for, too, so that they do not wait one after the other
        if unavailable is not None:
            raise unavailable
        return groups

    def _encode(self, document: Document) -> bytes:
        try:
            return encode_document(document)
        except ValueError as error:
            raise self._undecodable(error) from None

    def _undecodable(self, error: ValueError) -> Rejected:
        return Rejected(Reason.UNDECODABLE, f"the message is not {self._name} of its schema: {shown(str(error))}")

    def _codec(self, prefix: bytes) -> Codec:
        codec = self._codecs.get(prefix)
        if codec is None:
            schema = self._schemas.schema(prefix)
            if len(self._codecs) >= _MAX_SCHEMAS:
                self._codecs.clear()
            try:
                codec = self._compile(schema)
            except ValueError as error:
                codec = f"the message's schema is not {self._name}: {' '.join(str(error).split())[:_MAX_SHOWN]}"
            self._codecs[prefix] = codec
        if isinstance(codec, str):
            raise Rejected(Reason.UNDECODABLE, codec)
        return codec


def _fields(record: Record) -> tuple[int, int, bytes | None, bytes | None, Headers]:
    return record.offset, record.timestamp, record.key, record.value, record.headers


def _events(columns: Mapping[str, Sequence[Any]]) -> list[Event | None]:
    """The event of each row; None where it has to be examined."""
    times = columns["ts"]
    if datetime in map(type, times):
        columns = {**columns, "ts": [ts.isoformat() if isinstance(ts, datetime) else ts for ts in times]}
    rows = zip(*(columns[key] for key in KEYS), strict=True)
    events = decode_each(partial(msgspec.convert, type=Row), rows)
    for event in events:
        if event is not None:
            event.segments = msgspec.json.encode(event.segments) if event.segments else ABSENT
            if not event.features:
                event.features = ABSENT
            elif isinstance(event.features, bytes):
                event.features = msgspec.json.encode(event.features)
    return events


def encode_document(document: Document) -> bytes:
    """The keys of an event in a document, as JSON.

    A number that is not finite becomes NaN or Infinity, which is no JSON: the check of JSON says so, and of which key.

    Raises
    ------
    Rejected
        A key holds bytes, which are no text and no number: written as text they would be another id than that text.
    ValueError
        A key is no text, or it is nested too deeply.
    """
    event = {key: document[key] for key in KEYS if key in document}
    for key, value in event.items():
        if key == "features" and isinstance(value, bytes):
            continue
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
        packed = next((one for one in inner if isinstance(one, bytes)), None)
        if packed is not None:
            raise Rejected(
                Reason.WRONG_TYPE,
                f"{key} must be a text or a number, got {len(packed)} bytes; write a text (in Avro, a UUID may be "
                "fixed(16) with the logicalType uuid)",
            )
    if isinstance(packed := event.get("features"), bytes):
        event["features"] = base64.b64encode(packed).decode()
    try:
        return json.dumps(event, default=_as_text).encode()
    except (ArithmeticError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None


def _as_text(value: Any) -> str:
    """A value that JSON lacks, as events write it."""
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a value is {type(value).__name__}, which is no JSON")
