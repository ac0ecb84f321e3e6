"""The rows of a query are those of the same rows in a file, from a real PostgreSQL and from SQLite, batch by batch."""

import sqlite3
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from monitor.errors import InputError
from monitor.reports.evaluation.counting import CountedRows
from monitor.reports.findings import ReportOptions, read_within_memory
from monitor.scores import GridTable
from monitor.sources import sql_query
from monitor.sources.columns import EMPTY
from monitor.sources.data_sets import open_tables
from monitor.sources.tables import Columns, read_table
from tests.patience import eventually
from tests.real.postgres import PASSWORD, PostgresServer

ROWS = 1000


@pytest.fixture(params=["sqlite", "duckdb", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty database is."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/scores.db"
    if request.param == "duckdb":
        duckdb.connect(f"{tmp_path}/scores.duckdb").close()
        return f"duckdb:///{tmp_path}/scores.duckdb"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.url(server.new_database())


def filled(database: str) -> pa.Table:
    """Write a table of scores; its rows in order."""
    rng = np.random.default_rng(2)
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "score": np.round(rng.random(ROWS), 6),
            "label": pa.array(rng.integers(0, 2, ROWS).astype(bool), mask=rng.random(ROWS) < 0.1),
            "made": pa.array(1_770_000_000 + rng.integers(0, 10**6, ROWS), pa.timestamp("s", "UTC")),
            "region": pa.array(rng.choice(["eu", "us"], ROWS), mask=rng.random(ROWS) < 0.05),
        }
    )
    if database.startswith("duckdb:"):
        with duckdb.connect(database.removeprefix("duckdb:///")) as connection:
            connection.register("rows", table)
            connection.sql("CREATE TABLE scores AS SELECT * FROM rows")
        return table
    columns: list[sa.Column[Any]] = [
        sa.Column("id", sa.Integer),
        sa.Column("score", sa.Double),
        sa.Column("label", sa.Boolean),
        sa.Column("made", sa.DateTime(timezone=True)),
        sa.Column("region", sa.Text),
    ]
    engine = sa.create_engine(database.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool)
    scores = sa.Table("scores", sa.MetaData(), *columns)
    with engine.begin() as connection:
        scores.create(connection)
        connection.execute(scores.insert(), table.to_pylist())
    return table


QUERY = "SELECT score AS p, label AS y, made AS ts, region FROM scores WHERE region LIKE '%u%' ORDER BY id;"


def test_a_query_gives_the_rows_of_a_file(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in ("_BATCH_ROWS", "_ARROW_ROWS"):
        monkeypatch.setattr(sql_query, size, 64)
    monkeypatch.setattr(sql_query, "_COPY_BYTES", 1024)
    table = filled(database)
    pq.write_table(table.rename_columns(["id", "p", "y", "ts", "region"]), tmp_path / "rows.parquet")
    expected = read_table(
        open_tables([str(tmp_path / "rows.parquet")], where="region IS NOT NULL"), Columns(segments=["region"])
    )
    opened = open_tables([database], query=QUERY)
    assert opened.names() == ["p", "y", "ts", "region"]
    found = read_table(opened, Columns(segments=["region"]))
    assert np.array_equal(found.prediction, expected.prediction)
    assert np.array_equal(found.outcome, expected.outcome)
    assert found.time_ms is not None
    assert expected.time_ms is not None
    assert np.array_equal(found.time_ms, expected.time_ms)
    assert found.segments["region"].values == expected.segments["region"].values
    assert np.array_equal(found.segments["region"].codes, expected.segments["region"].codes)
    assert max(len(arrays[0]) for arrays in opened.pieces(["p"])) < 100
    kept = read_table(open_tables([database], query=QUERY, where="p > 0.5"))
    assert np.array_equal(kept.prediction, expected.prediction[expected.prediction > 0.5])
    options = ReportOptions(open_tables([database], query=QUERY), memory=0.0)
    counted = read_within_memory(options)
    assert isinstance(counted, CountedRows)
    assert counted.whole == GridTable.from_events(expected.prediction, expected.outcome)


@pytest.mark.postgres
def test_decimals_and_times_of_any_zone_are_numbers_and_moments(postgres_server: PostgresServer) -> None:
    url = postgres_server.url(postgres_server.new_database())
    rows = "VALUES (0.25, 't'::boolean, '2026-02-03 04:05:06+09'::timestamptz), (1, NULL, '2026-02-02 19:05:07Z')"
    found = read_table(open_tables([url], query=f"SELECT * FROM ({rows}) AS rows (p, y, ts)"))
    assert found.prediction.tolist() == [0.25, 1.0]
    assert found.outcome.tolist() == [1, -1]
    assert found.time_ms is not None
    assert found.time_ms.tolist() == [1_770_059_106_000, 1_770_059_107_000]


ALIKE = {
    "small": "1::int2",
    "whole": "7::int4",
    "large": "9007199254740993::int8",
    "single": "0.1::float4",
    "nan": "'NaN'::float8",
    "infinite": "'-infinity'::float8",
    "decimal": "0.30::numeric(10, 2)",
    "long_decimal": "123456789012345678901234567890.123456789::numeric",
    "truth": "true",
    "text": "'caf' || chr(233)",
    "padded": "'x'::char(3)",
    "mood": "'happy'::mood",
    "probability": "0.5::probability",
    "money": "12.5::money",
    "moment": "'2026-02-03 04:05:06.789+09'::timestamptz",
    "local": "'2026-02-03 04:05:06'::timestamp",
    "day": "'2026-02-03'::date",
    "key": "'5b1f0b1e-0000-4000-8000-000000000001'::uuid",
    "number_of_object": "7::oid",
    "hour": "'10:00'::time",
    "octets": "'abc'::bytea",
    "nothing": "NULL::int4",
    "untyped": "NULL",
    'a "quoted" name': "1",
    "colon: percent %": "'a:b 100%'",
}
"""Column -> what is selected as it, of which every role reads the same from both drivers."""


@pytest.mark.postgres
def test_columns_of_postgresql_are_those_of_its_driver_for_rows(postgres_server: PostgresServer) -> None:
    url = postgres_server.url(postgres_server.new_database())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('happy', 'sad')")
        connection.execute("CREATE DOMAIN probability AS float8 CHECK (value BETWEEN 0 AND 1)")
    names = [name.replace('"', '""') for name in ALIKE]
    selected = ", ".join(f'{value} AS "{name}"' for name, value in zip(names, ALIKE.values(), strict=True))
    query = f"SELECT 0.5 AS p, 1 AS y, {selected} UNION ALL SELECT 0.25, 0, {', '.join(['NULL'] * len(ALIKE))}"
    columns = open_tables([url], query=query)
    rows = sql_query.RowsQuery(sa.make_url(url.replace("postgresql:", "postgresql+psycopg:")), query)
    assert columns.names() == rows.names()
    for name in ALIKE:
        role = Columns(segments=[name])
        expected, found = (read_table(table, role).segments[name] for table in (rows, columns))
        assert found.values == expected.values, name
        assert np.array_equal(found.codes, expected.codes)
        values = [read_table(table, Columns("p", "y"), values=[name]).values[name] for table in (rows, columns)]
        if isinstance(values[0], np.ndarray):
            assert isinstance(values[1], np.ndarray)
            assert np.array_equal(values[0], values[1], equal_nan=True), name
        else:
            assert isinstance(values[0], type(values[1]))


@pytest.mark.postgres
def test_types_that_one_driver_reads_and_the_other_does_not(postgres_server: PostgresServer) -> None:
    url = postgres_server.url(postgres_server.new_database())
    with psycopg.connect(postgres_server.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    values = {
        "address": ("'10.1.2.3'::inet", "10.1.2.3/32"),
        "nan": ("'NaN'::numeric", EMPTY),
        "json": ("""'{"a": 1}'::json""", '{"a": 1}'),
        "forever": ("'infinity'::timestamptz", EMPTY),
        "never": ("'-infinity'::date", EMPTY),
    }
    for name, (value, text) in values.items():
        query = f"SELECT 0.5 AS p, 1 AS y, {value} AS {name}"
        assert read_table(open_tables([url], query=query), Columns(segments=[name])).segments[name].values == (text,)
    latin = open_tables([postgres_server.url("latin")], query="SELECT 0.5 AS p, 1 AS y, chr(233) AS e")
    assert read_table(latin, Columns(segments=["e"])).segments["e"].values == ("\N{LATIN SMALL LETTER E WITH ACUTE}",)
    vectors = "SELECT ARRAY[0.25, 0.5, 0.25]::numeric[] AS p, 1 AS y UNION ALL SELECT ARRAY[0.5, 0.25, 0.25], 2"
    assert read_table(open_tables([url], query=vectors)).prediction.tolist() == [[0.25, 0.5, 0.25], [0.5, 0.25, 0.25]]


@pytest.mark.postgres
def test_the_server_keeps_rows_until_they_are_fetched(postgres_server: PostgresServer) -> None:
    url = postgres_server.url(postgres_server.new_database())
    rows = "SELECT i / 3e6::float8 AS p, 1 AS y FROM (SELECT generate_series(1, 3000000) AS i) AS numbers"
    with psycopg.connect(url, autocommit=True) as connection:

        def states() -> set[tuple[str, str | None]]:
            of_others = "WHERE datname = current_database() AND pid != pg_backend_pid()"
            return set(connection.execute(f"SELECT state, wait_event FROM pg_stat_activity {of_others}").fetchall())

        pieces = open_tables([url], query=rows).pieces(["p", "y"])
        first = next(pieces)[0]
        assert len(first) < 100_000
        eventually(lambda: states() == {("active", "ClientWrite")})
        assert len(first) + sum(len(arrays[0]) for arrays in pieces) == 3_000_000
        # Who reads no more does not wait for the rest.
        pieces = open_tables([url], query=rows.replace("3000000", "3000000000")).pieces(["p"])
        next(pieces)
        pieces.close()  # type: ignore[attr-defined]
        eventually(lambda: not states())


def test_an_error_after_the_first_rows_is_of_the_query(database: str) -> None:
    filled(database)
    numbers = "WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < 100000)"
    failing, reason = {
        "sqlite": ("abs(i - 90000 - 9223372036854775807)", "integer overflow"),
        "duckdb": ("CAST(CASE WHEN i < 90000 THEN '1' ELSE 'x' END AS integer)", "Conversion Error: Could not convert"),
        "postgresql": ("1 / (90000 - i)", "division by zero$"),
    }[database.partition(":")[0]]
    pieces = open_tables([database], query=f"{numbers} SELECT {failing} AS p FROM numbers").pieces(["p"])
    with pytest.raises(InputError, match=f"the query failed: {reason}"):
        list(pieces)


def test_values_of_sqlite_have_types_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_query, "_BATCH_ROWS", 2)
    values: list[Any] = [None, None, 1, 0, 0.1, 1, "0.7", 0.5, "1", "0"]
    with sqlite3.connect(tmp_path / "any.db") as connection:
        connection.execute("CREATE TABLE scores (p, y)")
        connection.executemany("INSERT INTO scores VALUES (?, 1)", [(value,) for value in values])
    table = open_tables([f"sqlite:///{tmp_path}/any.db"], query="SELECT p, y FROM scores")
    found = read_table(table, Columns(skip_bad_rows=True))
    assert found.prediction.tolist() == [1.0, 0.0, 0.1, 1.0, 0.7, 0.5, 1.0, 0.0]
    assert found.cautions[1].startswith(
        "2 rows left out: column 'p': prediction must be a number from 0 to 1; the first"
    )


def test_what_a_query_changes_is_not_kept(database: str) -> None:
    filled(database)
    if database.startswith("postgresql"):
        changing = "WITH gone AS (DELETE FROM scores RETURNING score AS p, 1 AS y) SELECT * FROM gone"
        with pytest.raises(InputError, match="WITH clause containing a data-modifying statement must be at the top"):
            open_tables([database], query=changing)
        with psycopg.connect(database, autocommit=True) as connection:
            inserted = "INSERT INTO scores VALUES (-1, .5, true, now(), 'eu') RETURNING score"
            connection.execute(f"CREATE FUNCTION insert_one() RETURNS float8 LANGUAGE sql AS $${inserted}$$")
            assert len(read_table(open_tables([database], query="SELECT insert_one() AS p, 1 AS y"))) == 1
            assert connection.execute("SELECT count(*) FROM scores").fetchone() == (ROWS,)
    with pytest.raises(InputError, match="the query failed: "):
        open_tables([database], query="DELETE FROM scores")
    assert len(read_table(open_tables([database], query=QUERY))) > 0


def test_errors_say_what_to_do_and_hide_the_password(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(database)
    with pytest.raises(InputError) as caught:
        open_tables([database], query="SELECT p FROM nowhere")
    message = str(caught.value)
    assert PASSWORD not in message
    assert message.split(": the query failed: ", maxsplit=1)[0].startswith(database.partition(":")[0])
    assert "nowhere" in message
    assert "\n" not in message
    for name in ("scores.db", "nosuch://host/db", "s3://bucket/x"):
        with pytest.raises(InputError, match=r"^--query needs the URL of a database, such as postgresql://user@host"):
            open_tables([name], query="SELECT 1")
    with pytest.raises(InputError, match=r"^--query goes to one database, got 2 names"):
        open_tables([database, database], query="SELECT 1")
    with pytest.raises(InputError, match=r"^duckdb:///gone.duckdb: there is no file gone.duckdb; name one of DuckDB"):
        open_tables(["duckdb:///gone.duckdb"], query="SELECT 1")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InputError, match=r"needs the extra 'duckdb': pip install 'calibration-monitor\[duckdb\]'$"):
        open_tables(["duckdb:///gone.duckdb"], query="SELECT 1")
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(InputError) as caught:
        open_tables(["postgresql://ada:secret@host/db"], query="SELECT 1")
    assert str(caught.value) == (
        "postgresql://ada:***@host/db: PostgreSQL needs the extra 'postgres': pip install "
        "'calibration-monitor[postgres]'"
    )
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"column 'p', row 1: prediction must be a number from 0 to 1, got 'eu'"):
        read_table(open_tables([database], query="SELECT 'eu' AS p, 1 AS y"))
