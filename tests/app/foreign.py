"""Messages of another team: fields of their own, by Confluent's serialisers for Avro, Protobuf and JSON Schema."""

import base64
import json
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

Foreign = dict[str, Any]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_TIME: Final = {"type": "long", "logicalType": "timestamp-micros"}
_CUSTOMER: Final = {"type": "record", "name": "Customer", "fields": [{"name": "region", "type": ["null", "string"]}]}
_SCORES: Final = {
    "type": "record",
    "name": "Probabilities",
    "fields": [{"name": "negative", "type": "double"}, {"name": "positive", "type": "double"}],
}
_VERDICT: Final = {"type": "enum", "name": "Verdict", "symbols": ["good", "bad"]}
_SCORE: Final = [
    {"name": "request_id", "type": "string"},
    {"name": "scored_at", "type": _TIME},
    {"name": "model_name", "type": "string"},
    {"name": "model_version", "type": "string"},
    {"name": "customer", "type": ["null", _CUSTOMER], "default": None},
    {"name": "scores", "type": _SCORES},
    {"name": "inputs", "type": ["null", {"type": "array", "items": "double"}], "default": None},
    {"name": "note", "type": ["null", "string"], "default": None},
]
AVRO: Final = {
    "scores": _SCORE,
    "cases": [
        {"name": "request_id", "type": "string"},
        {"name": "decided_at", "type": _TIME},
        {"name": "model_name", "type": "string"},
        {"name": "verdict", "type": _VERDICT},
    ],
    "decisions": [*_SCORE, {"name": "verdict", "type": _VERDICT}],
}
PROTO: Final = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
enum Verdict { unknown = 0; good = 1; bad = 2; }
message Case {
  string request_id = 1;
  google.protobuf.Timestamp decided_at = 2;
  string model_name = 3;
  Verdict verdict = 4;
}
message Score {
  message Customer { string region = 1; }
  message Scores { double negative = 1; double positive = 2; }
  string request_id = 1;
  google.protobuf.Timestamp scored_at = 2;
  string model_name = 3;
  string model_version = 4;
  Customer customer = 5;
  Scores scores = 6;
  repeated double inputs = 7;
  optional string note = 8;
}
message Decision {
  string request_id = 1;
  google.protobuf.Timestamp scored_at = 2;
  string model_name = 3;
  string model_version = 4;
  Score.Customer customer = 5;
  Score.Scores scores = 6;
  repeated double inputs = 7;
  Verdict verdict = 8;
}
"""
JSON_SCHEMA: Final = {
    "scores": {
        "title": "Score",
        "type": "object",
        "properties": {
            "request_id": {"type": "string"},
            "scored_at": {"type": "string", "format": "date-time"},
            "scores": {
                "type": "object",
                "properties": {"negative": {"type": "number"}, "positive": {"type": "number"}},
            },
            "note": {"type": ["string", "null"]},
        },
    },
    "cases": {"title": "Case", "type": "object", "properties": {"verdict": {"enum": ["good", "bad"]}}},
    "decisions": {"title": "Decision", "type": "object", "properties": {"verdict": {"enum": ["good", "bad"]}}},
}
_OF_SCORE: Final = {
    "model": "model_name",
    "version": "model_version",
    "id": "request_id",
    "ts": "scored_at",
    "p": "scores.positive",
    "features": "inputs",
    "segments": {"region": "customer.region"},
}
_OF_VERDICT: Final = {"y": "verdict", "positive": ["bad"], "negative": ["good"]}
MAPPINGS: Final[Mapping[str, dict[str, Any]]] = {
    "scores": _OF_SCORE,
    "cases": {"model": "model_name", "id": "request_id", "ts": "decided_at", **_OF_VERDICT},
    "decisions": {**_OF_SCORE, **_OF_VERDICT},
}
"""How the topics are read."""

FORMATS: Final = ("avro", "protobuf", "json_schema")


def as_foreign(value: bytes) -> tuple[str, Foreign]:
    """The topic and the fields of an event that is given as JSON: scores, cases, or both in one as decisions."""
    event = json.loads(value)
    at = _EPOCH + timedelta(milliseconds=event["ts"])
    verdict = {"verdict": "bad" if event["y"] else "good"} if "y" in event else {}
    both = {"request_id": event["id"], "model_name": event["model"]}
    if "p" not in event:
        return "cases", {**both, "decided_at": at, **verdict}
    features = event.get("features")
    if isinstance(features, str):
        features = np.frombuffer(base64.b64decode(features), "<f4").tolist()
    return "decisions" if verdict else "scores", {
        **both,
        **verdict,
        "scored_at": at,
        "model_version": event["version"],
        "customer": event.get("segments"),
        "scores": {"negative": 1 - event["p"], "positive": event["p"]},
        "inputs": features,
    }


def serialiser(format_: str, topic: str, client: SchemaRegistryClient, name: str) -> Callable[[Foreign], bytes]:
    """What a producer of a topic serialises its messages with, for the Kafka topic ``name``."""
    context = SerializationContext(name, MessageField.VALUE)
    if format_ == "avro":
        schema = {"type": "record", "name": topic.title(), "namespace": "shop", "fields": AVRO[topic]}
        avro = AvroSerializer(client, json.dumps(schema))
        return lambda message: avro(message, context)
    if format_ == "json_schema":
        json_ = JSONSerializer(json.dumps(JSON_SCHEMA[topic]), client)
        return lambda message: json_({key: _plain(value) for key, value in message.items()}, context)
    make = message_factory.GetMessageClass(_protobuf_types().FindMessageTypeByName(f"shop.{topic.title()[:-1]}"))
    protobuf = ProtobufSerializer(make, client)
    return lambda message: protobuf(make(**{k: v for k, v in message.items() if v is not None}), context)


def _plain(value: Any) -> Any:
    return value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else value


@cache
def _protobuf_types() -> descriptor_pool.DescriptorPool:
    """The types, compiled as a producer would."""
    with tempfile.TemporaryDirectory() as folder:
        file, compiled = Path(folder, "foreign.proto"), Path(folder, "set")
        file.write_text(PROTO)
        well_known = Path(protoc.__file__).parent / "_proto"
        options = [f"-I{folder}", f"-I{well_known}", "--include_imports", f"--descriptor_set_out={compiled}"]
        assert protoc.main(["", *options, file.name]) == 0
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    for descriptor in files:
        pool.Add(descriptor)
    return pool
