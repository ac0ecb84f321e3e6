"""MessagePack: each message is a map with the keys of an event.

Source: https://github.com/msgpack/msgpack/blob/master/spec.md
"""

from typing import Final

import msgspec

from monitor.events.formats.base import Format
from monitor.events.mapping import FieldMapping
from monitor.events.schema_format import DocumentCodec, SchemaFormat
from monitor.events.schemas import NO_SCHEMA, Unframed

NAME: Final = "messagepack"


def make_format(_: object, mapping: FieldMapping | None = None) -> Format:
    """The format; it has no schemas."""
    return SchemaFormat(
        "MessagePack", Unframed(NO_SCHEMA), lambda _: DocumentCodec(msgspec.msgpack, mapping), mapping
    ).format
