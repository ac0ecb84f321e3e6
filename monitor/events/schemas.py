"""Schemas of messages: which one each message was written with, and where it comes from.

Three ways to name the schema, those of Confluent's serialisers:

- in front of the payload, the byte 0 and the schema's id, 4 bytes, big endian;
- in front of the payload, the byte 1 and the schema's GUID, 16 bytes;
- the same bytes in the header ``__value_schema_id``; the value is then the payload alone.

Or none: every message of the topic was written with the schema of one file.

Source: confluentinc/confluent-kafka-python, ``schema_registry/common/serde.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from monitor.events.fields import Rejected
from monitor.events.formats.base import Messages
from monitor.events.model import Headers, Reason, Record

SchemaId = int | UUID

HEADER: Final = "__value_schema_id"
_LENGTHS: Final = {0: 5, 1: 17}
"""Length of a prefix by its first byte."""


class Reference(NamedTuple):
    """A schema that another one uses."""

    name: str
    """Its full name (Avro), or the path by which it is imported (Protobuf)."""
    text: str


class Schema(NamedTuple):
    """A schema, as written."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: tuple[Reference, ...] = ()
    """All that it uses, directly or not; each stands behind those that it uses itself."""
    message: str | None = None
    """Name of the messages' type, of a schema that has several and whose messages do not say which."""


NO_SCHEMA: Final = Schema("", "")


class Registry(Protocol):
    """Knows schemas by id."""

    def schema(self, identifier: SchemaId) -> Schema | None:
        """The schema of this id; None if the registry says that there is none.

        Raises
        ------
        SchemaUnavailable
            It cannot be had now.
        """
        ...


class Payloads(NamedTuple):
    """Messages of one schema."""

    rows: Sequence[int]
    values: Sequence[bytes]
    """Their payloads, without the prefix."""


class Framed:
    """Messages that name their schema, which a registry knows.

    Parameters
    ----------
    registry
        Knows the schemas.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def group(self, messages: Messages) -> Mapping[bytes, Payloads]:
        """The messages by their prefix; those without a valid one are left out."""
        values = messages.values
        if not messages.have_headers:
            prefixes = {value[:5] for value in values}
            if len(prefixes) == 1 and _is_whole(prefix := prefixes.pop()):
                return {prefix: Payloads(range(len(values)), [value[5:] for value in values])}
        groups: dict[bytes, tuple[list[int], list[bytes]]] = {}
        for row, (record, value) in enumerate(zip(messages.records, values, strict=True)):
            prefix, payload = _split(record.headers, value)
            if _is_whole(prefix):
                rows, payloads = groups.setdefault(prefix, ([], []))
                rows.append(row)
                payloads.append(payload)
        return {prefix: Payloads(*group) for prefix, group in groups.items()}

    def split(self, record: Record, value: bytes) -> tuple[bytes, bytes]:
        """The prefix and the payload of one message.

        Raises
        ------
        Rejected
            ``INVALID_FRAME``.
        """
        prefix, payload = _split(record.headers, value)
        if not _is_whole(prefix):
            begin = value[:5].hex(" ") or "nothing"
            raise Rejected(
                Reason.INVALID_FRAME,
                f"the message must begin with the byte 0 and a schema's id of 4 bytes, or with the byte 1 and a GUID "
                f"of 16, or have them in the header {HEADER}; it begins with {begin}"
                + ("; this looks like JSON: is its format json?" if value[:1] in (b"{", b"[") else ""),
            )
        return prefix, payload

    def schema(self, prefix: bytes) -> Schema:
        """The schema of a prefix.

        Raises
        ------
        Rejected
            ``UNKNOWN_SCHEMA``: the registry has none of this id.
        SchemaUnavailable
            It cannot be had now.
        """
        identifier: SchemaId = int.from_bytes(prefix[1:]) if prefix[0] == 0 else UUID(bytes=prefix[1:])
        schema = self._registry.schema(identifier)
        if schema is None:
            raise Rejected(
                Reason.UNKNOWN_SCHEMA,
                f"the schema registry has no schema of id {identifier}; is source.registry.url that of the producer?",
            )
        return schema


class Prefixed(Framed):
    """Messages that name a schema which is not needed to read them."""

    def __init__(self) -> None:
        """Needs no registry."""

    def schema(self, prefix: bytes) -> Schema:  # noqa: ARG002 - whichever it is
        """No schema."""
        return NO_SCHEMA


class Unframed:
    """Messages without a prefix, all of one schema.

    Parameters
    ----------
    schema
        The schema.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def group(self, messages: Messages) -> Mapping[bytes, Payloads]:
        """All messages that have a value."""
        rows = [row for row, value in enumerate(messages.values) if value]
        return {b"": Payloads(rows, [messages.values[row] for row in rows])} if rows else {}

    def split(self, record: Record, value: bytes) -> tuple[bytes, bytes]:  # noqa: ARG002 - the value is the payload
        """No prefix, and the payload."""
        return b"", value

    def schema(self, prefix: bytes) -> Schema:  # noqa: ARG002 - there is one
        """The schema."""
        return self._schema


def _split(headers: Headers, value: bytes) -> tuple[bytes, bytes]:
    for name, prefix in headers or ():
        if name == HEADER:
            return prefix or b"", value
    length = _LENGTHS.get(value[0], 0) if value else 0
    return value[:length], value[length:]


def _is_whole(prefix: bytes) -> bool:
    return bool(prefix) and len(prefix) == _LENGTHS.get(prefix[0])
