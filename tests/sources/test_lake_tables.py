"""Delta and Iceberg tables hold the rows that their own libraries say, also after rows were deleted or changed."""

import json
from pathlib import Path
from typing import Any

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import DayTransform

from monitor.errors import InputError
from monitor.reports.evaluation.counting import CountedRows
from monitor.reports.findings import ReportOptions, read_within_memory
from monitor.sources import row_filter
from monitor.sources.data_sets import open_tables
from monitor.sources.tables import Columns, read_table
from tests.cli.command import monitor

ROWS = 2000
WHERE = "region = 'eu' AND ts >= '2026-02-05' AND p < 0.5"


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(8)
    return pa.table(
        {
            "p": rng.random(ROWS),
            "y": pa.array(rng.integers(0, 2, ROWS), mask=rng.random(ROWS) < 0.1),
            "ts": pa.array(
                1_770_000_000_000_000 + rng.integers(0, 5 * 86_400_000_000, ROWS), pa.timestamp("us", "UTC")
            ),
            "region": pa.array(rng.choice(["eu", "us"], ROWS), mask=rng.random(ROWS) < 0.05),
        }
    )


def as_delta(table: pa.Table, folder: Path) -> tuple[str, pa.Table]:
    """A table with a version that is gone; its name, and its rows as deltalake has them."""
    name = str(folder / "delta")
    deltalake.write_deltalake(name, table.slice(0, 1200), partition_by=["region"])
    deltalake.write_deltalake(name, table.slice(1200), mode="append")
    lake = deltalake.DeltaTable(name)
    lake.delete("p > 0.9")
    lake.update(updates={"p": "0.25"}, predicate="p < 0.01")
    return name, lake.to_pyarrow_table()


def as_iceberg(table: pa.Table, folder: Path) -> tuple[str, pa.Table]:
    """A table, partitioned by day, with deleted rows; its name, and its rows as pyiceberg has them."""
    lake = iceberg_table(folder, table)
    lake.append(table.slice(0, 1200))
    lake.append(table.slice(1200))
    lake.delete("p > 0.9")
    return str(folder / "lake" / "scores" / "churn"), lake.scan().to_arrow()


def iceberg_table(folder: Path, table: pa.Table) -> Any:
    (folder / "lake").mkdir()
    catalog = SqlCatalog("house", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/lake")
    catalog.create_namespace("scores")
    created = catalog.create_table("scores.churn", schema=table.schema)
    with created.update_spec() as update:
        update.add_field("ts", DayTransform(), "day")
    return created


def values_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table as values, in an order of their own."""
    columns = (
        table["p"].to_pylist(),
        pc.fill_null(table["y"], -1).to_pylist(),
        [micros // 1000 for micros in table["ts"].cast(pa.int64()).to_pylist()],
        pc.fill_null(table["region"].cast(pa.string()), "(empty)").to_pylist(),
    )
    return sorted(zip(*columns, strict=True))


def read(name: str, where: str | None = None) -> list[tuple[Any, ...]]:
    found = read_table(open_tables([name], where=where), Columns(segments=["region"]))
    assert found.time_ms is not None
    region = [found.segments["region"].values[code] for code in found.segments["region"].codes]
    return sorted(zip(found.prediction.tolist(), found.outcome.tolist(), found.time_ms.tolist(), region, strict=True))


@pytest.mark.parametrize("write", [as_delta, as_iceberg], ids=lambda f: f.__name__)
def test_the_rows_are_those_of_the_current_version(write: Any, table: pa.Table, tmp_path: Path) -> None:
    name, expected = write(table, tmp_path)
    assert 0 < len(expected) < ROWS
    assert read(name) == values_of(expected)
    kept = expected.filter(row_filter.RowFilter(WHERE).expression(expected.schema))
    assert 0 < len(kept) < len(expected)
    assert read(name, WHERE) == values_of(kept)
    # More rows than fit are counted.
    options = ReportOptions(open_tables([name]), Columns(segments=("region",)), memory=0.0)
    counted = read_within_memory(options)
    assert isinstance(counted, CountedRows)
    assert counted.whole.predictions == len(expected)
    assert {segment: cells.predictions for segment, cells in counted.segments} == {
        f"region={each['values'] or '(empty)'}": each["counts"]
        for each in pc.value_counts(expected["region"].combine_chunks()).to_pylist()
    }


def test_only_files_that_may_hold_rows_are_read(table: pa.Table, tmp_path: Path) -> None:
    name, _ = as_iceberg(table, tmp_path)
    files = sorted((tmp_path / "lake" / "scores" / "churn" / "data").rglob("*.parquet"))
    late = [file for file in files if pc.min(pq.read_table(file)["ts"]).as_py().day < 5]
    assert 0 < len(late) < len(files)
    for file in late:
        file.write_bytes(b"not to be read")
    assert read(name, WHERE)
    with pytest.raises(InputError, match=r"churn: cannot be read"):
        read(name)


def test_an_iceberg_table_is_named_by_metadata_or_catalog(table: pa.Table, tmp_path: Path) -> None:
    lake = iceberg_table(tmp_path, table)
    lake.append(table.slice(0, 10))
    first = lake.metadata_location.removeprefix("file://")
    lake.append(table.slice(10, 10))
    assert len(read(first)) == 10
    assert len(read(lake.metadata_location)) == 20
    # pyiceberg reads its configuration when it is imported.
    done = monitor(
        *("report", "iceberg://house/scores.churn", "--draws", "0", "--json"),
        cwd=tmp_path,
        PYICEBERG_CATALOG__HOUSE__URI=f"sqlite:///{tmp_path}/catalog.db",
        PYICEBERG_CATALOG__HOUSE__TYPE="sql",
    )
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert (found["model"], found["predictions"]) == ("churn", 20)
    folder = tmp_path / "lake" / "scores" / "churn"
    newest = folder / "metadata" / Path(lake.metadata_location).name
    newest.with_name(newest.name.replace(".metadata", "-other.metadata")).write_bytes(newest.read_bytes())
    with pytest.raises(InputError, match=r"churn: is an Iceberg table with 2 metadata files of one version; name the"):
        open_tables([str(folder)])


def test_a_lake_table_is_no_folder_of_files(table: pa.Table, tmp_path: Path) -> None:
    as_delta(table, tmp_path)
    pq.write_table(table, tmp_path / "other.parquet")
    for names in ([str(tmp_path)], [str(tmp_path / "delta"), str(tmp_path / "other.parquet")]):
        with pytest.raises(InputError, match="whose files may hold deleted rows: name that table alone"):
            open_tables(names)


def test_a_broken_lake_table_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(InputError, match=f"^{tmp_path}: cannot be read: "):
        open_tables([str(tmp_path)])
    with pytest.raises(InputError, match=r"^iceberg://nowhere/a.b: cannot be read: "):
        open_tables(["iceberg://nowhere/a.b"])
