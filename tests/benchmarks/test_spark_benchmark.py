"""Rows of Parquet, 20 million or ``--rows``: time and memory of Spark, the file path, DuckDB, and pandas on a tenth."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from monitor.scores import GridTable
from monitor.spark import report, score_tables
from monitor.spark.reports import Counted
from tests.benchmarks.parquet_peers import peak_mib
from tests.real.spark import local_session

pytestmark = pytest.mark.benchmark

ROWS_IN_FILE, REPEATS = 2_000_000, 2


def seconds(work: Callable[[], object]) -> float:
    """The least of some times."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peer(name: str, folder: Path) -> tuple[float, float]:
    """Seconds, and MiB at most, of a way to read a folder."""
    command = [sys.executable, "-m", "tests.benchmarks.parquet_peers", name, str(folder), str(REPEATS)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    taken, held = json.loads(answer)
    return taken, held


def write_files(folder: Path, files: int) -> GridTable:
    """Write the rows, and return what is to be counted."""
    expected = GridTable.zero()
    for number in range(files):
        rng = np.random.default_rng(number)
        p = rng.beta(1.0, 6.0, ROWS_IN_FILE)
        y = (rng.random(ROWS_IN_FILE) < p).astype(np.int64)
        pq.write_table(pa.table({"p": p, "y": y}), folder / f"{number:03}.parquet")
        expected += GridTable.from_events(p, y)
    return expected


def ten_bins(df: DataFrame) -> object:
    number = F.least(F.floor(F.col("p") * 10), F.lit(9)).alias("bin")
    return df.groupBy(number).agg(F.count("*"), F.sum("p"), F.sum("y")).toArrow()


def test_tables_of_many_rows(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    files = pytestconfig.getoption("--rows") // ROWS_IN_FILE
    folder, tenth = tmp_path / "rows", tmp_path / "tenth"
    folder.mkdir()
    tenth.mkdir()
    expected = write_files(folder, files)
    for file in sorted(folder.iterdir())[: files // 10]:
        (tenth / file.name).symlink_to(file)
    took = {
        "DuckDB, sums of ten bins": peer("duckdb", folder),
        "pandas, ECE of ten bins, a tenth": peer("pandas", tenth),
        "monitor report: measures, intervals, levels": peer("report", folder),
    }
    works: dict[str, Callable[[DataFrame], object]] = {
        "Spark, sums of ten bins": ten_bins,
        "Spark, score tables": lambda of: score_tables(of, prediction="p", outcome="y").toArrow(),
        "Spark, the same report": lambda of: report(score_tables(of, prediction="p", outcome="y")),
    }
    spark = local_session(tmp_path / "spark")
    try:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        java = jvm.java.lang.ProcessHandle.current().pid()
        first, df = (spark.read.parquet(str(path)) for path in (folder / "000.parquet", folder))
        for name, work in works.items():
            work(first)
            took[name] = seconds(partial(work, df)), peak_mib(java)
        assert Counted.of(score_tables(df, prediction="p", outcome="y").toArrow()).table == expected
    finally:
        spark.stop()
    print(f"\n{files * ROWS_IN_FILE:,} rows of Parquet, two cores")
    for name, (taken, held) in took.items():
        ratio = taken / took["DuckDB, sums of ten bins"][0]
        print(f"  {name:<46}{taken:8.2f} s, {ratio:6.1f} times DuckDB; {held:7,.0f} MiB")
