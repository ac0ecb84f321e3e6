"""Thirty days of a lake, ten million predictions or ``--joined``: the join by our rules beside Spark's bare join."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from monitor.spark import join
from tests.real.spark import local_session

pytestmark = pytest.mark.benchmark

DAYS, PARTITIONS, REPEATS = 30, 4, 2
DAY_MS, MINUTE_MS = 86_400_000, 60_000
START_MS = 1_760_000_000_000
DISORDER_MS = 5 * MINUTE_MS


def write_lake(folder: Path, predictions: int) -> None:
    """A file of each topic and day. Nine in ten have an outcome; 2% come twice, 2% are corrected, .1% are late."""
    rng = np.random.default_rng(1)
    for name in ("scores", "labels"):
        (folder / name).mkdir()
    count = predictions // DAYS
    for day in range(DAYS):
        ts = START_MS + day * DAY_MS + np.sort(rng.integers(0, DAY_MS, count))
        id_ = day * count + np.arange(count)
        p = rng.beta(1.0, 6.0, count)
        again = rng.random(count) < 0.02
        written = ts + rng.integers(0, DISORDER_MS, count) + (rng.random(count) < 0.001) * 3 * DAY_MS
        _write(folder / "scores" / f"{day:02}.parquet", day, written, again, {"id": id_, "ts": ts, "p": p})
        answered = np.flatnonzero(rng.random(count) < 0.9)
        known = ts[answered] + rng.integers(0, DAY_MS // 2, answered.size)
        written = known + rng.integers(0, DISORDER_MS, known.size) + (rng.random(known.size) < 0.001) * DAY_MS
        y = (rng.random(known.size) < p[answered]).astype(np.int64)
        columns = {"id": id_[answered], "ts": known, "y": y}
        _write(folder / "labels" / f"{day:02}.parquet", day, written, rng.random(known.size) < 0.02, columns)


def _write(path: Path, day: int, written: np.ndarray, again: np.ndarray, columns: dict[str, np.ndarray]) -> None:
    at = np.concatenate([np.arange(written.size), np.flatnonzero(again)])
    twice = np.arange(at.size) >= written.size
    order = np.argsort(written[at] + twice * MINUTE_MS, kind="stable")
    at, twice = at[order], twice[order]
    of = {name: column[at] for name, column in columns.items()}
    if "y" in of:
        of["y"] = np.where(twice, 1 - of["y"], of["y"])
    hashed = (of["id"].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    partition = (hashed >> np.uint64(62)).astype(np.int32)
    # Offsets rise from day to day; they need not follow each other.
    offset = day * 2 * at.size + np.arange(at.size)
    ids = pa.array([f"{number:016x}" for number in hashed.tolist()])
    ts = pa.array(of.pop("ts") * 1000, pa.timestamp("us", "UTC"))
    rest = {name: column for name, column in of.items() if name != "id"}
    pq.write_table(pa.table({"id": ids, "ts": ts, **rest, "partition": partition, "offset": offset}), path)


def bare(scores: DataFrame, labels: DataFrame) -> object:
    return scores.join(labels, "id", "left").agg(F.count("*"), F.sum("p"), F.sum("y")).collect()


def ours(scores: DataFrame, labels: DataFrame) -> object:
    joined = join(scores, labels, horizon="1d", lateness="10m")
    return joined.predictions.agg(F.count("*"), F.sum("p"), F.sum("outcome")).collect()


def ours_counted(scores: DataFrame, labels: DataFrame) -> object:
    return join(scores, labels, horizon="1d", lateness="10m").counts()


def seconds(work: Callable[[DataFrame, DataFrame], object], spark: SparkSession, folder: Path) -> float:
    """The least of some times."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work(*(spark.read.parquet(str(folder / name)) for name in ("scores", "labels")))
        times.append(time.perf_counter() - start)
    return min(times)


def test_the_join_beside_the_bare_one(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    predictions = pytestconfig.getoption("--joined")
    write_lake(tmp_path, predictions)
    works = {
        "Spark's bare join on the id": bare,
        "monitor.spark.join: predictions with their outcomes": ours,
        "monitor.spark.join: events by result": ours_counted,
    }
    spark = local_session(tmp_path / "spark")
    took: dict[str, float] = {}
    try:
        for name, work in works.items():
            took[name] = seconds(work, spark, tmp_path)
    finally:
        spark.stop()
    least = took["Spark's bare join on the id"]
    print(f"\n{predictions:,} predictions of {DAYS} days with their outcomes, Parquet, two cores")
    for name, taken in took.items():
        rate = f"{predictions / taken:12,.0f} a second; {least / taken:6.2f} of the bare join's rate"
        print(f"  {name:<54}{taken:8.2f} s, {rate}")
    assert took["monitor.spark.join: predictions with their outcomes"] < 4 * least
