"""Avro on Spark: executors decode it by the service's codec, to the closings and counts of the same events as JSON."""

import io
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from pyspark.sql import SparkSession

from monitor.events.codec import Decoder
from monitor.events.formats import load_schema_formats
from monitor.events.model import Kind
from monitor.events.schemas import Schema, Unframed
from monitor.spark.stream import STATE_STORE, checkpoints, decode_checkpoint
from monitor.stream.partition import PartitionSettings
from tests.real.mixed_log import OUTCOMES, POLICY, PREDICTIONS, SLIDE_MS, START_MS, MixedLog
from tests.spark.test_watermark import FIELDS, SCHEMA, collected, write_part

SETTINGS = PartitionSettings(policy=lambda _: POLICY, kept_ms={SLIDE_MS: 10**9})
KINDS = {PREDICTIONS: Kind.PREDICTION, OUTCOMES: Kind.OUTCOME}
AVRO = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "model", "type": "string"},
        {"name": "id", "type": "string"},
        {"name": "ts", "type": "long"},
        {"name": "p", "type": ["null", "double"], "default": None},
        {"name": "y", "type": ["null", "int"], "default": None},
        {"name": "version", "type": ["null", "string"], "default": None},
        {"name": "segments", "type": ["null", {"type": "map", "values": "string"}], "default": None},
    ],
}


def make_avro_decoder() -> Decoder:
    avro = load_schema_formats()["avro"](Unframed(Schema("AVRO", json.dumps(AVRO))), None)
    return Decoder(formats=dict.fromkeys(KINDS, avro))


def as_avro(value: bytes) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, json.loads(value))
    return out.getvalue()


def encoded_checkpoints(
    spark: SparkSession, folder: Path, encode: Callable[[bytes], bytes], make_decoder: Callable[[], Decoder]
) -> Mapping[int, list[bytes]]:
    """Partition -> its checkpoints, encoded, of a log that is read in three batches."""
    lines = [line for line in MixedLog(3_000, 2, settled=True).lines if line.event is not None]
    source = folder / "source"
    source.mkdir(parents=True)
    offsets: dict[tuple[str, int], int] = {}
    rows: list[dict[str, Any]] = []
    for line in lines:
        where = line.topic, line.partition
        offsets[where] = offsets.get(where, -1) + 1
        rows.append(
            {
                "partition": line.partition,
                "topic": line.topic,
                "offset": offsets[where],
                "timestamp": (START_MS + 86_400_000) * 1000,
                "key": line.key,
                "value": encode(line.value),
                "headers": [{"key": "trace", "value": b"1"}],
            }
        )
    step = -(-len(rows) // 3)
    for number in range(3):
        table = pa.Table.from_pylist(rows[number * step : (number + 1) * step], FIELDS)
        write_part(source / f"{number}.parquet", table, number)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    messages = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
    found: dict[int, list[bytes]] = {}
    for row in collected(checkpoints(messages, SETTINGS, KINDS, make_decoder), folder / "state"):
        found.setdefault(row.partition, []).append(bytes(row.checkpoint))
    return found


def test_avro_comes_to_what_json_comes_to(spark: SparkSession, tmp_path: Path) -> None:
    json_found = encoded_checkpoints(spark, tmp_path / "json", bytes, partial(Decoder))
    avro_found = encoded_checkpoints(spark, tmp_path / "avro", as_avro, make_avro_decoder)
    assert avro_found == json_found
    parts = [decode_checkpoint(data, 0) for of_partition in avro_found.values() for data in of_partition]
    closed = [closing for part in parts for closing in part.closings]
    assert sum(int(closing.panes.cells.values[:, :3].sum()) for closing in closed) > 1_000
    assert not any(part.dead_letters for part in parts)
