"""The journal against the obvious: a table with a row an event. ``make bench`` prints the numbers."""

import sqlite3
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from monitor.clock import SystemClock
from monitor.events.model import SeriesKey
from monitor.scores import GridTable
from monitor.store.base import Bucket, Checkpoint, JournalBatch, ModelState
from monitor.store.closing import Cells, Closing, Panes
from monitor.store.sql import SqlStore
from monitor.stream.journal_loops import JOURNAL_ROW

pytestmark = pytest.mark.benchmark

HOUR_MS = 3_600_000
PANE_MS = 300_000
ROWS, BUCKETS, SERIES = 200_000, 50, 50
CHECKPOINTS = 50
MIB = 1 << 20


def journal_loops(rng: np.random.Generator, count: int) -> np.ndarray:
    """Rows like those of the join: random hashes, the rest as it may be."""
    rows = np.zeros(count, JOURNAL_ROW)
    rows["id_high"] = rng.integers(0, 2**63, count)
    rows["id_low"] = rng.integers(0, 2**63, count)
    rows["time_ms"] = 1_700_000_000_000 + rng.integers(0, HOUR_MS, count)
    rows["prediction"] = rng.random(count)
    rows["outcome_ms"] = rows["time_ms"] + HOUR_MS
    rows["outcome"] = rng.integers(-1, 2, count)
    return rows


def checkpoints(epoch: int, count: int) -> list[Checkpoint]:
    rng = np.random.default_rng(1)
    tables = [GridTable.from_events(p := rng.beta(2, 8, 2_000), rng.random(2_000) < p) for _ in range(20)]
    batches = journal_loops(rng, ROWS).reshape(BUCKETS, -1)
    names = sorted(SeriesKey("churn", "7", f"region={i}") for i in range(SERIES))
    return [
        Checkpoint(
            partition=0,
            epoch=epoch,
            offsets={"predictions": k, "outcomes": k},
            models=[ModelState("churn", k, k)],
            journal=[JournalBatch(Bucket("churn", i * HOUR_MS), rows.tobytes()) for i, rows in enumerate(batches)],
            closings=[Closing("churn", k * PANE_MS, (k + 1) * PANE_MS, PANE_MS, panes(names, tables, k * PANE_MS))],
            counters={("prediction", "joined"): k},
        )
        for k in range(count)
    ]


def panes(names: list[SeriesKey], tables: list[GridTable], start_ms: int) -> Panes:
    """A pane of each series."""
    parts = [tables[i % len(tables)] for i in range(len(names))]
    series = np.repeat(np.arange(len(names)), [part.cell.size for part in parts])
    cell = np.concatenate([part.cell for part in parts])
    values = np.concatenate([part.values for part in parts])
    return Panes(names, Cells(series, np.full(series.size, start_ms), cell, values))


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_checkpoint_and_load(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path}/monitor.db"
    else:
        server = request.getfixturevalue("postgres_server")
        url = server.url(server.new_database())
    naive_save, naive_load = naive(tmp_path / "naive.db")

    with SqlStore.open(url, clock=SystemClock()) as store:
        seconds = []
        for checkpoint in checkpoints(store.claim(0), CHECKPOINTS):
            start = time.perf_counter()
            store.save([checkpoint])
            seconds.append(time.perf_counter() - start)
        save = float(np.median(seconds))

        before = psutil.Process().memory_info().rss
        peak = before
        start = time.perf_counter()
        state = store.load(0)
        size = 0
        for i, batch in enumerate(state.journal):
            size += len(batch.rows)
            if i % 50 == 0:
                peak = max(peak, psutil.Process().memory_info().rss)
        load = time.perf_counter() - start
        start = time.perf_counter()
        stored = store.read_closings("churn", {0: -1})[0]
        read = time.perf_counter() - start
    assert size == CHECKPOINTS * ROWS * JOURNAL_ROW.itemsize
    assert stored[-1].to_ms == CHECKPOINTS * PANE_MS
    cells = sum(part.panes.cells.series.size for part in stored)

    rows = size / JOURNAL_ROW.itemsize
    print(
        f"\n{kind}: checkpoint of {ROWS:,} rows and {SERIES} panes: median {save:.3f} s,"
        f" p95 {np.quantile(seconds, 0.95):.3f} s, max {max(seconds):.3f} s;"
        f" a row an event (SQLite, rows alone): {naive_save:.3f} s; ratio {naive_save / save:.1f}"
        f"\n{kind}: load of {rows:,.0f} rows: {load:.2f} s, {size / load / 1e6:.0f} MB/s,"
        f" {(peak - before) / MIB:.0f} MiB of memory;"
        f" a row an event: {naive_load * 1e6:.2f} us a row; ratio {naive_load * rows / load:.1f}"
        f"\n{kind}: {len(stored)} closings of {cells:,} cells read in {read:.2f} s"
    )
    assert save < naive_save
    assert load < naive_load * rows / 10
    assert peak - before < 100 * MIB


def naive(path: Path) -> tuple[float, float]:
    """Seconds to save ROWS events as rows of a table, and seconds to load one: the plain driver, nothing between."""
    rows = journal_loops(np.random.default_rng(1), ROWS)
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "page_size = 16384"):
        connection.execute(f"PRAGMA {pragma}")
    columns = ", ".join(rows.dtype.names or ())
    connection.execute(f"CREATE TABLE events (partition INTEGER, sequence INTEGER PRIMARY KEY, {columns})")
    seconds = []
    for k in range(3):
        start = time.perf_counter()
        values = [(0, k * ROWS + i, *row) for i, row in enumerate(rows.tolist())]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            f"INSERT INTO events VALUES ({', '.join('?' * (2 + len(rows.dtype.names or ())))})", values
        )
        connection.execute("COMMIT")
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    loaded = 0
    cursor = connection.execute(f"SELECT {columns} FROM events WHERE partition = 0 ORDER BY sequence")
    while chunk := cursor.fetchmany(10_000):
        loaded += len(np.array(chunk, JOURNAL_ROW))
    load = (time.perf_counter() - start) / loaded
    connection.close()
    return float(np.median(seconds)), load
