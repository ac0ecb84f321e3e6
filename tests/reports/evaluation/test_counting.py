"""Rows that are counted on the grid give one report, however they are divided, within error bounds of the raw rows'."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from monitor.errors import InputError
from monitor.reports.evaluation.counting import CountedRows
from monitor.reports.evaluation.files import FileReport
from monitor.reports.evaluation.inputs import Resampling
from monitor.reports.findings import ReportOptions, measure_files, read_within_memory
from monitor.scores import GridTable
from monitor.sources import tables
from monitor.sources.data_sets import open_tables
from monitor.sources.tables import Columns, EventTable, open_reading, read_table

ROWS = 6000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(7)
    logit = rng.normal(0.0, 1.5, ROWS)
    p = np.where(rng.random(ROWS) < 0.3, np.round(1 / (1 + np.exp(-logit)), 2), 1 / (1 + np.exp(-logit)))
    outcome = pa.array(rng.random(ROWS) < p, mask=rng.random(ROWS) < 0.2)
    return pa.table(
        {
            "p": p,
            "y": outcome,
            "ts": pa.array(1_770_000_000_000 + rng.integers(0, 10**9, ROWS), pa.timestamp("ms", "Asia/Tokyo")),
            "region": np.array(["eu", "us", None, "apac"])[rng.choice(4, ROWS, p=[0.5, 0.3, 0.1, 0.1])],
            "age": pa.array(rng.integers(18, 90, ROWS), mask=rng.random(ROWS) < 0.01),
            "city": [f"city {number}" for number in rng.zipf(1.3, ROWS) % 97],
        }
    )


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_PART_ROWS", 700)


def options(path: Path, **more: Any) -> ReportOptions:
    columns = Columns(segments=("region", "age", "city", "region*age"))
    return ReportOptions(open_tables([str(path)]), columns, resampling=Resampling(0, 0), memory=0.0)._replace(**more)


def counted(path: Path, **more: Any) -> CountedRows:
    rows = read_within_memory(options(path, **more))
    assert isinstance(rows, CountedRows)
    return rows


def divided(table: pa.Table, folder: Path) -> Iterator[Path]:
    """The same rows in other files, row groups and orders."""
    pq.write_table(table, folder / "one.parquet", row_group_size=1000)
    yield folder / "one.parquet"
    pq.write_table(table.take(np.random.default_rng(1).permutation(ROWS)), folder / "other order.parquet")
    yield folder / "other order.parquet"
    for name, size in (("few", 2500), ("many", 311)):
        (folder / name).mkdir()
        for start in range(0, ROWS, size):
            pq.write_table(table.slice(start, size), folder / name / f"{start:05}.parquet", row_group_size=97)
        yield folder / name
    (folder / "text").mkdir()
    for start in range(0, ROWS, 1500):
        pa.csv.write_csv(table.slice(start, 1500), folder / "text" / f"{start:05}.csv")
    yield folder / "text"


def test_every_division_gives_the_same_integers(table: pa.Table, tmp_path: Path) -> None:
    first, *others = [counted(path) for path in divided(table, tmp_path)]
    raw = read_table(tmp_path / "one.parquet")
    assert first.whole == GridTable.from_events(raw.prediction, raw.outcome)
    assert first.whole.predictions == ROWS
    assert raw.time_ms is not None
    assert first.span_ms == (raw.time_ms.min(), raw.time_ms.max() + 1)
    for other in others:
        assert other.whole == first.whole
        assert dict(other.segments) == dict(first.segments)
        assert other.span_ms == first.span_ms
        assert (other.notes, other.cautions) == (first.notes, first.cautions)


def test_segments_are_those_of_raw_rows(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path)
    raw, cells = (measure_files(options(path, memory=memory)).result for memory in (None, 0.0))
    assert isinstance(raw, FileReport)
    assert isinstance(cells, FileReport)
    expected, found = ({each.report.segment: each.report for each in one.segments} for one in (raw, cells))
    assert found.keys() == expected.keys()
    assert {"region=eu", "region=(empty)", "city=other", "age=(empty)"} < found.keys()
    assert any(name.startswith("region=us, age ") for name in found)
    for name, report in {**found, "": cells.whole}.items():
        exact = {**expected, "": raw.whole}[name]
        same = ("n", "positives", "predictions", "insufficient", "prevalence")
        assert [getattr(report, each) for each in same] == [getattr(exact, each) for each in same]
        for measure, result in report.measures.items():
            if measure in {"smce", "kce", "ece", "brier", "log_loss", "ecce"}:
                assert result.error_bound is not None
                assert abs(result.value - exact.measures[measure].value) <= result.error_bound + 1e-12, (name, measure)


def test_rows_are_measured_raw_as_long_as_they_fit(table: pa.Table, tmp_path: Path) -> None:
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=101)
    whole = read_table(tmp_path / "rows.parquet", Columns(segments=["city"]))
    reading = open_reading(tmp_path / "rows.parquet", Columns(segments=["city"]))
    (same,) = reading.tables(max_rows=ROWS)
    assert not reading.is_large
    assert np.array_equal(same.prediction, whole.prediction)
    assert (same.notes, same.cautions) == (whole.notes, whole.cautions)
    reading = open_reading(tmp_path / "rows.parquet", Columns(segments=["city"]))
    parts = list(reading.tables(max_rows=ROWS - 1))
    assert reading.is_large
    assert len(parts) > 1
    for name in ("prediction", "outcome", "time_ms"):
        assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))
    codes = np.concatenate([part.segments["city"].codes for part in parts])
    assert np.array_equal(codes, whole.segments["city"].codes)
    assert parts[-1].segments["city"].values == whole.segments["city"].values


DIRT = {
    "p": ["0.5", "1.5", "", "nan", "0.25", "x", "0.75"],
    "y": ["1", "0", "1", "maybe", "false", "1", ""],
    "ts": ["2026-11-20", "2026-11-20T10:00:00Z", "soon", "2026-11-21", "2026-11-20", "2026-11-20", "2026-11-22"],
}


def both_ways(path: Path, **roles: Any) -> tuple[EventTable | str, CountedRows | str]:
    """The result, or the refusal, of raw rows and of counted ones."""
    results: list[Any] = []
    for memory in (None, 0.0):
        try:
            results.append(read_within_memory(ReportOptions(path, Columns(**roles), memory=memory)))
        except InputError as error:
            results.append(str(error))
    return results[0], results[1]


@pytest.mark.parametrize(
    "roles",
    [
        {},
        {"skip_bad_rows": True},
        {"skip_bad_rows": True, "time": "ts"},
        {"skip_bad_rows": True, "positive": "maybe"},
        {"positive": "never"},
        {"skip_bad_rows": True, "positive": "never"},
        {"outcome": "p", "prediction": ["p"]},
    ],
)
def test_dirt_is_refused_or_counted_as_of_raw_rows(roles: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "dirt.csv"
    lines = [",".join(DIRT), *(",".join(row) for row in list(zip(*DIRT.values(), strict=True)) * 400)]
    path.write_text("\n".join(lines) + "\n")
    raw, cells = both_ways(path, **roles)
    if isinstance(raw, str) or isinstance(cells, str):
        assert cells == raw
        assert "00 such rows)" in raw or "no outcome is 'never'" in raw
        return
    assert cells.whole == GridTable.from_events(raw.prediction, raw.outcome)
    assert (cells.notes, cells.cautions) == (raw.notes, raw.cautions)
    times = raw.time_ms
    assert cells.span_ms == (None if times is None else (times.min(), times.max() + 1))


@pytest.mark.parametrize(
    "columns",
    [
        {"p": [0.25] * 60, "y": [1, 0] * 30},
        {"p": [0.0, 1.0] * 30, "y": [1, 0] * 30},
        {"p": [0.1, 0.2, 0.9] * 30, "y": [0, 0, None] * 30},
        {"p": [0.1, 0.2, 0.9], "y": [0, 1, None]},
        {"p": [0.1], "y": [None]},
    ],
)
def test_cautions_are_those_of_raw_rows(columns: dict[str, list[Any]], tmp_path: Path) -> None:
    pq.write_table(pa.table({**columns, "y": pa.array(columns["y"], pa.int8())}), tmp_path / "rows.parquet")
    raw, cells = both_ways(tmp_path / "rows.parquet")
    assert isinstance(raw, EventTable)
    assert isinstance(cells, CountedRows)
    assert cells.cautions == raw.cautions
    assert len(raw.cautions) == (columns["y"] != [None])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"columns": Columns(weight="age")},
            "--weight need all rows at once: choose fewer rows with --where, or give more --memory",
        ),
        ({"columns": Columns(features=["age"])}, "--feature, and the search for segments, need all rows at once"),
        ({"find_segments": True}, "--feature, and the search for segments, need all rows at once"),
        ({"columns": Columns(id="city"), "compare": Path("x")}, "--id need all rows at once"),
        ({"compare": Path("x")}, "--compare needs all rows at once"),
        (
            {"columns": Columns(["p", "age"], "region")},
            "predictions in several columns or lists need all rows at once",
        ),
    ],
)
def test_what_takes_all_rows_is_refused_in_words(
    more: dict[str, Any], words: str, table: pa.Table, tmp_path: Path
) -> None:
    pq.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(InputError) as caught:
        counted(tmp_path / "rows.parquet", **{"columns": Columns(), **more})
    assert words in str(caught.value)


def test_a_segment_column_of_too_many_values_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.reports.evaluation.counting._MAX_VALUES", 500)
    ids = [str(number) for number in range(1000)]
    pq.write_table(pa.table({"p": np.full(1000, 0.5), "y": [0, 1] * 500, "id": ids}), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"^--segment 'id' has .* groups or more, .*: name columns of fewer values"):
        counted(tmp_path / "rows.parquet", columns=Columns(segments=("id",)))


def test_seconds_that_turn_into_milliseconds_are_refused(tmp_path: Path) -> None:
    seconds = 1_770_000_000
    for name, unit in (("a", 1), ("b", 1000)):
        columns = {"p": np.full(1000, 0.5), "y": [0, 1] * 500, "ts": [unit * seconds] * 1000}
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    with pytest.raises(InputError, match="times begin as seconds since the epoch, and later ones are no such seconds"):
        counted(tmp_path, columns=Columns())
    found = read_table(open_tables([str(tmp_path)]))
    assert found.time_ms is not None
    assert found.time_ms[-1] == 1000 * seconds
