"""All formats to checked, hashed columns, beside the decoders that they rest on, which check and hash nothing."""

import io
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import numpy as np
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from monitor.events.codec import Decoder
from monitor.events.encode import encode_prediction
from monitor.events.formats import avro, json_schema, messagepack, protobuf
from monitor.events.formats.base import Format
from monitor.events.formats.json_schema import make_mapped_json
from monitor.events.model import Headers, Kind, RecordBatch
from monitor.events.schemas import Schema, Unframed
from monitor.events.strata import Strata
from tests.benchmarks.test_codec_benchmark import BATCH, EVENTS, POLICY, best_seconds
from tests.events.messages import NOW_MS, Message, mapping_of
from tests.events.test_protobuf_messages import class_of

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
SCHEMA: dict[str, Any] = {
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


def predictions() -> list[bytes]:
    """Predictions of 7 fields of three models, ids like UUIDs, two segments, as JSON."""
    rng = np.random.default_rng(5)
    return [
        encode_prediction(
            ("churn", "fraud", "clicks")[at % 3],
            rng.bytes(16).hex(),
            NOW_MS - at,
            round(float(score), 6),
            version="7",
            segments={"region": ("eu", "us", "ap")[at % 3], "plan": "abcd"[at % 4]},
        )
        for at, score in enumerate(rng.random(EVENTS))
    ]


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
MAPPING = mapping_of(
    keys={"model": "=churn", "version": "$header.model-version", "id": "request.id", "ts": "created_at"},
    p=["scores[1]"],
    features=["inputs.amount", "inputs.age"],
    segments={"region": "request.customer.region"},
    ts_unit="seconds",
)

SCORED_PROTO = """
syntax = "proto3";
message Scored {
  message Customer { optional string region = 1; }
  message Request { string id = 1; Customer customer = 2; }
  message Inputs { double amount = 1; int32 age = 2; }
  Request request = 1; repeated double scores = 2; double created_at = 3; Inputs inputs = 4;
}
"""
RICH = {
    **SCHEMA,
    "fields": [
        *(field for field in SCHEMA["fields"] if field["name"] != "p"),
        {"name": "p", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 6}},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 16}},
    ],
}
ENVELOPED = mapping_of(
    keys={"type": "data.type", "model": "data.model", "id": "data.id", "ts": "time", "version": "data.version"},
    p=["data.p"],
    segments={"region": "data.segments.region", "plan": "data.segments.plan"},
)
BATCHED = mapping_of(
    keys={"model": "=churn", "id": "instances[].id", "ts": "ts"},
    p=["instances[].p"],
    segments={"region": "instances[].region"},
)
LEAST = {"JSON mapped": 250_000, "JSON Schema": 250_000, "Avro": 250_000, "Avro decimal, fixed": 250_000}
LEAST |= {"CloudEvents": 250_000, "CloudEvents mapped": 250_000, "Protobuf": 200_000}
"""The aims: events a second of a processor of the machine of the tests, alone."""
PLAIN = 790_000
"""The same of plain JSON, by which the others are scaled where other work shares the machine."""


def as_avro(schema: Any, documents: Sequence[Any]) -> list[bytes]:
    parsed, messages = fastavro.parse_schema(schema), []
    for document in documents:
        written = io.BytesIO()
        fastavro.schemaless_writer(written, parsed, document)
        messages.append(written.getvalue())
    return messages


def make_cases() -> dict[str, tuple[Format | None, list[bytes], list[Headers]]]:
    """Format -> format, values, and headers of each."""
    rng = np.random.default_rng(5)
    events = predictions()
    documents = [json.loads(event) for event in events]
    foreign = [
        {
            "request": {"id": rng.bytes(16).hex(), "customer": {"region": ("eu", "us", "ap")[at % 3]}},
            "scores": [1 - score, score],
            "created_at": (NOW_MS - at) / 1000,
            "inputs": {"amount": 12.5 + at, "age": at % 80},
        }
        for at, score in enumerate(rng.random(EVENTS).tolist())
    ]
    envelope = {"specversion": "1.0", "id": "d", "source": "/s", "type": "shop.prediction"}
    times = [datetime.fromtimestamp(document["ts"] / 1000, UTC).isoformat() for document in documents]
    enveloped = [
        json.dumps(envelope | {"time": time, "data": document}).encode()
        for time, document in zip(times, documents, strict=True)
    ]
    rows = [
        json.dumps({"ts": document["ts"], "instances": [{"id": document["id"], "p": document["p"], "region": "eu"}]})
        for document in documents
    ]
    rich = [document | {"p": Decimal(str(document["p"])), "digest": bytes(16)} for document in documents]
    schema, rich_schema, scored = (Unframed(Schema("AVRO", json.dumps(of))) for of in (SCHEMA, RICH, SCORED))
    proto, scored_proto = (Schema("PROTOBUF", text) for text in (PROTO, SCORED_PROTO))
    none: list[Headers] = [()] * EVENTS
    version: list[Headers] = [[("model-version", b"7")]] * EVENTS
    in_headers: list[Headers] = [
        [*((f"ce_{name}", value.encode()) for name, value in envelope.items()), ("ce_time", time.encode())]
        for time in times
    ]
    cases: dict[str, tuple[Format | None, list[bytes], list[Headers]]] = {
        "JSON": (None, events, none),
        "JSON mapped": (make_mapped_json(MAPPING), [json.dumps(of).encode() for of in foreign], version),
        "JSON mapped, batch": (make_mapped_json(BATCHED), [row.encode() for row in rows], none),
        "JSON Schema": (json_schema.make_format(None), [b"\0\0\0\0\1" + event for event in events], none),
        "CloudEvents": (None, enveloped, none),
        "CloudEvents, binary": (None, events, in_headers),
        "CloudEvents mapped": (make_mapped_json(ENVELOPED), enveloped, none),
        "MessagePack": (messagepack.make_format(None), [*map(msgspec.msgpack.encode, documents)], none),
        "Avro": (avro.make_format(schema), as_avro(SCHEMA, documents), none),
        "Avro decimal, fixed": (avro.make_format(rich_schema), as_avro(RICH, rich), none),
        "Avro mapped": (avro.make_format(scored, MAPPING), as_avro(SCORED, foreign), version),
    }
    for name, of, mapping, written, headers in (
        ("Protobuf", proto, None, documents, none),
        ("Protobuf mapped", scored_proto, MAPPING, foreign, version),
    ):
        message = class_of(of)
        values = [ParseDict(document, message()).SerializeToString() for document in written]
        cases[name] = (protobuf.make_format(Unframed(of), mapping), values, headers)
    return cases


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
def test_decoding_all_formats(capsys: pytest.CaptureFixture[str]) -> None:
    cases = make_cases()

    def decode_all(name: str, values: Sequence[bytes]) -> Callable[[], int]:
        form, _, headers = cases[name]
        decoder = Decoder(formats={} if form is None else {"topic": form})
        messages = [
            Message(value, of, offset=at, timestamp=NOW_MS)  # type: ignore[arg-type]
            for at, (value, of) in enumerate(zip(values, headers, strict=True))
        ]
        work = [RecordBatch("topic", 0, messages[at : at + BATCH], at + BATCH) for at in range(0, EVENTS, BATCH)]

        def run() -> int:
            strata = Strata(lambda _: POLICY)
            return sum(len(decoder.decode(batch, strata, Kind.PREDICTION).columns) for batch in work)

        return run

    json_values, avro_values, protobuf_values = (cases[name][1] for name in ("JSON", "Avro", "Protobuf"))
    parsed, message = fastavro.parse_schema(SCHEMA), class_of(Schema("PROTOBUF", PROTO))
    to_mapping = msgspec.json.Decoder(dict[str, Any]).decode
    peers: dict[str, Callable[[], object]] = {
        "msgspec, to dicts": lambda: [*map(to_mapping, json_values)],
        "fastavro, to dicts": lambda: [fastavro.schemaless_reader(io.BytesIO(value), parsed) for value in avro_values],
        "protobuf, to objects": lambda: [*map(message.FromString, protobuf_values)],
        "protobuf, to dicts": lambda: [MessageToDict(message.FromString(value)) for value in protobuf_values],
    }
    per_second = {}
    for name, (_, values, _) in cases.items():
        dirty = [value if at % 100 else value[:-5] for at, value in enumerate(values)]
        clean_run, dirty_run = decode_all(name, values), decode_all(name, dirty)
        assert clean_run() == EVENTS
        assert dirty_run() == EVENTS - EVENTS // 100
        per_second[name] = (EVENTS / best_seconds(clean_run), EVENTS / best_seconds(dirty_run))
    of_peers = {name: EVENTS / best_seconds(run) for name, run in peers.items()}
    speed = per_second["JSON"][0] / PLAIN
    with capsys.disabled():
        print(f"\ndecoding {EVENTS:,} predictions, {BATCH:,} a batch; this machine now: {speed:.2f} of its speed alone")
        for name, (clean, bad) in per_second.items():
            print(f"  {name:22s} {clean:11,.0f} /s   1% bad: {bad:11,.0f} /s")
        for name, rate in of_peers.items():
            print(f"  {name:22s} {rate:11,.0f} /s")
    # Half: other work may share the machine.
    slow = {name: per_second[name][0] for name, least in LEAST.items() if per_second[name][0] < least * speed / 2}
    assert not slow
