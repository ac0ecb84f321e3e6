"""Avro and Protobuf to columns, beside fastavro and Google's runtime, which make an object of each, and JSON."""

import io
import json
from collections.abc import Sequence

import fastavro
import numpy as np
import pytest
from google.protobuf import message_factory
from google.protobuf.json_format import MessageToDict, ParseDict

from monitor.events.codec import Decoder
from monitor.events.encode import encode_prediction
from monitor.events.formats import avro, protobuf
from monitor.events.formats.base import Messages
from monitor.events.formats.json_schema import make_mapped_json
from monitor.events.mapping import FieldMapping
from monitor.events.model import Kind, RecordBatch
from monitor.events.schema_format import SchemaFormat
from monitor.events.schemas import Framed, Schema, SchemaId, Unframed
from monitor.events.strata import Strata
from tests.benchmarks.test_codec_benchmark import BATCH, EVENTS, POLICY, best_seconds
from tests.events.messages import NOW_MS, Message
from tests.events.test_mapped_columns import OneByOne

PROTO = """
syntax = "proto3";
message Prediction {
  string type = 1;
  string model = 2;
  string id = 3;
  int64 ts = 4;
  optional double p = 5;
  optional string version = 6;
  map<string, string> segments = 7;
}
"""
SCHEMA = {
    "type": "record",
    "name": "Prediction",
    "fields": [
        {"name": "type", "type": "string"},
        {"name": "model", "type": "string"},
        {"name": "id", "type": "string"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "p", "type": "double"},
        {"name": "version", "type": ["null", "string"]},
        {"name": "segments", "type": {"type": "map", "values": "string"}},
    ],
}


class Schemas:
    """A registry of two schemas."""

    def schema(self, identifier: SchemaId) -> Schema:
        return Schema("AVRO", json.dumps(SCHEMA)) if identifier == 1 else Schema("PROTOBUF", PROTO)


def predictions() -> list[bytes]:
    """Predictions of 7 fields of three models, ids like UUIDs, two segments, as JSON."""
    rng = np.random.default_rng(5)
    return [
        encode_prediction(
            ("churn", "fraud", "clicks")[at % 3],
            rng.bytes(16).hex(),
            NOW_MS - at,
            score,
            version="7",
            segments={"region": ("eu", "us", "ap")[at % 3], "plan": "abcd"[at % 4]},
        )
        for at, score in enumerate(rng.random(EVENTS))
    ]


def batches(topic: str, values: Sequence[bytes]) -> list[RecordBatch]:
    messages = [Message(value, offset=at, timestamp=NOW_MS) for at, value in enumerate(values)]
    return [RecordBatch(topic, 0, messages[at : at + BATCH], at + BATCH) for at in range(0, EVENTS, BATCH)]


def as_avro(values: Sequence[bytes]) -> list[bytes]:
    """The events as Avro, behind the prefix of the first schema."""
    parsed = fastavro.parse_schema(SCHEMA)
    messages = []
    for value in values:
        written = io.BytesIO(b"\0\0\0\0\1")
        written.seek(5)
        fastavro.schemaless_writer(written, parsed, json.loads(value))
        messages.append(written.getvalue())
    return messages


@pytest.mark.benchmark
def test_decoding_beside_fastavro_the_protobuf_runtime_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    events = predictions()
    parsed = fastavro.parse_schema(SCHEMA)
    avro_values = as_avro(events)
    (message_type,) = protobuf.compile_schema(Schema("PROTOBUF", PROTO), framed=True)._types  # type: ignore[attr-defined]
    message = message_factory.GetMessageClass(message_type)
    protobuf_values = [
        b"\0\0\0\0\2\0" + ParseDict(json.loads(value), message()).SerializeToString() for value in events
    ]
    formats = {"avro": avro.make_format(Framed(Schemas())), "protobuf": protobuf.make_format(Framed(Schemas()))}
    decoder = Decoder(formats=formats)

    def decode_all(work: Sequence[RecordBatch]) -> list[np.ndarray]:
        strata = Strata(lambda _: POLICY)
        return [decoder.decode(batch, strata, Kind.PREDICTION).columns.id_hash for batch in work]

    def to_events(work: Sequence[RecordBatch]) -> list[object]:
        return [formats[batch.topic].decode(Messages.of(batch.records, 1 << 20)) for batch in work]

    def cut(values: Sequence[bytes]) -> list[bytes]:
        return [value if at % 100 else value[:-5] for at, value in enumerate(values)]

    json_work, avro_work, protobuf_work = (
        batches("json", events), batches("avro", avro_values), batches("protobuf", protobuf_values),
    )  # fmt: skip
    dirty_avro, dirty_protobuf = batches("avro", cut(avro_values)), batches("protobuf", cut(protobuf_values))
    for work in (avro_work, protobuf_work):
        for ours, theirs in zip(decode_all(work), decode_all(json_work), strict=True):
            assert ours.tobytes() == theirs.tobytes()
    rate = {
        "fastavro alone": lambda: [fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed) for value in avro_values],
        "Avro to events": lambda: to_events(avro_work),
        "Avro to columns": lambda: decode_all(avro_work),
        "Avro, 1% bad": lambda: decode_all(dirty_avro),
        "protobuf alone": lambda: [MessageToDict(message.FromString(value[6:])) for value in protobuf_values],
        "protobuf, no dicts": lambda: [message.FromString(value[6:]) for value in protobuf_values],
        "Protobuf to events": lambda: to_events(protobuf_work),
        "Protobuf to columns": lambda: decode_all(protobuf_work),
        "Protobuf, 1% bad": lambda: decode_all(dirty_protobuf),
        "JSON to columns": lambda: decode_all(json_work),
    }
    per_second = {name: EVENTS / best_seconds(run) for name, run in rate.items()}
    with capsys.disabled():
        print(f"\ndecoding {EVENTS:,} predictions of 7 fields, {BATCH:,} a batch")
        for name, number in per_second.items():
            ratio = number / per_second["fastavro alone"]
            print(f"  {name:20s} {number:12,.0f} /s  {1e6 / number:6.2f} us each   {ratio:5.2f} x fastavro")
    # Generous: other work may share the machine.
    assert per_second["Avro to columns"] > 1.5 * per_second["fastavro alone"]
    assert per_second["Protobuf to columns"] > 1.5 * per_second["protobuf alone"]


SCORED = {
    "type": "record",
    "name": "Scored",
    "fields": [
        {
            "name": "request",
            "type": {
                "type": "record",
                "name": "Request",
                "fields": [
                    {"name": "id", "type": "string"},
                    {
                        "name": "customer",
                        "type": {
                            "type": "record",
                            "name": "Customer",
                            "fields": [{"name": "region", "type": ["null", "string"]}],
                        },
                    },
                ],
            },
        },
        {"name": "scores", "type": {"type": "array", "items": "double"}},
        {"name": "created_at", "type": "double"},
        {
            "name": "inputs",
            "type": {
                "type": "record",
                "name": "Inputs",
                "fields": [{"name": "amount", "type": "double"}, {"name": "age", "type": "int"}],
            },
        },
    ],
}
MAPPING = FieldMapping(
    keys={"model": "=churn", "version": "$header.model-version", "id": "request.id", "ts": "created_at"},
    p=["scores[1]"],
    features=["inputs.amount", "inputs.age"],
    segments={"region": "request.customer.region"},
    ts_unit="seconds",
)
WITHOUT_DETAILS = FieldMapping(
    keys={"model": "=churn", "id": "request.id", "ts": "created_at"},
    p=["scores[1]"],
    segments={"region": "request.customer.region"},
    ts_unit="seconds",
)


@pytest.mark.benchmark
def test_decoding_mapped_messages_beside_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    """The first example of docs/mapping.md, and the same without features and a header."""
    rng = np.random.default_rng(5)
    parsed = fastavro.parse_schema(SCORED)
    avro_values, json_values = [], []
    for at, score in enumerate(rng.random(EVENTS)):
        message = {
            "request": {"id": rng.bytes(16).hex(), "customer": {"region": ("eu", "us", "ap")[at % 3]}},
            "scores": [1 - score, score],
            "created_at": (NOW_MS - at) / 1000,
            "inputs": {"amount": 12.5 + at, "age": at % 80},
        }
        written = io.BytesIO()
        fastavro.schemaless_writer(written, parsed, message)
        avro_values.append(written.getvalue())
        json_values.append(json.dumps(message).encode())
    schema = Schema("AVRO", json.dumps(SCORED))
    one_by_one = SchemaFormat("Avro", Unframed(schema), lambda of: OneByOne(avro.compile_schema(of)), MAPPING)
    decoder = Decoder(
        formats={
            "avro": avro.make_format(Unframed(schema), MAPPING),
            "simpler": avro.make_format(Unframed(schema), WITHOUT_DETAILS),
            "one by one": one_by_one.format,
            "json": make_mapped_json(MAPPING),
        }
    )

    def work_of(topic: str, values: Sequence[bytes]) -> list[RecordBatch]:
        headers = [] if topic == "simpler" else [("model-version", b"7")]
        messages = [Message(value, headers, offset=at, timestamp=NOW_MS) for at, value in enumerate(values)]
        return [RecordBatch(topic, 0, messages[at : at + BATCH], at + BATCH) for at in range(0, EVENTS, BATCH)]

    def decode_all(work: Sequence[RecordBatch]) -> list[np.ndarray]:
        strata = Strata(lambda _: POLICY)
        return [decoder.decode(batch, strata, Kind.PREDICTION).columns.id_hash for batch in work]

    work = {topic: work_of(topic, json_values if topic == "json" else avro_values) for topic in decoder._formats}
    for batches_of_topic in work.values():
        for ours, theirs in zip(decode_all(batches_of_topic), decode_all(work["one by one"]), strict=True):
            assert ours.tobytes() == theirs.tobytes()
    per_second = {topic: EVENTS / best_seconds(lambda topic=topic: decode_all(work[topic])) for topic in work}  # type: ignore[misc]
    with capsys.disabled():
        print(f"\ndecoding {EVENTS:,} mapped predictions to columns, {BATCH:,} a batch")
        for topic, number in per_second.items():
            print(f"  {topic:12s} {number:12,.0f} /s   {number / per_second['one by one']:5.2f} x one by one")
    assert per_second["avro"] > 1.5 * per_second["one by one"]
