"""Folders, patterns, partitions and object stores hold the rows of their files, each once, as one table does."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from monitor.errors import InputError
from monitor.sources.data_sets import open_tables
from monitor.sources.tables import Columns, EventTable, read_table
from tests.real.object_store import object_store

ROWS = 500


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "p": rng.random(ROWS),
            "y": pa.array(rng.integers(0, 2, ROWS), mask=rng.random(ROWS) < 0.1),
            "ts": pa.array(1_770_000_000_000 + rng.integers(0, 10**9, ROWS), pa.timestamp("ms", "UTC")),
            "region": rng.choice(["eu", "us", "01", "a b/c"], ROWS),
        }
    )


def rows_of(table: EventTable) -> list[tuple[Any, ...]]:
    """The rows of a table as values, in an order of their own."""
    assert table.time_ms is not None
    regions = [table.segments["region"].values[code] for code in table.segments["region"].codes]
    return sorted(zip(table.prediction.tolist(), table.outcome.tolist(), table.time_ms.tolist(), regions, strict=True))


def as_one_file(table: pa.Table, folder: Path) -> list[str]:
    pq.write_table(table, folder / "a.parquet")
    return [str(folder / "a.parquet")]


def as_folder(table: pa.Table, folder: Path) -> list[str]:
    for number, start in enumerate(range(0, ROWS, 90)):
        pq.write_table(table.slice(start, 90), folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "part-0.parquet").write_bytes(b"half a file")
    return [f"{folder}/"]


def as_mixed_formats(table: pa.Table, folder: Path) -> list[str]:
    pq.write_table(table.slice(0, 100), folder / "a.parquet", row_group_size=7)
    pa.csv.write_csv(table.slice(100, 100), folder / "b.csv")
    # Another order of columns, and words in the place of numbers.
    words = pa.array([None if value is None else ("no", "yes")[value] for value in table["y"][200:300].to_pylist()])
    third = table.slice(200, 100).set_column(1, "y", words).select(["region", "y", "ts", "p"])
    pa.csv.write_csv(third, folder / "c.csv")
    (folder / "c.csv.gz").write_bytes(gzip.compress((folder / "c.csv").read_bytes()))
    (folder / "c.csv").unlink()
    pq.write_table(table.slice(300), folder / "d.parquet")
    return [str(folder)]


def as_pattern(table: pa.Table, folder: Path) -> list[str]:
    for number, start in enumerate((0, 250)):
        (folder / f"day{number}").mkdir()
        pq.write_table(table.slice(start, 250), folder / f"day{number}" / "scores.parquet")
        pq.write_table(table, folder / f"day{number}" / "other.parquet")
    return [f"{folder}/day[0-9]/scores.*"]


def as_deep_pattern(table: pa.Table, folder: Path) -> list[str]:
    (folder / "2026" / "11").mkdir(parents=True)
    pq.write_table(table.slice(0, 100), folder / "a.parquet")
    pq.write_table(table.slice(100), folder / "2026" / "11" / "b.parquet")
    return [f"{folder}/**/?.parquet"]


def as_several_names(table: pa.Table, folder: Path) -> list[str]:
    pq.write_table(table.slice(0, 10), folder / "a.parquet")
    pq.write_table(table.slice(10), folder / "b.parquet")
    # What is named twice is read once.
    return [str(folder / "a.parquet"), f"{folder}/*.parquet"]


def as_hive_partitions(table: pa.Table, folder: Path) -> list[str]:
    layout = ds.partitioning(pa.schema([("region", pa.string())]), flavor="hive")
    ds.write_dataset(table, folder, format="parquet", partitioning=layout)
    return [str(folder)]


@pytest.mark.parametrize(
    "write",
    [as_folder, as_mixed_formats, as_pattern, as_deep_pattern, as_several_names, as_hive_partitions],
    ids=lambda f: f.__name__,
)
def test_every_form_holds_the_same_rows(
    write: Callable[[pa.Table, Path], list[str]], table: pa.Table, tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    (one,) = as_one_file(table, tmp_path / "one")
    expected = read_table(one, Columns(segments=["region"]))
    names = write(table, tmp_path / "many")
    found = read_table(open_tables(names), Columns(segments=["region"]))
    assert rows_of(found) == rows_of(expected)
    # The same condition, inside of files and on their folders.
    for where in ("region = '01' AND p < 0.5", "p >= 0.25", "NOT region = 'eu' OR y IS NULL"):
        both = (read_table(open_tables(each, where=where), Columns(segments=["region"])) for each in (names, [one]))
        first, second = map(rows_of, both)
        assert first == second
        assert 0 < len(first) < ROWS


def test_an_object_store_is_read_as_a_folder_is(table: pa.Table, tmp_path: Path) -> None:
    (one,) = as_one_file(table, tmp_path)
    expected = rows_of(read_table(one, Columns(segments=["region"])))
    with object_store("scores") as (store, options):
        layout = ds.partitioning(pa.schema([("region", pa.string())]), flavor="hive")
        ds.write_dataset(table, "scores/all", filesystem=store, format="parquet", partitioning=layout)
        with store.open_output_stream("scores/text/rows.csv.gz", compression="gzip") as file:
            pa.csv.write_csv(table, file)
        for name in (f"s3://scores/all?{options}", f"s3://tests:tests@scores/a*/**/*.parquet?{options}"):
            opened = open_tables([name])
            assert "tests" not in opened.name
            assert options not in opened.name
            assert rows_of(read_table(opened, Columns(segments=["region"]))) == expected
            kept = read_table(open_tables([name], where="region = 'eu' AND p > 0.5"), Columns(segments=["region"]))
            assert rows_of(kept) == [row for row in expected if row[3] == "eu" and row[0] > 0.5]
        assert (
            rows_of(read_table(open_tables([f"s3://scores/text?{options}"]), Columns(segments=["region"]))) == expected
        )
        with pytest.raises(InputError, match=r"^s3://scores/nowhere: no file is there; name a file, a folder"):
            open_tables([f"s3://scores/nowhere?{options}"])
        with pytest.raises(InputError, match=r"^s3://other/x: there is no bucket 'other'; check its name, and region"):
            open_tables([f"s3://other/x?{options}"])


def test_a_bad_value_is_found_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p,y\n.5,1\n.5,0\n")
    (tmp_path / "b.csv").write_text("p,y\n.5,1\n\n1.5,0\n7,1\n")
    (tmp_path / "c.csv").write_text("p,y\n-3,1\n.5,0,0\n")
    with pytest.raises(InputError) as caught:
        read_table(open_tables([str(tmp_path / name) for name in ("a.csv", "b.csv")]))
    # Of a text file, lines are counted as editors do.
    assert f"column 'p', {tmp_path / 'b.csv'}, line 4: prediction must be a number from 0 to 1, got '1.5'" in str(
        caught.value
    )
    assert "(2 such rows)" in str(caught.value)
    found = read_table(open_tables([str(tmp_path)], skip_bad_rows=True), Columns(skip_bad_rows=True))
    assert len(found) == 3
    assert found.cautions[0] == "4 of 7 rows are left out, which --skip-bad-rows asks for"
    assert found.cautions[1].startswith("1 row left out: rows must have 2 fields; the first is line 3")
    assert found.cautions[1].endswith(f"(in {tmp_path / 'c.csv'})")
    assert found.cautions[2].startswith("3 rows left out: column 'p'")
    with pytest.raises(InputError, match="row 2 of those that --where keeps: prediction must be"):
        read_table(open_tables([str(tmp_path / "b.csv"), str(tmp_path / "a.csv")], where="y = 1 OR p > 1.2"))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            ["nowhere/**/*"],
            "nowhere/**/*: no file is there; name a file, a folder with files, or a pattern that some match",
        ),
        (["*.parquet"], "*.parquet: no file is there"),
        (["mixed"], "b.txt: files ending in .csv, .tsv"),
        (["odd"], "b.csv: no column 'p', which odd/a.csv has"),
        (["s4://bucket/x"], "s4://bucket/x: cannot be read"),
        (["empty"], "empty: no file is there"),
        (["delta"], "delta: cannot be read: "),
    ],
)
def test_what_cannot_be_read_is_said(names: list[str], words: str, tmp_path: Path, monkeypatch: Any) -> None:
    for name in ("mixed", "odd", "empty", "delta", "delta/_delta_log"):
        (tmp_path / name).mkdir()
    (tmp_path / "mixed" / "a.csv").write_text("p,y\n.5,1\n")
    (tmp_path / "mixed" / "b.txt").write_text("hello")
    (tmp_path / "odd" / "a.csv").write_text("p,y\n.5,1\n")
    (tmp_path / "odd" / "b.csv").write_text("q,y\n.5,1\n")
    (tmp_path / "delta" / "_delta_log" / "0.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        read_table(open_tables(names), Columns(prediction=["p"]))
    assert words in str(caught.value)


def test_only_folders_that_may_hold_rows_are_opened(tmp_path: Path) -> None:
    for region, text in (("eu", "p,y\n.5,1\n"), ("us", "no table at all")):
        (tmp_path / f"region={region}").mkdir()
        (tmp_path / f"region={region}" / "a.csv").write_text(text)
    found = read_table(open_tables([str(tmp_path)], where="region = 'eu' AND p < 0.7"))
    assert found.prediction.tolist() == [0.5]
