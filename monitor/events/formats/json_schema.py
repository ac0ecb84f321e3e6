"""JSON behind the prefix of a schema registry, as Confluent's serialiser for JSON Schema writes it.

The schema restricts what producers may write. It is not needed to read it, and no registry is asked.
"""

from typing import Final

import msgspec

from monitor.events.formats.base import Format
from monitor.events.mapping import FieldMapping
from monitor.events.schema_format import DocumentCodec, SchemaFormat
from monitor.events.schemas import NO_SCHEMA, Prefixed, Unframed

NAME: Final = "json_schema"


def make_format(_: object, mapping: FieldMapping | None = None) -> Format:
    """The format; it needs no schemas."""
    return SchemaFormat("JSON", Prefixed(), lambda _: DocumentCodec(msgspec.json, mapping), mapping).format


def make_mapped_json(mapping: FieldMapping) -> Format:
    """JSON without a prefix, whose keys are elsewhere."""
    return SchemaFormat("JSON", Unframed(NO_SCHEMA), lambda _: DocumentCodec(msgspec.json, mapping), mapping).format
