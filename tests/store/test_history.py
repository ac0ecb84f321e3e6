"""The history depends on the points alone: not on how often, in which parts and when they were saved and merged."""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock, SystemClock
from monitor.errors import DamagedStore, IncompatibleStore
from monitor.events.model import SeriesKey
from monitor.store import history, series
from monitor.store.evaluations import Evaluation, EvaluationStore
from monitor.store.history import NO_POINTS, Points
from monitor.store.schema import HISTORY, MODELS
from monitor.store.series import decode, encode
from monitor.store.sql import SqlStore
from tests.evaluations import save
from tests.long import sqlite_first
from tests.patience import PATIENCE_SECONDS, joined
from tests.store.histories import (
    CHURN,
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    drawn,
    every,
    kept_naively,
    lines,
    thinned_naively,
)

NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
RETENTION_MS = 90 * DAY_MS
OTHER = SeriesKey("ch\0urn", "8", "region=eu")


def append(store: SqlStore, points: Points | Mapping[SeriesKey, Points], series: SeriesKey = CHURN) -> None:
    with store.database.writing() as connection:
        history.append(connection, {series: points} if isinstance(points, Points) else points)


def read(store: SqlStore, series: SeriesKey = CHURN, from_ms: int | None = None, to_ms: int | None = None) -> Points:
    with store.database.reading() as connection:
        return history.read(connection, series, from_ms, to_ms)


def together(parts: Sequence[Points]) -> Points:
    return Points.of_columns(series.joined([part.columns for part in parts]))


def parts(store: SqlStore) -> int:
    with store.database.reading() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(HISTORY)).scalar_one())


_rows = st.lists(
    st.tuples(
        st.sampled_from(["1h", "24h", "last-10000"]),
        st.integers(1, 12).map(lambda at: NOON_MS + at * 20 * MINUTE_MS),
        st.sampled_from([0, 900, 901]),
        st.sampled_from(["calibrated", "prior_shift", ""]),
    ),
    max_size=40,
)


@given(_rows)
def test_what_is_written_is_read(rows: list[tuple[str, int, int, str]]) -> None:
    points = drawn(rows).points()
    assert lines(Points.of_columns(decode(encode(points.columns)))) == lines(points)


@given(_rows, st.data())
def test_of_equal_ends_the_last_stays_and_an_interval_that_was_renewed_is_not_lost(
    rows: list[tuple[str, int, int, str]], data: st.DataObject
) -> None:
    points = drawn(rows).points()
    kept = points.latest()
    assert lines(kept) == kept_naively([points])
    assert lines(kept.latest()) == lines(kept)
    assert lines(together([points, points]).latest()) == lines(kept)
    # Merged in parts, with nothing between that has other counts: the same.
    at = data.draw(st.integers(0, len(rows)))
    if len({n for _, _, n, _ in rows}) < 2:
        halves = [points.take(slice(at)).latest(), points.take(slice(at, None))]
        assert lines(together(halves).latest()) == lines(kept)


@given(_rows, st.sampled_from([1, 7, 20, 60, 360]))
def test_of_each_step_the_last_window_stays(rows: list[tuple[str, int, int, str]], minutes: int) -> None:
    points = drawn(rows).points().latest()
    thin = points.thinned(minutes * MINUTE_MS)
    assert lines(thin) == thinned_naively(lines(points), minutes * MINUTE_MS)
    # Steps nest: what was thinned before makes no difference.
    assert lines(points.thinned(MINUTE_MS).thinned(HOUR_MS).thinned(6 * HOUR_MS)) == lines(points.thinned(6 * HOUR_MS))


def test_the_last_window_of_an_hour_ends_with_it() -> None:
    thin = every(MINUTE_MS, NOON_MS, NOON_MS + 2 * HOUR_MS).thinned(HOUR_MS)
    assert thin.to_ms.tolist() == [NOON_MS + HOUR_MS, NOON_MS + 2 * HOUR_MS]


def test_a_step_keeps_its_last_point_with_intervals() -> None:
    """Windows may move on faster than intervals are renewed."""
    rows = [("1h", NOON_MS + at * MINUTE_MS, 900, "calibrated" if at in {20, 40} else "") for at in range(1, 121)]
    thin = drawn(rows).points().thinned(HOUR_MS)
    assert thin.to_ms.tolist() == [NOON_MS + 40 * MINUTE_MS, NOON_MS + 120 * MINUTE_MS]
    assert thin.verdict.tolist() == ["calibrated", ""]


def test_points_of_other_measures_are_joined() -> None:
    first = Points.of_rows(drawn([("1h", 1, 900, "both")]).rows, [{"tce": [1.0] * 6}])
    second = Points.of_rows(drawn([("1h", 2, 900, "both")]).rows, [{"kce": [2.0] * 6}])
    both = together([first, second])
    assert both.measures["tce"][:, 0].tolist()[0] == 1.0
    assert np.isnan(both.measures["tce"][1]).all()
    assert np.isnan(both.measures["kce"][0]).all()
    assert NO_POINTS.latest().to_ms.size == 0


def test_bytes_of_something_else_are_refused() -> None:
    data = encode(every(MINUTE_MS, 0, 5 * MINUTE_MS).columns)
    for wrong in (b"", data[:-9], data[:1] + b"no blob", data[:40] + b"\0" + data[41:]):
        with pytest.raises(DamagedStore, match="restore a backup"):
            decode(wrong)
    with pytest.raises(IncompatibleStore, match="format 77, this version of the service reads 1: run"):
        decode(bytes([77]) + data[1:])


def test_saving_again_changes_nothing_and_the_last_wins(store: SqlStore) -> None:
    points = every(MINUTE_MS, NOON_MS, NOON_MS + HOUR_MS)
    for _ in range(3):
        append(store, points)
    assert lines(read(store)) == lines(points)
    later = drawn([("1h", NOON_MS + HOUR_MS, 5, "both")]).points()
    append(store, later)
    assert lines(read(store))[-1] == lines(later)[0]
    assert lines(read(store))[:-1] == lines(points)[:-1]


def test_intervals_that_come_later_complete_a_point_and_a_restart_does_not_undo_them(store: SqlStore) -> None:
    without, complete = (drawn([("1h", NOON_MS, 900, verdict)]).points() for verdict in ("", "both"))
    append(store, without)
    assert read(store).verdict.tolist() == [""]
    append(store, complete)
    append(store, without)
    assert lines(read(store)) == lines(complete)
    # Other predictions: a window that is not final, or a part of the log that came late.
    append(store, drawn([("1h", NOON_MS, 901, "")]).points())
    assert read(store).n.tolist() == [901]
    assert np.isnan(read(store).measures["smce"][0, 1:]).all()


def test_what_was_evaluated_under_a_lost_lease_is_not_saved(store: SqlStore) -> None:
    evaluations = EvaluationStore(store.database)
    points = every(MINUTE_MS, NOON_MS, NOON_MS + 3 * MINUTE_MS)
    (epoch,) = evaluations.acquire("a", ["churn"]).values()
    new = Evaluation("churn", 1, b"", b"", {CHURN: points})
    assert save(evaluations, "a", {"churn": epoch - 1}, [new]) == {"churn"}
    assert save(evaluations, "b", {"churn": epoch}, [new]) == {"churn"}
    assert read(store).to_ms.size == 0
    for _ in range(2):
        assert save(evaluations, "a", {"churn": epoch}, [new]) == set()
        assert lines(read(store)) == lines(points)


def test_series_are_apart_and_windows_of_a_span_are_read(store: SqlStore) -> None:
    points = every(HOUR_MS, NOON_MS, NOON_MS + 3 * DAY_MS)
    append(store, {CHURN: points, OTHER: points.take(slice(2))})
    assert lines(read(store, OTHER)) == lines(points.take(slice(2)))
    assert read(store, SeriesKey("churn", "7", "region=eu")).to_ms.size == 0
    for from_hour, to_hour in ((0, 72), (5, 5), (12, 13), (11, 36), (60, 90), (12, 12)):
        from_ms, to_ms = NOON_MS + from_hour * HOUR_MS, NOON_MS + to_hour * HOUR_MS
        expected = [end for end in points.to_ms.tolist() if from_ms <= end <= to_ms]
        assert read(store, from_ms=from_ms, to_ms=to_ms).to_ms.tolist() == expected
    with store.database.reading() as connection:
        assert history.series_of(connection, "ch\0urn") == [OTHER]
        assert history.series_of(connection, "fraud") == []


def test_the_series_with_the_newest_points_is_the_last(store: SqlStore) -> None:
    old, new = (SeriesKey("churn", version, "all") for version in ("9", "10"))
    append(store, every(HOUR_MS, NOON_MS, NOON_MS + HOUR_MS), old)
    append(store, every(HOUR_MS, NOON_MS + DAY_MS, NOON_MS + DAY_MS + HOUR_MS), new)
    with store.database.reading() as connection:
        assert history.series_of(connection, "churn") == [old, new]


@sqlite_first
def test_small_parts_are_merged_without_a_trace(store: SqlStore) -> None:
    points = every(MINUTE_MS, NOON_MS, NOON_MS + 10 * HOUR_MS)
    most = 0
    for at in range(points.to_ms.size):
        append(store, points.take(slice(at, at + 1)))
        if at % 60 == 59:
            history.compact(store.database, RETENTION_MS)
        most = max(most, parts(store))
    assert most < 64 + 60 + 16
    assert lines(read(store)) == lines(points)


def test_processes_that_merge_at_once_leave_days_to_each_other(store: SqlStore) -> None:
    points = every(10 * MINUTE_MS, NOON_MS, NOON_MS + 3 * DAY_MS)
    names = [SeriesKey("churn", "7", f"region={one}") for one in range(20)]
    for at in range(0, points.to_ms.size, 48):
        append(store, {name: points.take(slice(at, at + 48)) for name in names})
    append(store, points)
    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(history.compact, store.database, RETENTION_MS) for _ in range(3)]:
            done.result()
    history.compact(store.database, RETENTION_MS)
    # As of a series that came in one part.
    assert all(lines(read(store, name)) == lines(read(store)) for name in names)
    # Of days that are over one part is left.
    of = HISTORY.c
    with store.database.reading() as connection:
        days = sa.select(sa.func.count()).group_by(of.segment, of.day_ms).where(of.day_ms < NOON_MS + 2 * DAY_MS)
        assert set(connection.execute(days).scalars()) == {1}


@sqlite_first
def test_old_days_are_thinned_out_and_those_beyond_the_retention_are_removed(store: SqlStore) -> None:
    start_ms = 20_000 * DAY_MS
    days = 30
    points = every(10 * MINUTE_MS, start_ms, start_ms + days * DAY_MS)
    append(store, points)
    expected = []
    for day in range(days):
        age = days - 1 - day
        if age <= 20:
            step_ms = MINUTE_MS if age <= 1 else HOUR_MS if age <= 14 else 6 * HOUR_MS
            of_day = [line for line in lines(points) if 0 < line[1] - start_ms - day * DAY_MS <= DAY_MS]
            expected += thinned_naively(of_day, step_ms)
    assert history.compact(store.database, 20 * DAY_MS) == days - 21
    assert lines(read(store)) == expected
    assert parts(store) == 21
    assert history.compact(store.database, 20 * DAY_MS) == 0
    assert lines(read(store)) == expected
    # A point that was saved again after its day was thinned out is thinned out again.
    append(store, points.take(slice(-days * 144, None)))
    history.compact(store.database, 20 * DAY_MS)
    assert lines(read(store)) == expected


def test_the_history_of_a_model_that_has_ended_goes_by_the_age_of_all(store: SqlStore) -> None:
    stopped = every(DAY_MS, NOON_MS, NOON_MS + 3 * DAY_MS)
    append(store, stopped, OTHER)
    append(store, every(DAY_MS, NOON_MS, NOON_MS + 200 * DAY_MS))
    store.register([0])
    with store.database.writing() as connection:
        row = {column.name: 0 for column in MODELS.columns} | {"name": OTHER.model}
        connection.execute(sa.insert(MODELS).values(row))
    history.compact(store.database, RETENTION_MS)
    assert lines(read(store, OTHER)) == lines(stopped)
    assert read(store).to_ms.size == 91
    with store.database.writing() as connection:
        connection.execute(sa.delete(MODELS))
    assert history.compact(store.database, RETENTION_MS) == 3
    assert lines(read(store, OTHER)) == []
    assert read(store).to_ms.size == 91


def test_it_survives_a_restart(store_url: str, clock: ManualClock) -> None:
    points = every(MINUTE_MS, NOON_MS, NOON_MS + HOUR_MS)
    with SqlStore.open(store_url, clock=clock) as store:
        append(store, points)
    with SqlStore.open(store_url, clock=clock) as store:
        assert lines(read(store)) == lines(points)


def test_replicas_save_and_merge_at_once(store_url: str, store: SqlStore) -> None:
    """Both write the same points, and both keep house: nothing is lost, whichever is first."""

    points = every(MINUTE_MS, NOON_MS, NOON_MS + 12 * HOUR_MS)
    problems: list[BaseException] = []

    def replica(first: int) -> None:
        try:
            with SqlStore.open(store_url, patience_seconds=PATIENCE_SECONDS, clock=SystemClock()) as own:
                for at in range(first, points.to_ms.size - 4, 5):
                    append(own, points.take(slice(at, at + 5)))
                    if at % 40 < 5:
                        history.compact(own.database, RETENTION_MS)
        except BaseException as error:  # noqa: BLE001 - asserted below
            problems.append(error)

    append(store, points.take(slice(5)))
    append(store, points.take(slice(-9, None)))
    threads = [threading.Thread(target=replica, args=(first,)) for first in (0, 3)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert problems == []
    history.compact(store.database, RETENTION_MS)
    assert lines(read(store)) == lines(points)


def test_ten_thousand_points_are_saved_and_read_quickly(tmp_path: Path) -> None:
    points = every(MINUTE_MS, NOON_MS, NOON_MS + 10_000 * MINUTE_MS)
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        started = time.process_time()
        append(store, points)
        assert read(store).to_ms.size == 10_000
        # 40 ms; a loop over rows would take some seconds.
        assert time.process_time() - started < 2.0
