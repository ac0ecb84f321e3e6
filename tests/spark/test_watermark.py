"""What a late event is: for Spark what all partitions' newest row says, for us what the event's own log says.

The same rows, in three batches: the partition 1 is read an hour behind the partition 0.
"""

import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from monitor.events.codec import Decoder
from monitor.events.encode import encode_prediction
from monitor.events.model import ModelPolicy
from monitor.spark.stream import STATE_STORE, checkpoints, decode_checkpoint
from monitor.stream.partition import PartitionSettings

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
START_MS = 1_760_000_000_000
SETTINGS = PartitionSettings(
    policy=lambda _: ModelPolicy(horizon_ms=MINUTE_MS, lateness_ms=MINUTE_MS), kept_ms={MINUTE_MS: HOUR_MS}
)
SCHEMA = (
    "partition int, topic string, offset long, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
FIELDS = pa.schema(
    [
        ("partition", pa.int32()),
        ("topic", pa.string()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
EACH = 20


def part(partition: int, first: int, from_ms: int) -> pa.Table:
    """Predictions of one partition, one a minute."""
    times_ms = [from_ms + number * MINUTE_MS for number in range(EACH)]
    rows: list[dict[str, Any]] = [
        {
            "partition": partition,
            "topic": "events",
            "offset": first + number,
            "timestamp": time_ms * 1000,
            "key": None,
            "value": encode_prediction("churn", f"{partition}-{time_ms}", time_ms, 0.25, version="1"),
            "headers": None,
        }
        for number, time_ms in enumerate(times_ms)
    ]
    return pa.Table.from_pylist(rows, FIELDS)


def write_part(path: Path, rows: pa.Table, number: int) -> None:
    """Write a file; Spark reads files in the order of their times."""
    pq.write_table(rows, path)
    os.utime(path, (number, number))


def collected(frame: DataFrame, folder: Path) -> list[Any]:
    """The rows of a streaming query that reads what there is, a file a batch."""
    rows: list[Any] = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return rows


def test_a_partition_that_is_behind_loses_rows_to_sparks_watermark_and_none_to_us(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    source = tmp_path / "source"
    source.mkdir()
    parts = [part(0, 0, START_MS + HOUR_MS), part(1, 0, START_MS), part(1, EACH, START_MS + EACH * MINUTE_MS)]
    for number, rows in enumerate(parts):
        write_part(source / f"{number}.parquet", rows, number)
    messages = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))

    by_id = messages.withColumn("id", F.col("value").cast("string")).withWatermark("timestamp", "2 minutes")
    theirs = collected(by_id.dropDuplicatesWithinWatermark(["id"]), tmp_path / "theirs")
    kinds = {"events": None}
    ours = collected(checkpoints(messages, SETTINGS, kinds, partial(Decoder)), tmp_path / "ours")

    # The batch behind the newest row is still read by the watermark before it; the next one is dropped, uncounted.
    assert Counter(row.partition for row in theirs) == {0: EACH, 1: EACH}
    last = {row.partition: decode_checkpoint(bytes(row.checkpoint), 0) for row in ours}
    accepted = {partition: found.counters["prediction", "accepted"] for partition, found in last.items()}
    assert accepted == {0: EACH, 1: 2 * EACH}
    assert all(found.counters["prediction", "late"] == 0 for found in last.values())
    closed = [closing for row in ours for closing in decode_checkpoint(bytes(row.checkpoint), 0).closings]
    assert {closing.to_ms - closing.pane_ms < START_MS + HOUR_MS for closing in closed} == {True, False}
