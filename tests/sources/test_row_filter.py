"""Conditions of --where keep the rows that DuckDB's WHERE keeps, with missing values; others are refused in words."""

import datetime as dt

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import InputError
from monitor.sources.row_filter import RowFilter

NUMBERS = [None, 0.0, 0.25, 0.5, 1.0, 3.0]
TEXTS = [None, "eu", "us", "01", ""]
ROWS = pa.Table.from_pylist(
    [
        {"number": number, "text": text, "flag": flag}
        for number in NUMBERS
        for text in TEXTS
        for flag in (None, True, False)
    ]
)


def simple() -> st.SearchStrategy[str]:
    sign = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="])
    numbers = st.sampled_from(["0", "0.25", "1", "2.5", "-1"])
    texts = st.sampled_from(["'eu'", "'us'", "'01'", "''"])
    several = st.lists(numbers, min_size=1, max_size=3).map(lambda each: f"({', '.join(each)})")
    return st.one_of(
        st.tuples(st.just("number"), sign, numbers).map(" ".join),
        st.tuples(numbers, sign, st.just("number")).map(" ".join),
        st.tuples(st.just("text"), sign, texts).map(" ".join),
        st.tuples(st.just("number"), st.sampled_from(["IN", "not in"]), several).map(" ".join),
        st.tuples(st.sampled_from(["number", "text", "flag"]), st.sampled_from(["IS NULL", "is not null"])).map(
            " ".join
        ),
        st.sampled_from(["flag", "flag = true", "flag != False", "NOT flag"]),
    )


conditions = st.recursive(
    simple(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "or"]), inner).map(" ".join),
        inner.map(lambda each: f"({each})"),
        inner.map(lambda each: f"NOT ({each})"),
    ),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(conditions)
def test_rows_are_those_of_sql(condition: str) -> None:
    expected = duckdb.connect().from_arrow(ROWS).filter(condition).to_arrow_table()
    assert RowFilter(condition).keep(ROWS).to_pylist() == expected.to_pylist()


@settings(max_examples=60, deadline=None)
@given(conditions, st.sets(st.sampled_from(["number", "text", "flag"])))
def test_the_part_within_some_columns_loses_no_row(condition: str, columns: set[str]) -> None:
    whole = RowFilter(condition)
    part = whole.within(columns)
    if part is None:
        return
    assert set(part.columns) <= columns
    assert whole.keep(part.keep(ROWS)).equals(whole.keep(ROWS))


def test_columns_of_every_type() -> None:
    moments = [dt.datetime(2026, 11, day, 12, tzinfo=dt.UTC) for day in (1, 2, 3)]
    table = pa.table(
        {
            "id": [1, 2, 3],
            "zoned": pa.array(moments, pa.timestamp("ms", "Europe/Berlin")),
            "naive": pa.array([moment.replace(tzinfo=None) for moment in moments], pa.timestamp("us")),
            "day": pa.array([moment.date() for moment in moments]),
            "price": pa.array(["1.50", "2.50", None]).cast(pa.decimal128(10, 2)),
            "few": pa.array(["a", "b", "a"]).dictionary_encode(),
            "digits": ["0.5", "1e3", None],
            "with space": [1, 2, 3],
        }
    )
    for condition, expected in {
        "zoned >= '2026-11-02T13:00:00+01:00'": [2, 3],
        "naive < '2026-11-02'": [1],
        "day = '2026-11-03'": [3],
        "price > 1.5": [2],
        "few = 'a' AND id > 1": [3],
        "digits > 0.5": [2],
        "`with space` = 2": [2],
        "1 < id <= 2": [2],
        'id = `with space` AND few != "b"': [1, 3],
    }.items():
        assert RowFilter(condition).keep(table)["id"].to_pylist() == expected, condition


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("number ~ 3", "cannot be read: comparisons of columns with constants"),
        ("number LIKE 3", "cannot be read"),
        ("flag() = 3", "comparisons of columns with constants"),
        ("number + 1 > 3", "comparisons of columns with constants"),
        ("1 = 1", "it names no column"),
        ("number", "comparisons of columns with constants"),
        ("nowhere = 1", "there is no column 'nowhere'; columns are 'number', 'text', 'flag'"),
        ("number = 'x'", "column 'number' holds double, which 'x' cannot be compared with"),
        ("number = NULL", "write IS NULL"),
        ("text > 3", "a value cannot be compared"),
        ("number IS 3", "write IS NULL"),
        ("number IN ()", "IN needs at least one value"),
    ],
)
def test_what_is_no_condition_is_refused_in_words(condition: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        RowFilter(condition).keep(ROWS)
    assert words in str(caught.value)
    assert f"--where {condition!r}" in str(caught.value)


def test_a_time_that_is_none() -> None:
    table = pa.table({"at": pa.array([0], pa.timestamp("ms"))})
    with pytest.raises(InputError, match="'yesterday' is no time: write it like '2026-11-20'"):
        RowFilter("at > 'yesterday'").keep(table)
