"""A store of an earlier version is brought forward with what it holds, once, by whichever process opens it first."""

import inspect
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.schema import CreateTable

from monitor.app.checks import CheckStatus, Surroundings
from monitor.app.checks.store import check_store
from monitor.app.settings import Settings
from monitor.clock import ManualClock, SystemClock
from monitor.errors import IncompatibleStore
from monitor.store.address import connect
from monitor.store.migrate import MIGRATIONS, check_current, newest_revision
from monitor.store.schema import METADATA, VERSION
from monitor.store.sql import SqlStore
from tests.patience import PATIENCE_SECONDS
from tests.store.next_version import REVISION, become_next_version, write_migrations
from tests.store.samples import checkpoint, load
from tests.store.test_open import ROOT, claim_after_others, execute


def differences(store: SqlStore, metadata: sa.MetaData) -> Sequence[object]:
    """How the tables of a store differ from these."""
    with store.database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))


def test_the_newest_revision_is_that_of_the_last_script() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == newest_revision()


def test_a_new_store_has_alembics_own_table(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}"
    with SqlStore.open(url, clock=SystemClock()) as store, store.database.reading() as connection:
        context = MigrationContext.configure(connection)
        assert context.get_current_heads() == (newest_revision(),)
        assert str(CreateTable(VERSION)) == str(CreateTable(context._version))


def test_alembic_is_loaded_for_migrations_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}"
    script = (
        "import sys; from monitor.clock import SystemClock; from monitor.store.sql import SqlStore\n"
        f"for _ in range(2): SqlStore.open({url!r}, clock=SystemClock()).close()\n"
        "print('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout == b"False\n"


def test_a_store_of_the_first_version_gets_the_tables_of_a_new_one(store_url: str) -> None:
    """A change of the schema without a migration fails here."""
    if store_url.startswith("postgresql"):
        with psycopg.connect(store_url) as server:
            server.execute((Path(__file__).parent / "baseline" / "postgresql.sql").read_bytes())
    else:
        with closing(sqlite3.connect(store_url.removeprefix("sqlite:///"))) as file:
            file.executescript((Path(__file__).parent / "baseline" / "sqlite.sql").read_text())
    with SqlStore.open(store_url, clock=SystemClock()) as store:
        assert differences(store, METADATA) == []


def test_the_next_version_brings_a_store_forward(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqlStore.open(store_url, clock=SystemClock()) as store:
        for partition in (0, 3):
            store.save([checkpoint(store.claim(partition), 17, partition=partition)])
        before = load(store)
    metadata = become_next_version(monkeypatch, tmp_path)
    chosen = Settings.model_validate({"store": {"url": store_url}})
    finding = next(check_store(Surroundings(chosen, environ={})))
    assert (finding.verdict, "which the next start brings to next" in finding.detail) == (CheckStatus.OK, True)
    with (
        closing(connect(store_url, 10, ManualClock())) as database,
        pytest.raises(IncompatibleStore, match=r"this version needs next: .* this version .* migrates the store$"),
    ):
        check_current(database)
    for _ in range(2):
        with SqlStore.open(store_url, clock=SystemClock()) as store:
            assert differences(store, metadata) == []
            assert load(store) == before
            with store.database.reading() as connection:
                assert connection.exec_driver_sql("SELECT partition, claims FROM partitions").all() == [
                    (0, 100),
                    (3, 100),
                ]
            check_current(store.database)
    monkeypatch.undo()
    with pytest.raises(IncompatibleStore, match=rf"revision {REVISION}, this version knows up to {newest_revision()}"):
        SqlStore.open(store_url, clock=SystemClock())


def test_many_may_make_and_migrate_a_store_at_once(store_url: str, tmp_path: Path) -> None:
    script = "\n".join(
        [
            "import sys",
            "from pathlib import Path",
            "from monitor.clock import SystemClock",
            "from monitor.errors import FencedOut",
            "from monitor.store import migrate, schema",
            "from monitor.store.sql import SqlStore",
            inspect.getsource(claim_after_others),
            f"versions = [(migrate.MIGRATIONS, schema.REVISION), (Path(sys.argv[2]), {REVISION!r})]",
            "for folder, revision in versions:",
            "    migrate.MIGRATIONS, schema.REVISION = folder, revision",
            "    sys.stdin.readline()",
            f"    with SqlStore.open(sys.argv[1], patience_seconds={PATIENCE_SECONDS}, clock=SystemClock()) as store:",
            "        print(claim_after_others(store, 5), flush=True)",
        ]
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, store_url, write_migrations(tmp_path / str(number))],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    answers = []
    for _ in range(2):
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers.append([process.stdout.readline() for process in processes if process.stdout is not None])
    assert [process.communicate(timeout=PATIENCE_SECONDS) for process in processes] == [("", "")] * 2
    assert [sorted(map(int, claimed)) for claimed in answers] == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("revision", "message"),
    [
        ("9999", "schema revision 9999, this version knows up to baseline: run the newer version"),
        ("0013", "revision 0013, of a state of development .* start with an empty store, .*`monitor backfill`$"),
    ],
)
def test_a_store_of_an_unknown_revision_is_refused_and_left_alone(store_url: str, revision: str, message: str) -> None:
    SqlStore.open(store_url, clock=SystemClock()).close()
    execute(store_url, f"UPDATE alembic_version SET version_num = '{revision}'")
    for _ in range(2):
        with pytest.raises(IncompatibleStore, match=message):
            SqlStore.open(store_url, clock=SystemClock())
