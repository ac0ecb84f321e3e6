"""The join in Spark's SQL against obvious loops: every result of an event, and every prediction with its outcome."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from monitor.errors import InputError
from monitor.events.model import Kind, ModelPolicy
from monitor.spark import join
from monitor.spark.join import Joined
from tests.reference.naive_join import NaiveEvent, NaiveJoin
from tests.stream.support import Traffic, unruly_events

POLICY = ModelPolicy(horizon_ms=5_000, lateness_ms=2_000, segments=("region",))
PARTITIONS = 3
FIRST_OFFSET = 1_760_000_000_000_000  # times of appending may be in its place, microseconds at the most
GAP = 100
"""Offsets from one event to the next, as in a compacted topic: some forty events are in a chunk."""


def logs(seed: int, size: int, policy: ModelPolicy = POLICY) -> list[tuple[int, list[NaiveEvent], list[NaiveEvent]]]:
    """Partition, its predictions and its outcomes, in the order of their logs."""
    rng = np.random.default_rng(seed)
    traffic = Traffic(models=("a",), ids=size // 25, disorder_ms=3_000)
    parts = []
    for partition in range(PARTITIONS):
        events = unruly_events(rng, size, policy, traffic)
        of = {kind: [event for event in events if event.kind is kind] for kind in Kind}
        first = of[Kind.PREDICTION][0]
        early = NaiveEvent(Kind.OUTCOME, "a", first.id, first.time_ms - policy.lateness_ms - 1, y=1)
        parts.append((partition, of[Kind.PREDICTION], [early, *of[Kind.OUTCOME]]))
    return parts


def rows(partition: int, events: list[NaiveEvent]) -> list[dict[str, Any]]:
    """The events as a sink lands them."""
    return [
        {
            "id": event.id,
            "ts": event.time_ms,
            "p": event.p,
            "y": event.y,
            "version": event.version,
            "region": dict(event.segments).get("region"),
            "partition": partition,
            "offset": FIRST_OFFSET + at * GAP,
        }
        for at, event in enumerate(events)
    ]


def landed(spark: SparkSession, folder: Path, parts: list[list[dict[str, Any]]], drop: list[str]) -> DataFrame:
    """Files of the rows, each of some partition and in no order."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    whole = [row for part in parts for row in part]
    table = pa.Table.from_pylist([whole[at] for at in rng.permutation(len(whole))]).drop(drop)
    for number, start in enumerate(range(0, len(whole), 1_000)):
        pq.write_table(table.slice(start, 1_000), folder / f"{number}.parquet")
    return spark.read.parquet(str(folder))


def joined_of(spark: SparkSession, folder: Path, parts: list[tuple[int, list[NaiveEvent], list[NaiveEvent]]]) -> Joined:
    predictions = landed(spark, folder / "p", [rows(number, of) for number, of, _ in parts], ["y"])
    outcomes = landed(spark, folder / "y", [rows(number, of) for number, _, of in parts], ["p", "version", "region"])
    return join(predictions, outcomes, horizon="5s", lateness="2s")


@pytest.mark.parametrize("seed", range(2))
def test_every_result_and_every_outcome_as_by_obvious_loops(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    parts = logs(seed, 3_000)
    expected: Counter[tuple[str, str]] = Counter()
    answered = {}
    for partition, predictions, outcomes in parts:
        naive = NaiveJoin(POLICY)
        for event in (*predictions, *outcomes):
            naive.read(event)
        expected += Counter(naive.counts())
        for (_, id_), known in naive.predictions.items():
            event = known.event
            answer = (known.y, known.outcome_ms) if known.y >= 0 else (None, None)
            region = dict(event.segments).get("region")
            answered[partition, id_] = event.time_ms, event.p, event.version, region, *answer
    joined = joined_of(spark, tmp_path, parts)
    counts = Counter(joined.counts())
    # The loops wait for ever.
    counts["outcome", "early"] += counts.pop(("outcome", "orphan"))
    assert counts == expected
    assert {result for type_, result in counts if type_ == "outcome"} == {
        *("joined", "corrected", "superseded", "duplicate", "early", "after_horizon", "before_prediction", "late"),
    }
    found = {
        (row.partition, row.id): (row.ts, row.p, row.version, row.region, row.outcome, row.outcome_ms)
        for row in joined.predictions.collect()
    }
    assert found == answered


def test_ids_of_bytes_are_refused(spark: SparkSession) -> None:
    """As text they would be another id than that of the events, or none."""
    columns = "id binary, ts bigint, p double, y int, partition int, offset bigint"
    table = spark.createDataFrame([(bytearray(16), 1_760_000_000_000, 0.5, 1, 0, 0)], columns)
    with pytest.raises(InputError, match="ids in column 'id' are bytes: give a column of text as the events have it"):
        join(table, table, horizon="1h", lateness="1m")
