"""The rows of a query are those of the same rows in a file, from a real PostgreSQL and from SQLite, batch by batch."""

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
from monitor.sources.data_sets import open_tables
from monitor.sources.tables import Columns, read_table
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
    monkeypatch.setattr(sql_query, "_BATCH_ROWS", 64)
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
    assert max(len(arrays[0]) for arrays in opened.pieces(["p"])) == 64
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


@pytest.mark.postgres
def test_the_server_keeps_rows_until_they_are_fetched(postgres_server: PostgresServer) -> None:
    url = postgres_server.url(postgres_server.new_database())
    rows = "SELECT 0.5::float8 AS p, 1 AS y FROM generate_series(1, 1000000)"
    pieces = open_tables([url], query=rows).pieces(["p", "y"])
    assert len(next(pieces)[0]) == sql_query._BATCH_ROWS
    with psycopg.connect(url, autocommit=True) as connection:
        open_ones = "FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
        assert connection.execute(f"SELECT count(*) {open_ones}").fetchone() == (1,)
    assert sum(len(arrays[0]) for arrays in pieces) == 1_000_000 - sql_query._BATCH_ROWS


def test_what_a_query_changes_is_not_kept(database: str) -> None:
    filled(database)
    if database.startswith("postgresql"):
        changing = "WITH gone AS (DELETE FROM scores RETURNING score AS p, 1 AS y) SELECT * FROM gone"
        with pytest.raises(InputError, match="WITH clause containing a data-modifying statement must be at the top"):
            open_tables([database], query=changing)
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
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"column 'p', row 1: prediction must be a number from 0 to 1, got 'eu'"):
        read_table(open_tables([database], query="SELECT 'eu' AS p, 1 AS y"))
