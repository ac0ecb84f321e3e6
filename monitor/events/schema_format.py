"""Formats whose messages are read with a schema: decoded by columns where possible, else one by one."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, Protocol

import msgspec

from monitor.errors import SchemaUnavailable, SettingsError
from monitor.events.arrow_events import KEYS, columns_of, read_events
from monitor.events.cloudevents import Mode, mode_of
from monitor.events.examine import examine_json, value_within
from monitor.events.fields import Rejected, shown
from monitor.events.formats.base import Format, Messages, Rules
from monitor.events.mapping import Document, FieldMapping
from monitor.events.model import Kind, Reason, Record
from monitor.events.schemas import Framed, Payloads, Schema, Unframed
from monitor.events.wire import Event

_MAX_SCHEMAS: Final = 10_000
_MAX_SHOWN: Final = 300


class Codec(Protocol):
    """Decodes payloads of one schema."""

    def columns(self, payloads: Sequence[bytes]) -> Mapping[str, Any] | None:
        """Arrow columns of all payloads; None if this schema, or one of the payloads, cannot be decoded so."""
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

    def columns(self, payloads: Sequence[bytes]) -> None:
        """Documents only."""

    def document(self, payload: bytes) -> Document:
        """One message, decoded."""
        try:
            return self._decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
            raise ValueError(str(error)) from None


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
        return Format(self.decode, self.examine)

    def decode(self, messages: Messages) -> list[Event | None]:
        """The event of each message; None where it has to be examined.

        Raises
        ------
        SchemaUnavailable
            A schema cannot be had now.
        """
        events: list[Event | None] = [None] * len(messages.values)
        groups = self._schemas.group(messages)
        codecs: dict[bytes, Codec] = {}
        unavailable: SchemaUnavailable | None = None
        for prefix in groups:
            try:
                codecs[prefix] = self._codec(prefix)
            except Rejected:
                continue
            except SchemaUnavailable as error:
                unavailable = error  # the others are asked for, too, so that they do not wait one after the other
        if unavailable is not None:
            raise unavailable
        for prefix, codec in codecs.items():
            payloads = groups[prefix]
            for row, event in zip(payloads.rows, self._decode_group(codec, payloads, messages.records), strict=True):
                events[row] = event
        if messages.have_headers:
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
        prefix, payload = self._schemas.split(record, value)
        try:
            document = self._codec(prefix).document(payload)
            text = encode_document(document if self._mapping is None else self._mapping.apply(document, record))
        except ValueError as error:
            raise Rejected(
                Reason.UNDECODABLE, f"the message is not {self._name} of its schema: {shown(str(error))}"
            ) from None
        try:
            return examine_json(text, record, rules, default_kind)
        except Rejected as rejected:
            if self._mapping is None or rejected.reason is not Reason.MISSING_KEY:
                raise
            raise Rejected(rejected.reason, f"{rejected.detail}; the mapping takes {self._mapping}") from None

    def _decode_group(self, codec: Codec, payloads: Payloads, records: Sequence[Record]) -> list[Event | None]:
        mapping = self._mapping
        columns = None if mapping is not None else codec.columns(payloads.values)
        if columns is not None:
            return read_events(columns, len(payloads.values))
        documents: dict[int, Document] = {}
        for at, payload in enumerate(payloads.values):
            try:
                document = codec.document(payload)
            except ValueError:
                continue
            documents[at] = document if mapping is None else mapping.apply(document, records[payloads.rows[at]])
        events: list[Event | None] = [None] * len(payloads.values)
        columns = columns_of(list(documents.values()))
        if documents and columns is not None:
            for at, event in zip(documents, read_events(columns, len(documents)), strict=True):
                events[at] = event
        return events

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
