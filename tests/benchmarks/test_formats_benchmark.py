"""Avro messages to columns, beside fastavro, which makes a dictionary of each, and the same events as JSON."""

import io
import json
from collections.abc import Sequence

import fastavro
import numpy as np
import pytest

from monitor.events.codec import Decoder
from monitor.events.encode import encode_prediction
from monitor.events.formats.avro import make_format
from monitor.events.formats.base import Messages
from monitor.events.model import Kind, RecordBatch
from monitor.events.schemas import Framed, Schema, SchemaId
from monitor.events.strata import Strata
from tests.benchmarks.test_codec_benchmark import BATCH, EVENTS, POLICY, best_seconds
from tests.events.messages import NOW_MS, Message

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


class OneSchema:
    """A registry of one schema."""

    def schema(self, identifier: SchemaId) -> Schema:
        return Schema("AVRO", json.dumps(SCHEMA))


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


@pytest.mark.benchmark
def test_decoding_avro_beside_fastavro_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    as_json = predictions()
    parsed = fastavro.parse_schema(SCHEMA)
    as_avro = []
    for value in as_json:
        written = io.BytesIO(b"\0\0\0\0\1")
        written.seek(5)
        fastavro.schemaless_writer(written, parsed, json.loads(value))
        as_avro.append(written.getvalue())
    avro = make_format(Framed(OneSchema()))
    decoder = Decoder(formats={"avro": avro})

    def decode_all(work: Sequence[RecordBatch]) -> list[np.ndarray]:
        strata = Strata(lambda _: POLICY)
        return [decoder.decode(batch, strata, Kind.PREDICTION).columns.id_hash for batch in work]

    avro_work, json_work = batches("avro", as_avro), batches("json", as_json)
    dirty_work = batches("avro", [value if at % 100 else value[:-5] for at, value in enumerate(as_avro)])
    for ours, theirs in zip(decode_all(avro_work), decode_all(json_work), strict=True):
        assert ours.tobytes() == theirs.tobytes()
    rate = {
        "fastavro alone": lambda: [fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed) for value in as_avro],
        "Avro to events": lambda: [avro.decode(Messages.of(batch.records, 1 << 20)) for batch in avro_work],
        "Avro to columns": lambda: decode_all(avro_work),
        "Avro, 1% bad": lambda: decode_all(dirty_work),
        "JSON to columns": lambda: decode_all(json_work),
    }
    per_second = {name: EVENTS / best_seconds(run) for name, run in rate.items()}
    with capsys.disabled():
        print(f"\ndecoding {EVENTS:,} predictions of 7 fields, {BATCH:,} a batch")
        for name, number in per_second.items():
            ratio = number / per_second["fastavro alone"]
            print(f"  {name:16s} {number:12,.0f} /s  {1e6 / number:6.2f} us each   {ratio:5.2f} x fastavro")
    # Generous: other work may share the machine.
    assert per_second["Avro to columns"] > 1.5 * per_second["fastavro alone"]
