"""Twenty million rows of Parquet: Spark's tables and report, DuckDB's ten-bin ECE, and the usual pandas on a tenth."""

import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

from monitor.scores import GridTable
from monitor.spark import report, score_tables
from monitor.spark.reports import Counted
from tests.real.spark import local_session

pytestmark = pytest.mark.benchmark

FILES, ROWS_IN_FILE = 10, 2_000_000


def seconds(work: Callable[[], object], repeats: int = 2) -> float:
    """The least of some times, after a run that compiles and warms up; Spark works in another process."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def pandas_ece(path: Path) -> float:
    rows = pd.read_parquet(path)
    groups = rows.groupby(np.minimum((rows.p * 10).astype(int), 9)).mean()
    counts = np.bincount(np.minimum((rows.p * 10).astype(int), 9), minlength=10)[groups.index]
    return float((abs(groups.p - groups.y) * counts).sum() / len(rows))


def test_tables_of_twenty_million_rows(tmp_path: Path) -> None:
    expected = GridTable.zero()
    for number in range(FILES):
        rng = np.random.default_rng(number)
        p = rng.beta(1.0, 6.0, ROWS_IN_FILE)
        y = (rng.random(ROWS_IN_FILE) < p).astype(np.int64)
        pq.write_table(pa.table({"p": p, "y": y}), tmp_path / f"{number}.parquet")
        expected += GridTable.from_events(p, y)
    spark = local_session(tmp_path / "spark")
    try:
        df = spark.read.parquet(*map(str, sorted(tmp_path.glob("*.parquet"))))
        bin_of = F.least(F.floor(F.col("p") * 10), F.lit(9)).alias("bin")
        tables = score_tables(df, prediction="p", outcome="y")
        assert Counted.of(tables.toArrow()).table == expected

        def spark_tables() -> object:
            return score_tables(df, prediction="p", outcome="y").toArrow()

        def spark_report() -> object:
            return report(score_tables(df, prediction="p", outcome="y"))

        def spark_bins() -> object:
            return df.groupBy(bin_of).agg(F.count("*"), F.sum("p"), F.sum("y")).toArrow()

        def duckdb_bins() -> object:
            files = str(tmp_path / "*.parquet")
            query = f"SELECT least(floor(p * 10), 9) b, count(*), sum(p), sum(y) FROM '{files}' GROUP BY b"
            return duckdb.execute(query).fetchall()

        # One file is a tenth of the rows.
        took = {
            "DuckDB, sums of ten bins": seconds(duckdb_bins),
            "pandas, ECE of ten bins, ten times a tenth": FILES * seconds(lambda: pandas_ece(tmp_path / "0.parquet")),
            "Spark, sums of ten bins": seconds(spark_bins),
            "Spark, score tables": seconds(spark_tables),
            "Spark, report with all measures and intervals": seconds(spark_report),
        }
    finally:
        spark.stop()
    print(f"\n{FILES * ROWS_IN_FILE:,} rows of Parquet, two cores")
    for name, value in took.items():
        print(f"  {name:<48}{value:7.2f} s, {value / took['DuckDB, sums of ten bins']:6.1f} times DuckDB")
