"""A report on a data set that does not fit into memory, beside DuckDB's plain scan of the same columns; and
`monitor report` of one table in files and databases, beside DuckDB and polars.

``MONITOR_DATA_SET_ROWS=100000000`` sets the number of rows of the first, 10 million if left out; ``--rows`` that of the
second.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.budgets import note
from tests.real.postgres import PostgresServer

pytestmark = pytest.mark.benchmark

ROWS = int(os.environ.get("MONITOR_DATA_SET_ROWS", "10000000"))
ROW_GROUP = 1_000_000
FILE_ROWS = 10_000_000

_MEASURED = """
import json, resource, sys, time
from monitor.reports.evaluation.inputs import Resampling
from monitor.reports.findings import ReportOptions, measure_files
from monitor.sources.data_sets import open_tables
from monitor.sources.tables import Columns
start = time.perf_counter()
columns = Columns(["p"], "y", segments=sys.argv[3:])
options = ReportOptions(open_tables([sys.argv[1]]), columns, resampling=Resampling(0, 0), memory=float(sys.argv[2]))
findings = measure_files(options)
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([
    time.perf_counter() - start, usage.ru_maxrss / 1024.0, findings.report.predictions, findings.on_grid,
    findings.report.measures["ece"].value,
]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scores")
    rng = np.random.default_rng(1)
    for number, first in enumerate(range(0, ROWS, FILE_ROWS)):
        writer = None
        for size in [min(ROW_GROUP, ROWS - start) for start in range(first, min(first + FILE_ROWS, ROWS), ROW_GROUP)]:
            p = rng.beta(2.0, 5.0, size)
            region = pa.array(rng.choice(["eu", "us", "apac"], size)).dictionary_encode()
            table = pa.table({"p": p, "y": (rng.random(size) < p).astype(np.int8), "region": region})
            writer = writer or pq.ParquetWriter(path / f"part-{number:03}.parquet", table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()
    return path


def measured(folder: Path, memory: float, *segments: str) -> tuple[float, float, float]:
    """Seconds, peak MiB and ECE of a report in a process of its own."""
    command = [sys.executable, "-c", _MEASURED, str(folder), str(memory), *segments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak, predictions, on_grid, ece = json.loads(done.stdout)
    assert predictions == ROWS
    assert on_grid == (memory < 100.0)
    return seconds, peak, ece


def scanned(folder: Path, query: str) -> tuple[float, float]:
    """Seconds of a query on all files, after one on the first that warms up, and its value."""
    with duckdb.connect() as database:
        database.execute("SET threads = 2")
        database.execute(query.format(files=f"{folder}/part-000.parquet")).fetchone()
        start = time.perf_counter()
        row = database.execute(query.format(files=f"{folder}/*.parquet")).fetchone()
        assert row is not None
        return time.perf_counter() - start, float(row[0])


PLAIN = "SELECT sum(p) + sum(y) FROM read_parquet('{files}')"
ECE = """
SELECT sum(abs(difference)) / sum(n) FROM (
    SELECT sum(y) - sum(p) AS difference, count(*) AS n FROM read_parquet('{files}') GROUP BY least(floor(p * 10), 9)
)
"""


def test_a_data_set_beyond_memory(folder: Path) -> None:
    measured(folder, 0.0)  # compiles
    plain, _ = scanned(folder, PLAIN)
    ece_seconds, ece = scanned(folder, ECE)
    print(f"\n{ROWS:,} rows; DuckDB's plain scan of the same columns {plain:.2f} s, its 10-bin ECE {ece_seconds:.2f} s")
    for title, segments in (("report, values alone", ()), ("the same with 3 segments", ("region",))):
        seconds, peak, value = measured(folder, 0.0, *segments)
        assert value == pytest.approx(ece, abs=1e-9)
        print(
            f"  {title:<26}{seconds:7.2f} s, {seconds / plain:5.1f} times the scan, {seconds / ece_seconds:5.1f} times "
            f"the ECE; {1e9 * seconds / ROWS:5.0f} ns a row; peak {peak:,.0f} MiB"
        )
    if ROWS <= 10_000_000:
        seconds, peak, _ = measured(folder, 100.0)
        print(
            f"  {'raw rows, exactly':<26}{seconds:7.2f} s, {seconds / plain:5.1f} times the scan; peak {peak:,.0f} MiB"
        )


QUERY = "SELECT p, y FROM scores"
BINS = "SELECT sum(y) - sum(p), count(*) FROM {rows} GROUP BY least(floor(p * 10), 9)"

DUCKDB = "import duckdb, sys; duckdb.connect(sys.argv[1]).execute(sys.argv[2]).fetchall()"
POLARS = """
import polars as pl, sqlite3, sys
name, read = sys.argv[1:]
rows = eval(read)
number = (pl.col("p").cast(pl.Float64) * 10).floor().clip(0, 9)
rows.lazy().group_by(number).agg(pl.col("y").sum() - pl.col("p").sum(), pl.len()).collect(engine="streaming")
"""
"""Sums of ten bins, of rows as polars reads them."""


class Run(NamedTuple):
    """Time and memory of a process."""

    seconds: float
    processor: float
    mib: float

    def __str__(self) -> str:
        return f"{self.processor:.1f} s of processor time in {self.seconds:.1f} s, {self.mib:,.0f} MiB"


LAUNCH = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024.0]))
"""
"""Runs a command from a small process: what a child takes begins with what its parent has."""


def run(command: Sequence[str | Path]) -> Run:
    done = subprocess.run([sys.executable, "-c", LAUNCH, *command], stdout=subprocess.PIPE, text=True, check=True)
    return Run(*json.loads(done.stdout))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer, rows: int) -> Mapping[str, str]:
    """The same rows, with an id and a region beside prediction and outcome, by what holds them."""
    path = tmp_path_factory.mktemp("sources")
    url = postgres_server.url(postgres_server.new_database())
    rng = np.random.default_rng(1)
    writers: list[pq.ParquetWriter | pa_csv.CSVWriter] = []
    with (
        sqlite3.connect(path / "scores.db") as sqlite,
        psycopg.connect(url) as postgres,
        postgres.cursor() as cursor,
    ):
        sqlite.execute("CREATE TABLE scores (id INTEGER PRIMARY KEY, p REAL, y INTEGER, region TEXT)")
        cursor.execute("CREATE TABLE scores (id bigint, p float8, y int, region text)")
        for start in range(0, rows, ROW_GROUP):
            size = min(ROW_GROUP, rows - start)
            p = rng.beta(2.0, 5.0, size)
            y, region = (rng.random(size) < p).astype(np.int8), rng.choice(["eu", "us", "apac"], size)
            table = pa.table({"id": np.arange(start, start + size), "p": p, "y": y, "region": region})
            writers = writers or [
                pq.ParquetWriter(path / "scores.parquet", table.schema),
                pa_csv.CSVWriter(path / "scores.csv", table.schema),
            ]
            for writer in writers:
                writer.write_table(table)
            values = [column.to_pylist() for column in table.columns]
            sqlite.executemany("INSERT INTO scores VALUES (?, ?, ?, ?)", zip(*values, strict=True))
            text = pa.BufferOutputStream()
            pa_csv.write_csv(table, text, pa_csv.WriteOptions(include_header=False))
            with cursor.copy("COPY scores FROM STDIN (FORMAT csv)") as copy:
                copy.write(text.getvalue().to_pybytes())
        for writer in writers:
            writer.close()
    subprocess.run(["gzip", "--keep", path / "scores.csv"], check=True)
    with duckdb.connect(str(path / "scores.duckdb")) as database:
        database.execute(f"CREATE TABLE scores AS FROM '{path}/scores.parquet'")
    return {
        "Parquet": f"{path}/scores.parquet",
        "CSV": f"{path}/scores.csv",
        "CSV.gz": f"{path}/scores.csv.gz",
        "DuckDB": f"duckdb:///{path}/scores.duckdb",
        "PostgreSQL": url,
        "SQLite": f"sqlite:///{path}/scores.db",
    }


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--rows"))


@pytest.mark.timeout(3600)
def test_a_table_of_every_source(sources: Mapping[str, str], rows: int) -> None:
    monitor = Path(sys.executable).parent / "monitor"
    reads = {
        "Parquet": "pl.scan_parquet(name)",
        "CSV": "pl.scan_csv(name)",
        "CSV.gz": "pl.scan_csv(name)",
        "PostgreSQL": f"pl.read_database_uri({QUERY!r}, name, engine='adbc')",
        "SQLite": f"pl.read_database({QUERY!r}, sqlite3.connect(name.removeprefix('sqlite:///')))",
    }
    run([monitor, "report", sources["CSV"], "--where", "id < 1000", "--memory", "0"])  # compiles
    print(f"\n{rows:,} rows: `monitor report`, values, intervals and levels; peers sum ten bins")
    print(f"  CSV.gz: zcat alone {run(['zcat', sources['CSV.gz']])}")
    for source, name in sources.items():
        query = [] if re.match("Parquet|CSV", source) else ["--query", QUERY]
        report = run([monitor, "report", name, *query, "--prediction", "p", "--outcome", "y", "--memory", "0"])
        print(f"  {source:<12}{report}")
        note(source, str(report))
        own = name.removeprefix("duckdb:///") if source == "DuckDB" else ""
        if own or not query:
            bins = BINS.format(rows="scores" if own else f"'{name}'")
            print(f"  {'':<12}DuckDB {run([sys.executable, '-c', DUCKDB, own or ':memory:', bins])}")
        if source in reads:
            print(f"  {'':<12}polars {run([sys.executable, '-c', POLARS, name, reads[source]])}")
