"""Formats whose messages are read with a schema: decoded by columns where possible, else one by one."""

import base64
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from itertools import compress
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from monitor.errors import SchemaUnavailable, SettingsError
from monitor.events.arrow_events import KEYS, columns_of, read_events
from monitor.events.cloudevents import Mode, mode_of
from monitor.events.examine import examine_json, value_within
from monitor.events.fields import Rejected, shown
from monitor.events.formats.base import Format, Messages, Rules
from monitor.events.mapped_columns import map_columns
from monitor.events.mapping import Document, FieldMapping
from monitor.events.model import Headers, Kind, Reason, Record
from monitor.events.schemas import Framed, Payloads, Schema, Unframed
from monitor.events.wire import Event

_MAX_SCHEMAS: Final = 10_000
_MAX_SHOWN: Final = 300


class Columns(NamedTuple):
    """Payloads that were decoded together."""

    rows: Sequence[int]
    """Which of the payloads they are, ascending."""
    values: Mapping[str, Any]
    """Field -> Arrow array of as many rows."""


class Codec(Protocol):
    """Decodes payloads of one schema."""

    def columns(self, payloads: Sequence[bytes], names: Collection[str]) -> Iterable[Columns]:
        """The fields of these names, by columns. Payloads that are in none are to be decoded one by one."""
        ...

    def document(self, payload: bytes) -> Document:
        """One payload, decoded.

        Raises
        ------
        ValueError
            It was not written with this schema. Says why.
        """
        ...


class DocumentCodec:
    """Decodes messages one by one, without a schema.

    Parameters
    ----------
    decode
        Decodes one message; raises an error of msgspec if it cannot be decoded to a mapping.
    """

    def __init__(self, decode: Callable[[bytes], Document]) -> None:
        self._decode = decode

    def columns(self, payloads: Sequence[bytes], names: Collection[str]) -> Iterable[Columns]:  # noqa: ARG002
        """None: documents only."""
        return ()

    def document(self, payload: bytes) -> Document:
        """One message, decoded."""
        try:
            return self._decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
            raise ValueError(str(error)) from None


class MappedRow(NamedTuple):
    """A row of a mapped message, as a record."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    number: int | None
    """Which row of a batch; None for a message that is one event."""
    document: Document | Rejected
    """The event, or why the message cannot be mapped."""


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
        self._names = KEYS if mapping is None else mapping.names
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
        is_single = self._mapping is None or self._mapping.is_single
        return Format(self.decode, self.examine, read_rows=None if is_single else self.read_rows)

    def decode(self, messages: Messages) -> list[Event | None]:
        """The event of each message; None where it has to be examined.

        Raises
        ------
        SchemaUnavailable
            A schema cannot be had now.
        """
        events: list[Event | None] = [None] * len(messages.values)
        for codec, payloads in self._group(messages):
            for row, event in zip(payloads.rows, self._decode_group(codec, payloads, messages), strict=True):
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
        if self._mapping is None:
            return examine_json(self._encode(self._document(record, value)), record, rules, default_kind)
        if not isinstance(record, MappedRow):
            (document,) = self._mapping.read_events(self._document(record, value), record)
            record = MappedRow(*_fields(record), None, document)
        try:
            if isinstance(record.document, Rejected):
                raise record.document
            # Without headers: of an event that is mapped the mapping says all, also where the message is a CloudEvent.
            return examine_json(self._encode(record.document), record._replace(headers=()), rules, default_kind)
        except Rejected as rejected:
            detail = rejected.detail if record.number is None else f"row {record.number}: {rejected.detail}"
            if rejected.reason is Reason.MISSING_KEY:
                detail = f"{detail}; the mapping takes {self._mapping}"
            raise Rejected(rejected.reason, detail) from None

    def read_rows(self, messages: Messages) -> tuple[Sequence[MappedRow], list[Event | None]]:
        """The rows of mapped messages, and the event of each; None where it has to be examined.

        Raises
        ------
        SchemaUnavailable
            A schema cannot be had now.
        """
        documents: dict[int, Document] = {}
        for codec, payloads in self._group(messages):
            for row, payload in zip(payloads.rows, payloads.values, strict=True):
                with suppress(ValueError):
                    documents[row] = codec.document(payload)
        rows: list[MappedRow] = []
        for at, (record, value) in enumerate(zip(messages.records, messages.values, strict=True)):
            events: Sequence[Document | Rejected]
            try:
                document = documents[at] if value and at in documents else self._document(record, value)
                events = self._mapping.read_events(document, record) if self._mapping else ()
                is_batch = self._mapping is not None and self._mapping.is_batch
            except Rejected as rejected:
                events, is_batch = [rejected], False
            of_message = _fields(record)
            numbers = range(len(events)) if is_batch else [None] * len(events)
            rows += [MappedRow(*of_message, *pair) for pair in zip(numbers, events, strict=True)]
        mapped = {at: row.document for at, row in enumerate(rows) if not isinstance(row.document, Rejected)}
        events_of_rows: list[Event | None] = [None] * len(rows)
        for at, event in zip(mapped, _events_of(list(mapped.values())), strict=True):
            events_of_rows[at] = event
        return rows, events_of_rows

    def _decode_group(self, codec: Codec, payloads: Payloads, messages: Messages) -> list[Event | None]:
        """The events of messages of one schema, each of one event: by columns, and the rest one by one."""
        mapping, values = self._mapping, payloads.values
        records = messages.records
        if len(values) < len(records):
            records = [records[row] for row in payloads.rows]
        events: list[Event | None] = [None] * len(values)
        left: Collection[int] = range(len(values))
        for columns in codec.columns(values, self._names):
            rows, named = columns
            if mapping is not None:
                of_rows = records if len(rows) == len(records) else [records[at] for at in rows]
                mapped = map_columns(mapping, named, of_rows)
                if mapped is None:
                    continue
                good, named = mapped
                rows = rows if good.all() else [*compress(rows, good)]
            read = read_events(named, len(rows)) if rows else []
            if len(read) == len(values):
                return read
            left = set(left).difference(rows)
            for at, event in zip(rows, read, strict=True):
                events[at] = event
        documents: dict[int, Document] = {}
        for at in left:
            with suppress(ValueError):
                document = codec.document(values[at])
                if mapping is not None:
                    (document,) = mapping.read_events(document, records[at])
                documents[at] = document
        for at, event in zip(documents, _events_of(list(documents.values())), strict=True):
            events[at] = event
        return events

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

    def _document(self, record: Record, value: bytes) -> Document:
        """A message, decoded; raises Rejected if it cannot be."""
        prefix, payload = self._schemas.split(record, value)
        try:
            return self._codec(prefix).document(payload)
        except ValueError as error:
            raise self._undecodable(error) from None

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


def _events_of(documents: Sequence[Document]) -> list[Event | None]:
    columns = columns_of(documents) if documents else None
    return [None] * len(documents) if columns is None else read_events(columns, len(documents))


def encode_document(document: Document) -> bytes:
    """The keys of an event in a document, as JSON.

    A number that is not finite becomes NaN or Infinity, which is no JSON: the check of JSON says so, and of which key.

    Raises
    ------
    ValueError
        A key is no text, or it is nested too deeply.
    """
    try:
        return json.dumps({key: document[key] for key in KEYS if key in document}, default=_plain).encode()
    except (ArithmeticError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None


def _plain(value: Any) -> Any:
    """A value that JSON lacks, as events write it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)
