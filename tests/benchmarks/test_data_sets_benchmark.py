"""A report on a data set that does not fit into memory, beside DuckDB's plain scan of the same columns.

``MONITOR_DATA_SET_ROWS=100000000`` sets the number of rows, 10 million if left out.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
