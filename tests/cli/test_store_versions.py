"""Commands on a store that is missing, or of another version of the service: they neither create nor migrate it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from monitor.clock import SystemClock
from monitor.store.migrate import newest_revision
from monitor.store.sql import SqlStore
from tests.cli.command import inside, one_error_line

ON_CURRENT: Final = [
    ("dead-letters", "list"),
    ("dead-letters", "replay"),
    ("keys", "list"),
    ("keys", "revoke", "ada"),
    ("simulate-alarms", "--model", "churn"),
]
CREATING: Final = [
    ("keys", "create", "ada", "--role", "read"),
    ("backfill", "past.csv", "--model", "churn", "--version", "1", "--batch", "old", "--to", "2026-01-02T00:00:00Z"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    url = f"sqlite:///{tmp_path / 'data' / 'state.db'}"
    settings = f"store: {{url: '{url}'}}\nmodels: {{declared: {{churn: {{horizon: 1h}}}}}}\n"
    (tmp_path / "monitor.yaml").write_text(settings, encoding="utf-8")
    rows = "".join(f"0.5,{number % 2},2026-01-01T00:{number:02d}:00Z\n" for number in range(60))
    (tmp_path / "past.csv").write_text(f"prediction,outcome,time\n{rows}", encoding="utf-8")
    return tmp_path


def stamp(file: Path, revision: str) -> bytes:
    """Make a store that says that it is of another revision; returns its content."""
    SqlStore.open(f"sqlite:///{file}", clock=SystemClock()).close()
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file.read_bytes()


@pytest.mark.parametrize("command", [*ON_CURRENT, ("backup", "backup.db")], ids=" ".join)
def test_a_missing_store_is_one_line_and_stays_missing(folder: Path, command: tuple[str, ...]) -> None:
    done = inside(*command, cwd=folder)
    assert one_error_line(done) == (
        f"there is no store at {folder}/data/state.db: `monitor serve` creates it at its first start"
    )
    assert done.returncode == 1
    assert not (folder / "data").exists()


@pytest.mark.parametrize("command", [*ON_CURRENT, *CREATING], ids=" ".join)
def test_a_store_of_another_version_is_one_line_and_stays_as_it_is(folder: Path, command: tuple[str, ...]) -> None:
    store = folder / "data" / "state.db"
    for revision, problem, advice in (
        ("0001", "of a state of development before the first version", "start with an empty store"),
        ("9999", f"this version knows up to {newest_revision()}: ", "run the newer version of the service"),
    ):
        before = stamp(store, revision)
        message = inside(*command, cwd=folder).stderr.splitlines()[-1].removeprefix("error: ")
        assert message.startswith(f"sqlite:///{store} has schema revision {revision}, {problem}")
        assert advice in message
        assert store.read_bytes() == before
        store.unlink()


@pytest.mark.parametrize("command", CREATING, ids=" ".join)
def test_what_is_done_before_the_first_start_creates_the_store(folder: Path, command: tuple[str, ...]) -> None:
    assert inside(*command, cwd=folder).returncode == 0
    assert (folder / "data" / "state.db").exists()
