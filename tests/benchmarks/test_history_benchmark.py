"""The history of a fleet: bytes in the store, and time to save, merge and read. ``make bench`` prints the numbers."""

import time

import numpy as np
import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.measures import choose_measures
from monitor.reports.evaluation.report import Report
from monitor.store import history
from monitor.store.history import Points
from monitor.store.series import DAY_MS, HOUR_MS, MINUTE_MS, encode
from monitor.store.sql import SqlStore
from monitor.windows.evaluator import Evaluator
from monitor.windows.history import points_of
from monitor.windows.windows import Window
from tests.windows.memory import CHURN, MemoryPanes, calibrated

pytestmark = pytest.mark.benchmark

MEASURES = choose_measures(["tce", "kce", "smce", "intce"])
MIB = 1 << 20
SERIES, DAYS, FLEET = 10, 90, 1_000
WINDOWS = {"1h": MINUTE_MS, "24h": 15 * MINUTE_MS, "7d": 3 * HOUR_MS, "last-10000": 3 * HOUR_MS}
"""Name -> the step in which it moves."""
START_MS = 20_000 * DAY_MS


def measured(hours: int) -> Points:
    """What is kept of a `1h` window that moved by the minute, as it was really evaluated."""
    panes = MemoryPanes(ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=5 * MINUTE_MS))
    evaluator = Evaluator(panes, [Window("1h", HOUR_MS)], measures=MEASURES, clock=ManualClock())
    reports: list[Report] = []
    for minute in range(60 * (hours + 2)):
        p, y = calibrated(20, minute, slope=1.1)
        panes.add(CHURN, START_MS + minute * MINUTE_MS + np.arange(20) * 3_000, p, y)
        if minute >= 120:
            reports += evaluator.evaluate().reports.values()
    (points,) = points_of(reports).values()
    return points


def fleet_points(shape: Points, ends: np.ndarray, rng: np.random.Generator) -> Points:
    """Points at these (window, end), whose numbers wander as those of ``shape`` do."""
    at = np.arange(ends.size) % (2 * shape.to_ms.size - 2)
    points = shape.take(np.minimum(at, 2 * shape.to_ms.size - 2 - at))
    measures = {
        name: (of * np.exp(rng.normal(0.0, 1e-3, of.shape))).astype(np.float32) for name, of in points.measures.items()
    }
    length_ms = points.to_ms[0] - points.from_ms[0]
    return points._replace(
        window=ends["window"], to_ms=ends["to_ms"], from_ms=ends["to_ms"] - length_ms, measures=measures
    )


def ends_of(step_ms: int | None, from_ms: int, to_ms: int) -> np.ndarray:
    """The (window, end) in (from, to], at most one in each step."""
    parts = []
    for name, slide_ms in WINDOWS.items():
        times = np.arange(from_ms, to_ms, max(slide_ms, step_ms or 0)) + max(slide_ms, step_ms or 0)
        part = np.empty(times.size, [("window", "U10"), ("to_ms", np.int64)])
        part["window"], part["to_ms"] = name, times
        parts.append(part)
    return np.concatenate(parts)


def test_the_history_of_a_fleet(store_url: str) -> None:
    kind = store_url.partition(":")[0]
    shape, rng = measured(4), np.random.default_rng(1)
    print(f"\n{shape.to_ms.size} real points: {len(encode(shape.columns)) / shape.to_ms.size:.0f} bytes each")
    end_ms = START_MS + DAYS * DAY_MS
    names = [SeriesKey(f"model-{number:03}", "7", ALL) for number in range(SERIES)]
    with SqlStore.open(store_url, clock=SystemClock()) as store:
        for day in range(DAYS):
            # As the housekeeping leaves the days that are old, and as they were evaluated those that are not.
            age = DAYS - 1 - day
            step_ms = None if age <= 1 else HOUR_MS if age <= 14 else 6 * HOUR_MS
            ends = ends_of(step_ms, START_MS + day * DAY_MS, START_MS + (day + 1) * DAY_MS)
            with store.database.writing() as connection:
                history.append(connection, {series: fleet_points(shape, ends, rng) for series in names})
        history.compact(store.database, DAYS * DAY_MS)
        with store.database.reading() as connection:
            if kind == "sqlite":
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                pages, size = (
                    connection.exec_driver_sql(f"PRAGMA {of}").scalar_one() for of in ("page_count", "page_size")
                )
                stored = pages * size
            else:
                stored = connection.exec_driver_sql("SELECT pg_total_relation_size('history')").scalar_one()
            started = time.perf_counter()
            rows = history.read(connection, names[0]).to_ms.size
            read_seconds = time.perf_counter() - started
        print(f"{kind}: {DAYS} days of {SERIES} series x {len(WINDOWS)} windows: {stored / MIB:.1f} MiB")
        print(f"of {FLEET} series: {stored / SERIES * FLEET / MIB:,.0f} MiB")
        print(f"{rows} points of one series read in {1000 * read_seconds:.0f} ms")
        # A minute of the fleet: a new end of each `1h` window.
        minute = ends_of(None, end_ms, end_ms + MINUTE_MS)[:1]
        of_fleet = {
            SeriesKey(f"model-{number:03}", "7", ALL): fleet_points(shape, minute, rng) for number in range(FLEET)
        }
        started = time.perf_counter()
        with store.database.writing() as connection:
            history.append(connection, of_fleet)
        save_seconds = time.perf_counter() - started
        started = time.perf_counter()
        history.compact(store.database, DAYS * DAY_MS)
        idle_seconds = time.perf_counter() - started
        print(f"{FLEET} points saved in {save_seconds:.2f} s; housekeeping {idle_seconds:.2f} s")
    assert read_seconds < 5.0
