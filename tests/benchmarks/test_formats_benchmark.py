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
from monitor.events.model import Kind, RecordBatch
from monitor.events.schemas import Framed, Schema, SchemaId
from monitor.events.strata import Strata
from tests.benchmarks.test_codec_benchmark import BATCH, EVENTS, POLICY, best_seconds
from tests.events.messages import NOW_MS, Message

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
