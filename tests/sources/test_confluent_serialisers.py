"""What Confluent's serialisers write with a real registry is read as the same event as JSON."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pool import DescriptorPool

from monitor.clock import SystemClock
from monitor.events.formats import avro, json_schema, protobuf
from monitor.events.formats.base import Format
from monitor.events.schemas import Framed
from monitor.sources.schema_registry import RegistrySettings, SchemaRegistry
from tests.events.messages import decode
from tests.events.test_avro import assert_same, record
from tests.events.test_schema_formats import EVENT, as_json, decoder_of, messages, parsed
from tests.real.registry import SchemaRegistryServer

__all__ = ["messages"]

JSON_SCHEMA = {"title": "Event", "type": "object", "properties": {key: {} for key in EVENT}}

Serialise = Callable[[SchemaRegistryClient, DescriptorPool, SerializationContext], bytes]


def by_avro(client: SchemaRegistryClient, _: DescriptorPool, context: SerializationContext) -> bytes:
    return AvroSerializer(client, json.dumps(record()))({"y": None, **EVENT}, context)  # type: ignore[no-any-return]


def by_protobuf(client: SchemaRegistryClient, pool: DescriptorPool, context: SerializationContext) -> bytes:
    """Of a type within a type, with an import of a type that is well known."""
    message = parsed(pool, "shop.Outer.Event", EVENT)
    return ProtobufSerializer(type(message), client)(message, context)  # type: ignore[no-any-return]


def by_json_schema(client: SchemaRegistryClient, _: DescriptorPool, context: SerializationContext) -> bytes:
    return JSONSerializer(json.dumps(JSON_SCHEMA), client)(EVENT, context)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("serialise", "make_format"),
    [
        (by_avro, avro.make_format),
        (by_protobuf, protobuf.make_format),
        (by_json_schema, json_schema.make_format),
    ],
)
def test_an_event_is_what_it_is_as_json(
    schema_registry: SchemaRegistryServer,
    messages: DescriptorPool,
    tmp_path: Path,
    serialise: Serialise,
    make_format: Callable[[Any], Format],
) -> None:
    context = SerializationContext(f"topic-{uuid.uuid4()}", MessageField.VALUE)
    with schema_registry.client() as client:
        value = serialise(client, messages, context)
    registry = SchemaRegistry(RegistrySettings(url=schema_registry.url, cache=str(tmp_path)), clock=SystemClock())
    decoded = decode(value, decoder=decoder_of(make_format(Framed(registry))))
    assert [letter.detail for letter in decoded.dead_letters] == []
    assert_same(decoded, as_json(EVENT))
    registry.close()
