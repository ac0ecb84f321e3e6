"""Reports by columns and spans of time are those of the rows of each group, raw or on the grid, in any division."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.errors import InputError
from monitor.measures import WINDOW_MEASURES
from monitor.reports.evaluation.assess import Minimum
from monitor.reports.evaluation.evaluate import ScoredRows, evaluate_binary, evaluate_scores
from monitor.reports.evaluation.inputs import Resampling
from monitor.reports.findings import GroupFindings, ReportOptions, measure_groups
from monitor.scores import GridTable
from monitor.sources import tables
from monitor.sources.data_sets import open_tables
from monitor.sources.tables import Columns

ROWS = 3000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(3)
    p = rng.random(ROWS)
    # Over the end of a year, and over that of the summer time of Berlin's zone.
    start = np.datetime64("2025-10-20T00:00:00", "ms").astype(np.int64)
    times = start + rng.integers(0, 90 * 86_400_000, ROWS)
    return pa.table(
        {
            "p": p,
            "y": pa.array(rng.random(ROWS) < p, mask=rng.random(ROWS) < 0.1),
            "ts": pa.array(times, pa.timestamp("ms", "Europe/Berlin")),
            "model": rng.choice(["a", "b"], ROWS),
            "tier": pa.array(rng.choice([2, 10], ROWS), mask=rng.random(ROWS) < 0.02),
        }
    )


def options(path: Path, *by: str, memory: float | None = None, draws: int = 0, **more: Any) -> ReportOptions:
    return ReportOptions(open_tables([str(path)]), by=by, memory=memory, resampling=Resampling(draws, 0), **more)


def period_of(moment: dt.datetime, name: str) -> str:
    """The name of the span of time that holds a moment, by the calendar of the standard library."""
    utc = moment.astimezone(dt.UTC)
    if name == "week":
        return (utc.date() - dt.timedelta(days=utc.weekday())).isoformat()
    return utc.strftime({"hour": "%Y-%m-%d %H:00", "day": "%Y-%m-%d", "month": "%Y-%m"}[name])


def rows_by(table: pa.Table, by: tuple[str, ...]) -> dict[tuple[str, ...], list[int]]:
    """The rows of each combination, by obvious loops."""
    result: dict[tuple[str, ...], list[int]] = {}
    for at, row in enumerate(table.to_pylist()):
        key = tuple(
            period_of(row["ts"], name) if name not in row else "(empty)" if row[name] is None else str(row[name])
            for name in by
        )
        result.setdefault(key, []).append(at)
    return result


@pytest.mark.parametrize("by", [("model",), ("tier", "model"), ("month",), ("model", "week"), ("tier", "day")])
@pytest.mark.parametrize("memory", [None, 0.0])
def test_each_report_is_that_of_the_rows_of_its_group(
    by: tuple[str, ...], memory: float | None, table: pa.Table, tmp_path: Path
) -> None:
    pq.write_table(table, tmp_path / "rows.parquet")
    findings = measure_groups(options(tmp_path / "rows.parquet", *by, memory=memory))
    assert findings.on_grid == (memory == 0.0)
    expected = rows_by(table, by)
    found = {tuple(group.values.values()): report.report for group, report in findings.result.groups}
    assert found.keys() == expected.keys()
    outcomes = table["y"].cast(pa.float64()).to_numpy()
    for key, rows in expected.items():
        p, y = table["p"].to_numpy()[rows], outcomes[rows]
        name = ", ".join(f"{each}={value}" for each, value in zip(by, key, strict=True))
        own: dict[str, Any] = {"model": "rows", "segment": name, "draws": 0, "seed": 0}
        own |= {"measures": WINDOW_MEASURES, "minimum": Minimum()}
        whole = (
            evaluate_binary(p, y, **own)
            if memory is None
            else evaluate_scores(ScoredRows.of_cells(GridTable.from_events(p, np.where(np.isnan(y), -1.0, y))), **own)
        )
        report = found[key]
        without_times = {**report.to_dict(), "from": None, "to": None}
        assert without_times == whole.to_dict()


@pytest.mark.parametrize("period", ["hour", "day", "week", "month"])
def test_spans_of_time_are_those_of_the_calendar(period: str, table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table.slice(0, 200), tmp_path / "rows.parquet")
    groups = [group for group, _ in measure_groups(options(tmp_path / "rows.parquet", period)).result.groups]
    starts = [group.span_ms[0] for group in groups if group.span_ms is not None]
    assert starts == sorted(starts)
    for group in groups:
        assert group.span_ms is not None
        first, end = (dt.datetime.fromtimestamp(at / 1000, dt.UTC) for at in group.span_ms)
        assert period_of(first, period) == group.values[period]
        assert period_of(end - dt.timedelta(milliseconds=1), period) == group.values[period]
        assert period_of(end, period) != group.values[period] != period_of(first - dt.timedelta(milliseconds=1), period)


def test_every_division_gives_the_same_reports(
    table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_PART_ROWS", 200)
    pq.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "many").mkdir()
    order = np.random.default_rng(0).permutation(ROWS)
    for start in range(0, ROWS, 170):
        pq.write_table(table.take(order[start : start + 170]), tmp_path / "many" / f"rows.{start:05}.parquet")
    results = [
        measure_groups(options(tmp_path / name, "tier", "week", memory=0.0, models=("m",)))
        for name in ("rows.parquet", "many")
    ]
    assert results[0].to_dict() == results[1].to_dict()


def grouped(table: pa.Table, folder: Path, *by: str, **more: Any) -> GroupFindings:
    pq.write_table(table, folder / "rows.parquet")
    return measure_groups(options(folder / "rows.parquet", *by, **more))


def test_a_column_that_is_called_like_a_span_of_time_is_the_column(table: pa.Table, tmp_path: Path) -> None:
    days = pa.array(["Mon", "Tue"] * (ROWS // 2))
    found = grouped(table.append_column("day", days), tmp_path, "day")
    assert [dict(group.values) for group, _ in found.result.groups] == [{"day": "Mon"}, {"day": "Tue"}]


def test_numbers_are_sorted_by_size_and_p_values_are_corrected(table: pa.Table, tmp_path: Path) -> None:
    found = grouped(table, tmp_path, "tier", draws=19).result.groups
    assert [group.values["tier"] for group, _ in found] == ["2", "10", "(empty)"]
    for _, segment in found[:2]:
        assert segment.p_value is not None
        assert segment.q_value is not None
        assert segment.q_value >= segment.p_value


@pytest.mark.parametrize(
    ("by", "more", "words"),
    [
        (("nowhere",), {}, "no segment column 'nowhere'; columns are"),
        (("day", "week"), {}, "--by names day and week: name one span of time, the shortest"),
        (("day",), {"without": "ts"}, "--by day needs times: name their column with --time"),
        (("model",), {"columns": Columns(("p", "tier", "none"), "label")}, "--by is for predictions P(y = 1)"),
    ],
)
def test_bad_use_is_said(
    by: tuple[str, ...], more: dict[str, Any], words: str, table: pa.Table, tmp_path: Path
) -> None:
    without = more.pop("without", None)
    classes = table.set_column(4, "tier", pa.array(1.0 - table["p"].to_numpy()))
    classes = classes.append_column("none", pa.array(np.zeros(ROWS)))
    classes = classes.append_column("label", pa.array(np.arange(ROWS) % 2))
    used = table.drop([without]) if without else classes if more else table
    with pytest.raises(InputError) as caught:
        grouped(used, tmp_path, *by, **more)
    assert words in str(caught.value)


def test_too_many_groups_are_refused(table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.reports.evaluation.counting._MAX_VALUES", 50)
    with pytest.raises(InputError, match=r"^--by tier and hour has .* groups or more"):
        grouped(table, tmp_path, "tier", "hour", memory=0.0)
