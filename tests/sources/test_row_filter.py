"""Conditions of --where keep the rows that DuckDB's WHERE keeps, with missing values; others are refused in words."""

import csv
import datetime as dt
import json
import sqlite3

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InputError
from monitor.sources.data_sets import open_tables
from monitor.sources.row_filter import RowFilter
from tests.long import examples

NUMBERS = [None, 0.0, 0.25, 0.1, 1.0, 3.0]
TEXTS = [None, "eu", "O'Brien", "OBrien", "01", "x", r"C:\new", "C:\new", "a''b", 'say "x"', "äß"]
WHOLE = [None, 0, 1, -1, 2**53 + 1, 2**63 - 1]
TIMES = [None, dt.datetime(2026, 11, 1), dt.datetime(2026, 11, 2, 10, 30), dt.datetime(2026, 11, 2, 10, 30, 0, 500)]  # noqa: DTZ001 - SQL's TIMESTAMP has no zone
ODD = 'odd "name"'
ROWS = pa.Table.from_pylist(
    [
        {
            "row": row * len(TEXTS) + column,
            "number": number,
            "text": text,
            "flag": (None, True, False)[(row + column) % 3],
            "whole": WHOLE[(row + column) % len(WHOLE)],
            ODD: TEXTS[(row * 3 + column) % len(TEXTS)],
            "moment": TIMES[(row + column * 2) % len(TIMES)],
        }
        for row, number in enumerate(NUMBERS)
        for column, text in enumerate(TEXTS)
    ]
)
TYPED = (
    ROWS.append_column("short", ROWS["number"].cast(pa.float32()))
    .append_column("price", ROWS["number"].cast(pa.decimal128(10, 2)))
    .append_column("code", ROWS["text"].dictionary_encode())
    .append_column("day", ROWS["moment"].cast(pa.date32(), safe=False))
    .append_column("large", pa.array([None, 2**64 - 1, 0] * 22, pa.uint64()))
)
QUOTED = '"odd ""name"""'
NUMERIC = ["0", "0.25", "0.1", ".1", "1.", "-1", "+1", "1e-1"]
TEXTUAL = ["'eu'", "'O''Brien'", "'OBrien'", "'01'", "''", r"'C:\new'", r"'a\'", "'a''''b'", "'say \"x\"'", "'äß'"]
TEMPORAL = ["'2026-11-01'", "'2026-11-02T10:30:00'", "'2026-11-02 10:30:00.0005'", "'2026-11-02T10:30:00Z'"]
LARGE = ["0", "-1", "- 1", "1.5", "1.0", "9007199254740993", "9007199254740992.5", "99999999999999999999"]
EVERYWHERE = {"number": NUMERIC, "text": TEXTUAL, QUOTED: TEXTUAL}
"""Columns that any file can hold, and constants to compare them with."""
CONSTANTS = {
    **EVERYWHERE,
    "short": NUMERIC,
    "whole": LARGE,
    "large": LARGE,
    "price": ["0.1", "0.25", "0.245", "1", "-1"],
    "code": TEXTUAL,
    "moment": TEMPORAL,
    "day": ["'2026-11-01'", "'2026-11-02'"],
    "flag": ["TRUE", "false"],
}
ALIKE = [["number", "short"], ["text", QUOTED, "code"], ["moment", "day"], ["whole", "number"], ["flag"]]
SIGNS = st.sampled_from(["=", "==", "!=", "<>", "<", "<=", ">", ">="])


def comparisons(column: str, constants: list[str]) -> st.SearchStrategy[str]:
    name, constant = st.sampled_from([column, f"({column})"]), st.sampled_from(constants)
    several = st.lists(constant, min_size=1, max_size=3).map(lambda each: f"({', '.join(each)})")
    return st.one_of(
        st.tuples(name, SIGNS, constant).map(" ".join if column == "flag" else "".join),
        st.tuples(constant, SIGNS, name).map(" ".join),
        st.tuples(name, st.sampled_from(["IN", "not in", "Not  In"]), several).map(" ".join),
        st.tuples(name, st.sampled_from(["IS NULL", "is not null"])).map(" ".join),
    )


def conditions(*more: st.SearchStrategy[str], columns: dict[str, list[str]]) -> st.SearchStrategy[str]:
    return st.recursive(
        st.one_of(*more, *(comparisons(*column) for column in columns.items())),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "or"]), inner).map(" ".join),
            inner.map(lambda each: f"({each})"),
            inner.map(lambda each: f"NOT {each}"),
            inner.map(lambda each: f"NOT ({each})"),
        ),
        max_leaves=5,
    )


pairs = st.sampled_from(ALIKE).flatmap(
    lambda names: st.tuples(st.sampled_from(names), SIGNS, st.sampled_from(names)).map(" ".join)
)
anything = conditions(pairs, st.sampled_from(["flag", "NOT flag", "(flag)"]), columns=CONSTANTS)
duck = duckdb.connect()


@examples(80, 300)
@given(anything)
def test_rows_are_those_of_sql(condition: str) -> None:
    expected = duck.from_arrow(TYPED).filter(condition).to_arrow_table()
    assert RowFilter(condition).keep(TYPED).to_pylist() == expected.to_pylist()


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str | None]]:
    """The same rows in each kind of source: its name, and the query of a database."""
    folder, rows = tmp_path_factory.mktemp("sources"), ROWS.select(["row", "number", "text", ODD])
    pq.write_table(rows, folder / "rows.parquet", row_group_size=11)
    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([rows.column_names, *(row.values() for row in rows.to_pylist())])
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows.to_pylist())), "utf-8")
    deltalake.write_deltalake(str(folder / "delta"), rows)
    for region in (0, 1):
        part = folder / "parts" / f"half={region}" / "rows.parquet"
        part.parent.mkdir(parents=True)
        pq.write_table(rows.slice(33 * region, 33), part)
    with sqlite3.connect(folder / "rows.db") as database:
        database.execute(f"CREATE TABLE scores (row INT, number REAL, text TEXT, {QUOTED} TEXT)")
        database.executemany(
            "INSERT INTO scores VALUES (?, ?, ?, ?)", [tuple(row.values()) for row in rows.to_pylist()]
        )
    names = [str(folder / name) for name in ("rows.parquet", "rows.csv", "rows.jsonl", "delta", "parts")]
    return [*((name, None) for name in names), (f"sqlite:///{folder}/rows.db", "SELECT * FROM scores")]


@examples(10, 25)
@given(condition=conditions(columns=EVERYWHERE))
def test_every_source_keeps_the_same_rows(sources: list[tuple[str, str | None]], condition: str) -> None:
    expected = duck.from_arrow(ROWS).filter(condition).to_arrow_table()["row"].to_pylist()
    for name, query in sources:
        pieces = open_tables([name], where=condition, query=query).pieces(["row"])
        assert [int(row) for (array,) in pieces for row in array.to_pylist()] == expected, name


@examples(20, 60)
@given(anything, st.sets(st.sampled_from(TYPED.column_names)))
def test_the_part_within_some_columns_loses_no_row(condition: str, columns: set[str]) -> None:
    whole = RowFilter(condition)
    part = whole.within(columns)
    if part is None:
        return
    assert set(part.columns) <= columns
    assert whole.keep(part.keep(TYPED)).equals(whole.keep(TYPED))


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
        "id = `with space` AND few != 'b'": [1, 3],
        f"id IN ({', '.join(map(str, range(2, 1002)))})": [2, 3],
    }.items():
        assert RowFilter(condition).keep(table)["id"].to_pylist() == expected, condition


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("number ~ 3", "cannot be read: comparisons of columns with constants"),
        ("number LIKE 3", "cannot be read"),
        ("flag() = 3", "cannot be read: comparisons of columns with constants"),
        ("number + 1 > 3", "comparisons of columns with constants"),
        ("1 = 1", "it names no column"),
        ("number", "comparisons of columns with constants"),
        ("nowhere = 1", "there is no column 'nowhere'; columns are 'row', 'number', 'text', 'flag'"),
        ('text = "eu"', "there is no column 'eu'; columns are 'row', "),
        ("text = 'O'Brien'", "cannot be read"),
        (r"text = 'O\'Brien'", "cannot be read"),
        ("number > 1_000", "cannot be read"),
        ("0 < number < 1", "cannot be read"),
        ("number = 1 -- all", "cannot be read"),
        ("number NOT = 1", "cannot be read"),
        ("(number = 1", "cannot be read"),
        (f"number IN (1{', 1' * 20_000})", "it has 20,001 comparisons, at most 1,000 are read"),
        ("number = text", "columns cannot be compared"),
        ("number = 'x'", "column 'number' holds double, which 'x' cannot be compared with"),
        ("number = NULL", "write IS NULL"),
        ("text > 3", "a value cannot be compared"),
        ("number IS 3", "IS NULL, IS NOT NULL"),
        ("number IN ()", "cannot be read"),
    ],
)
def test_what_is_no_condition_is_refused_in_words(condition: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        RowFilter(condition).keep(ROWS)
    assert words in str(caught.value)
    assert f"--where {condition!r}" in str(caught.value)


def test_a_time_that_is_none() -> None:
    table = pa.table({"moment": pa.array([0], pa.timestamp("ms"))})
    with pytest.raises(InputError, match="'yesterday' is no time: write it like '2026-11-20'"):
        RowFilter("moment > 'yesterday'").keep(table)
