"""Tables in memory are read as files are: DataFrames, Arrow tables and arrays by name alike."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from monitor.errors import InputError
from monitor.sources.formats import MemoryTable, is_table
from monitor.sources.tables import Columns, EventTable, read_table

COLUMNS: dict[str, list[Any]] = {
    "score": [0.1, 0.9, 0.4],
    "label": [0, 1, None],
    "region": ["eu", None, "us"],
    "age": [30, 41, 52],
    "at": [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)],
}

KINDS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas with categories": lambda columns: pd.DataFrame(columns).astype({"region": "category"}),
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "record batch": pa.RecordBatch.from_pydict,
    "lists": dict,
    "arrays": lambda columns: {name: np.array(values) for name, values in columns.items()},
}


def read(data: Any, **columns: Any) -> EventTable:
    return read_table(MemoryTable(data), Columns(**columns))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_rows(kind: str) -> None:
    table = read(
        KINDS[kind](COLUMNS), prediction=["score"], outcome="label", time="at", segments=["region"], features=["age"]
    )
    assert table.prediction.tolist() == [0.1, 0.9, 0.4]
    assert table.outcome.tolist() == [0, 1, -1]
    region = table.segments["region"]
    assert np.array(region.values)[region.codes].tolist() == ["eu", "(empty)", "us"]
    assert table.features is not None
    assert table.features[:, 0].tolist() == [30.0, 41.0, 52.0]
    assert table.time_ms is not None
    assert np.diff(table.time_ms).tolist() == [86_400_000] * 2


def test_columns_are_guessed_by_their_names() -> None:
    table = read(pd.DataFrame({"p": [0.2, 0.3], "y": [True, False]}))
    assert table.outcome.tolist() == [1, 0]
    assert table.notes == ("prediction read from column 'p'", "outcome read from column 'y'")


def test_structured_arrays_are_tables() -> None:
    data = np.array([(0.2, 1), (0.3, 0)], dtype=[("p", "f8"), ("y", "i4")])
    assert read(data).prediction.tolist() == [0.2, 0.3]


def test_a_column_of_vectors_may_be_an_array_of_two_dimensions() -> None:
    table = read({"p": np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]]), "y": np.array([2, 0])})
    assert table.prediction.shape == (2, 3)
    assert table.classes == ("0", "1", "2")


def test_only_the_columns_that_are_needed_are_read() -> None:
    table = read(pd.DataFrame({"p": [0.2], "y": [1], "anything": [object()]}))
    assert len(table) == 1


def test_masked_outcomes_are_unknown() -> None:
    table = read({"p": [0.2, 0.4], "y": np.ma.array([1, 0], mask=[False, True])})
    assert table.outcome.tolist() == [1, -1]


def test_rows_are_counted_from_0() -> None:
    with pytest.raises(InputError, match=r"the table: column 'p', row 1: prediction must be .*, got 1\.5"):
        read({"p": [0.5, 1.5], "y": [0, 1]})


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(InputError, match="must be a DataFrame, an Arrow table, or arrays by name, got LazyFrame; coll"):
        read(pl.DataFrame({"p": [0.5]}).lazy())
    with pytest.raises(InputError, match=r"must be equally long, got \{'p': 2, 'y': 1\}"):
        read({"p": [0.5, 0.5], "y": [1]})
    with pytest.raises(InputError, match="column 'p' occurs twice"):
        read(pd.DataFrame([[0.5, 0.5]], columns=["p", "p"]))


@pytest.mark.parametrize("column", [[0.5], np.array([0.5]), pd.Series([0.5]), pl.Series([0.5]), pa.array([0.5]), "p"])
def test_a_single_column_is_no_table(column: Any) -> None:
    assert not is_table(column)
