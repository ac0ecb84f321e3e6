"""`monitor outcomes`: labels of files and queries become events, each night only new ones; bad rows are named."""

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.command import inside, one_error_line, written
from tests.real.postgres import PostgresServer

SETTINGS = """
source:
  embedded: {directory: log, partitions: 2}
  topics: {predictions: p, outcomes: o}
models:
  declared:
    triage: {classes: [green, yellow, red]}
"""
NOON = "2026-11-20T12:00:00Z"
NOON_MS = 1_795_176_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "monitor.yaml").write_text(SETTINGS, encoding="utf-8")
    return tmp_path


def sent(folder: Path) -> dict[str, tuple[int, int]]:
    """Id -> (y, ts) of the topic of outcomes; each is keyed by its id."""
    events = {}
    for _, record in written(folder, "o")["o"]:
        event = json.loads(record.value or b"")
        assert (event["type"], event["id"]) == ("outcome", (record.key or b"").decode())
        events[event["id"]] = (event["y"], event["ts"])
    return events


def test_a_csv_file_is_sent_with_its_columns_guessed(folder: Path) -> None:
    (folder / "labels.csv").write_text(
        f"prediction_id,churned,Label,labelled_at\na,x,1,{NOON}\nb,x,no,2026-11-20 12:00:00.001\nc,x,,{NOON}\n"
        f"9003,x,TRUE,{NOON}\n"
    )
    done = inside("outcomes", "labels.csv", "--model", "churn", cwd=folder)
    assert done.returncode == 0
    assert "id read from column 'prediction_id', y from 'Label', ts from 'labelled_at'" in done.stdout
    assert "labels.csv: 3 outcomes sent in" in done.stdout
    assert "3 to o" in done.stdout
    assert "1 rows without an outcome yet" in done.stdout
    assert sent(folder) == {"a": (1, NOON_MS), "b": (0, NOON_MS + 1), "9003": (1, NOON_MS)}


def test_a_parquet_file_of_classes_is_sent(folder: Path) -> None:
    times = pa.array([datetime(2026, 11, 20, 12, tzinfo=UTC)] * 4, pa.timestamp("us", "UTC"))
    table = pa.table({"id": [1.0, 2.0, 3.0, None], "y": ["red", "0", "blue", "red"], "ts": times})
    pq.write_table(table, folder / "labels.parquet")
    done = inside("outcomes", "labels.parquet", "--model", "triage", cwd=folder)
    assert done.returncode == 1
    assert sent(folder) == {"1": (2, NOON_MS), "2": (0, NOON_MS)}
    assert "row 3: y must be one of green, yellow, red, or its number from 0 to 2, got 'blue'; left out" in done.stderr
    assert "row 4: id must be text or an integer, got nothing; left out" in done.stderr


def test_bad_rows_are_named_and_the_rest_is_sent(folder: Path) -> None:
    rows = [
        f"good,1,{NOON}",
        f"a,2,{NOON}",
        f",1,{NOON}",
        "b,1,noon",
        "c,0,1999-01-01T00:00:00Z",
        f"{'x' * 513},0,{NOON}",
    ]
    (folder / "labels.csv").write_text("id,y,ts\n" + "\n".join(rows) + "\n")
    done = inside("outcomes", "labels.csv", "--model", "churn", cwd=folder)
    assert done.returncode == 1
    assert list(sent(folder)) == ["good"]
    named = done.stderr.splitlines()
    assert [line.partition(": line ")[2][:1] for line in named[:5]] == ["3", "4", "5", "6", "7"]
    assert "y must be 0 or 1" in named[0]
    assert "got '2'" in named[0]
    assert "id must be text or an integer, got nothing" in named[1]
    assert "ts must be RFC 3339 or milliseconds since the epoch, got 'noon'" in named[2]
    assert "ts must lie between 2000-01-01" in named[3]
    assert "id must have 1 to 512 characters, got 513" in named[4]
    assert named[5] == "5 rows left out, as they are no outcomes"


def test_of_many_bad_rows_the_first_are_named(folder: Path) -> None:
    (folder / "labels.csv").write_text("id,y\n" + "a,maybe\n" * 300)
    done = inside("outcomes", "labels.csv", "--model", "churn", cwd=folder)
    assert len(done.stderr.splitlines()) == 21
    assert done.stderr.splitlines()[-1] == "300 rows left out, as they are no outcomes"


def test_a_dry_run_sends_nothing_and_keeps_no_cursor(folder: Path) -> None:
    (folder / "labels.csv").write_text(f"id,y,updated_at\na,1,{NOON}\n")
    done = inside("outcomes", "labels.csv", "--model", "churn", "--cursor", "updated_at", "--dry-run", cwd=folder)
    assert "1 outcomes would be sent" in done.stdout
    assert sent(folder) == {}
    assert not (folder / "outcomes-cursor.json").exists()


def test_of_a_file_that_grows_only_new_rows_are_sent(folder: Path) -> None:
    command = ("outcomes", "labels.csv", "--model", "churn", "--cursor", "number")
    file = folder / "labels.csv"
    file.write_text("id,y,number\na,1,9\nb,0,8\nc,1,\n")
    assert "3 outcomes sent" in inside(*command, cwd=folder).stdout
    file.write_text("id,y,number\na,1,9\nb,0,8\nc,1,11\nd,1,10\n")
    done = inside(*command, cwd=folder)
    # The row at the cursor comes again: another one may have got the same value since. It changes nothing.
    assert "3 outcomes sent" in done.stdout
    assert "1 rows before the cursor" in done.stdout
    assert json.loads((folder / "outcomes-cursor.json").read_text()) == {"churn": {"number": 11.0}}


@pytest.mark.postgres
def test_a_nightly_query_sends_what_is_new(folder: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.url(postgres_server.new_database())
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(
            "create table labels (order_id uuid default gen_random_uuid(), churned bool, updated_at timestamptz)"
        )

        def label(churned: bool | None, day: int, count: int = 1) -> None:
            database.execute(
                "insert into labels (churned, updated_at) select %s, %s from generate_series(1, %s)",
                (churned, datetime(2026, 11, day, tzinfo=UTC), count),
            )

        def night() -> str:
            query = "SELECT order_id AS id, churned AS y, updated_at FROM labels WHERE updated_at > '2026-01-01'::date;"
            options = ("--sql", url, "--query", query, "--model", "churn", "--cursor", "updated_at")
            done = inside("outcomes", *options, cwd=folder)
            assert done.returncode == 0, done.stderr
            return done.stdout

        assert "0 outcomes sent" in night()
        label(churned=True, day=2, count=25_000)
        label(churned=None, day=1)
        first = night()
        assert "the query: 25,000 outcomes sent" in first
        assert "1 rows without an outcome yet" in first
        label(churned=False, day=3, count=7)
        database.execute("update labels set churned = true, updated_at = '2026-11-04' where churned is null")
        # Those at the cursor come again.
        assert "25,008 outcomes sent" in night()
        assert "1 outcomes sent" in night()
    values = list(sent(folder).values())
    assert len(values) == 25_008
    assert sum(y for y, _ in values) == 25_001
    assert json.loads((folder / "outcomes-cursor.json").read_text())["churn"]["updated_at"].keys() == {"datetime"}


def test_a_query_of_sqlite_is_ordered_by_its_cursor(folder: Path) -> None:
    with sqlite3.connect(folder / "labels.db") as database:
        database.execute("create table labels (id integer, y real, updated_at text)")
        database.executemany("insert into labels values (?, ?, ?)", [(2, 1.0, "2026-11-21"), (1, 0.0, "2026-11-20")])
    options = ("--sql", "sqlite:///labels.db", "--query", "select * from labels", "--cursor", "updated_at")
    assert inside("outcomes", *options, "--model", "churn", cwd=folder).returncode == 0
    assert sent(folder) == {"1": (0, NOON_MS - 43_200_000), "2": (1, NOON_MS + 43_200_000)}
    assert "1 outcomes sent" in inside("outcomes", *options, "--model", "churn", cwd=folder).stdout


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "name a FILE, or --sql and --query"),
        (("labels.csv", "--query", "select 1"), 2, "name a FILE, or --sql and --query"),
        (("missing.csv",), 2, "missing.csv: no such file"),
        (("labels.csv", "--y", "truth"), 2, "labels.csv: --y names column 'truth', but columns are key, value"),
        (
            ("labels.csv",),
            2,
            "labels.csv: no column looks like the outcome (y, outcome, outcomes, label, ...); name it with --y",
        ),
        (("labels.csv", "--y", "value", "--cursor-file", "labels.csv"), 2, "labels.csv holds no cursors"),
        (("labels.csv", "--y", "value", "--cursor-file", "deep.json"), 2, "deep.json holds no cursors"),
        (("--sql", "nonsense", "--query", "select 1"), 2, "--sql must be like postgresql://"),
        (("--sql", "oracle://u:secret@h/d", "--query", "select 1"), 2, "--sql: the driver of oracle is not installed"),
        (("--sql", "sqlite://", "--query", "select missing"), 2, "--query fails: no such column: missing"),
        (
            ("--sql", "postgresql://u:secret@127.0.0.1:1/d", "--query", "select 1"),
            1,
            "--sql: connection failed",
        ),
    ],
)
def test_bad_use_is_one_line(folder: Path, arguments: tuple[str, ...], status: int, said: str) -> None:
    (folder / "labels.csv").write_text("key,value\n")
    (folder / "deep.json").write_text("[" * 100_000)
    done = inside("outcomes", *arguments, "--model", "churn", cwd=folder)
    assert (done.returncode, said in one_error_line(done)) == (status, True), done.stderr
    assert "secret" not in done.stderr


@pytest.mark.postgres
def test_a_wrong_password_is_not_shown(folder: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.url("postgres").replace("s3cret", "wrong")
    done = inside("outcomes", "--sql", url, "--query", "select 1", "--model", "m", cwd=folder)
    assert done.returncode == 1
    assert "wrong" not in one_error_line(done)


def test_a_model_that_is_not_declared_is_refused_where_all_must_be(folder: Path) -> None:
    (folder / "monitor.yaml").write_text(SETTINGS + "  only_declared: true\n", encoding="utf-8")
    (folder / "labels.csv").write_text("id,y\na,1\n")
    done = inside("outcomes", "labels.csv", "--model", "churn", cwd=folder)
    assert one_error_line(done) == "--model: churn is not declared; declare it under models.declared"


def test_rows_out_of_order_are_warned_of(folder: Path) -> None:
    times = ["2026-11-20T12:00:00Z", "2026-11-20T11:00:01Z", "2026-11-20T10:59:59Z", "2026-11-20T12:00:01Z"]
    (folder / "labels.csv").write_text("id,y,ts\n" + "".join(f"{at},1,{time}\n" for at, time in enumerate(times)))
    (folder / "monitor.yaml").write_text(SETTINGS + "  defaults: {allowed_lateness: 1h}\n", encoding="utf-8")
    done = inside("outcomes", "labels.csv", "--model", "churn", cwd=folder)
    assert done.returncode == 0
    assert done.stderr.startswith("1 outcomes are older than earlier rows by more than the allowed lateness")
    assert len(sent(folder)) == 4
