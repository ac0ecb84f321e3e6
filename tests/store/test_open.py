"""What is opened, what is refused, and in which words."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
import structlog

from monitor.clock import SystemClock
from monitor.errors import DamagedStore, FencedOut, IncompatibleStore, SettingsError, StoreUnavailable
from monitor.scores.grid import GRID_VERSION
from monitor.store.sql import SqlStore
from tests.patience import PATIENCE_SECONDS, joined
from tests.real.postgres import PASSWORD, PostgresServer
from tests.store.samples import checkpoint, load

ROOT = Path(__file__).parents[2]


def execute(url: str, statement: str) -> None:
    """Do to a store what another program might have done."""
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def test_a_new_folder_is_said(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new/monitor.db"
    with structlog.testing.capture_logs() as first:
        SqlStore.open(url, clock=SystemClock()).close()
    with structlog.testing.capture_logs() as second:
        SqlStore.open(url, clock=SystemClock()).close()
    assert [(each["log_level"], each["folder"]) for each in first if "folder" in each] == [
        ("warning", str(tmp_path / "new"))
    ]
    assert not [each for each in second if "folder" in each]


def test_a_store_of_another_grid_is_refused(store_url: str) -> None:
    SqlStore.open(store_url, clock=SystemClock()).close()
    execute(store_url, "UPDATE meta SET value = '77' WHERE key = 'grid_version'")
    with pytest.raises(IncompatibleStore, match=f"grid version 77, this version needs {GRID_VERSION}: run"):
        SqlStore.open(store_url, clock=SystemClock())


def test_a_database_with_tables_of_something_else_is_refused_and_left_alone(store_url: str) -> None:
    if store_url.startswith("postgresql"):
        execute(store_url, "CREATE TABLE models (name text)")
    else:
        SqlStore.open(store_url, clock=SystemClock()).close()
        execute(store_url, "DELETE FROM alembic_version")
    for _ in range(2):
        with pytest.raises(IncompatibleStore, match="is not this service's: give it a database of its own"):
            SqlStore.open(store_url, clock=SystemClock())


def claim_after_others(store: SqlStore, partition: int) -> int:
    """Claim a partition, again if another process claims it at the same time."""
    while True:
        try:
            return store.claim(partition)
        except FencedOut:
            continue


def test_threads_may_open_a_new_store_at_once(store_url: str) -> None:
    epochs = []

    def claim() -> None:
        with SqlStore.open(store_url, patience_seconds=PATIENCE_SECONDS, clock=SystemClock()) as store:
            epochs.append(claim_after_others(store, 0))

    threads = [threading.Thread(target=claim) for _ in range(4)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert sorted(epochs) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "must look like sqlite:///"),
        ("monitor.db", "must look like sqlite:///"),
        ("mysql://u:p4ss@h/d", "must look like sqlite:///.*got mysql://"),
        ("postgresql+asyncpg://u:p4ss@h/d", r"must begin with postgresql://, got postgresql\+asyncpg://"),
        ("postgresql://u:p4ss@h:port/d", "must look like sqlite:///"),
        ("sqlite://", "must be a file"),
        ("sqlite:///:memory:", "must be a file"),
    ],
)
def test_a_wrong_address_is_refused_without_its_password(url: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as refused:
        SqlStore.open(url, clock=SystemClock())
    assert "p4ss" not in str(refused.value)


def test_a_file_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SettingsError, match=r"folder .*/file/sub cannot be created: Not a directory"):
        SqlStore.open(f"sqlite:///{tmp_path}/file/sub/monitor.db", clock=SystemClock())
    with pytest.raises(SettingsError, match=r"must be a file, but .* is a folder: name a file in it"):
        SqlStore.open(f"sqlite:///{tmp_path}", clock=SystemClock())
    with pytest.raises(SettingsError, match=r"cannot be opened|cannot be created|cannot be written"):
        SqlStore.open("sqlite:////proc/monitor.db", clock=SystemClock())


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "report.csv"
    other.write_text("p,y\n" * 1000)
    with pytest.raises(DamagedStore, match="is not a SQLite file: name another"):
        SqlStore.open(f"sqlite:///{other}", clock=SystemClock())
    assert other.read_text() == "p,y\n" * 1000


def test_a_missing_driver_is_named_with_its_extra() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from monitor.clock import SystemClock\n"
        "from monitor.errors import SettingsError\nfrom monitor.store.sql import SqlStore\n"
        "try: SqlStore.open('postgresql://u:p4ss@localhost/d', clock=SystemClock())\n"
        "except SettingsError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert 'pip install "calibration-monitor[postgres]"' in said
    assert "p4ss" not in said


def test_a_locked_store_is_unavailable_and_a_failed_save_may_be_repeated(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/monitor.db"
    with SqlStore.open(url, patience_seconds=0.2, clock=SystemClock()) as store:
        epoch = store.claim(0)
        blocker = sa.create_engine(url)
        with blocker.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"sqlite:///.*monitor.db does not answer: database is locked"):
                store.save([checkpoint(epoch, 1)])
            assert load(store).offsets == {}  # reading does not wait
        blocker.dispose()
        store.save([checkpoint(epoch, 1)])
        assert load(store).offsets == {"predictions": 1}


@pytest.mark.postgres
def test_no_message_shows_the_password(postgres_server: PostgresServer) -> None:
    good = postgres_server.url("postgres")
    urls = [
        good.replace("tests@", "tests-wrong@").replace("%40tests", "%40tests-wrong"),
        postgres_server.url("no_such_database"),
        postgres_server.url("postgres", port=1),
        f"postgresql://postgres@127.0.0.1:{postgres_server.port}/postgres?password=tests-wrong&sslpassword=hidden-too",
    ]
    for url in urls:
        with pytest.raises(StoreUnavailable, match=r"the store postgresql://postgres.*@127.0.0.1:\d+/") as refused:
            SqlStore.open(url, clock=SystemClock())
        for secret in (PASSWORD, "tests-wrong", "hidden-too", "s3cret"):
            assert secret not in str(refused.value)


def test_a_password_of_one_letter_does_not_mangle_messages() -> None:
    with pytest.raises(StoreUnavailable, match=r"the store postgresql://.* does not answer: connection failed"):
        SqlStore.open("postgresql://monitor:e@127.0.0.1:1/monitor", clock=SystemClock())
