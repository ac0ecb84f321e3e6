"""What is opened, what is refused, and in which words."""

import inspect
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
import structlog
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from monitor.errors import DamagedStore, FencedOut, IncompatibleStore, SettingsError, StoreUnavailable
from monitor.events.model import SeriesKey
from monitor.scores import GridTable
from monitor.scores.grid import GRID_VERSION
from monitor.store.base import ANSWERED, JOURNAL_ROW, Bucket, JournalBatch, ModelState
from monitor.store.schema import METADATA
from monitor.store.sql import SqlStore
from tests.patience import PATIENCE_SECONDS, joined
from tests.real.postgres import PASSWORD, PostgresServer
from tests.store.samples import UNDONE, batch, checkpoint, grid_table, load, undo_closings
from tests.stream.support import tables_of

ROOT = Path(__file__).parents[2]
FIRST_TABLES = {"meta", "partitions", "offsets", "models", "strata", "journal", "counters", "dead_letters"}
"""Those of the first schema revision, but for closed panes."""


def execute(url: str, statement: str) -> None:
    """Do to a store what another program might have done."""
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def test_the_migrations_make_the_tables_that_the_code_uses(store: SqlStore) -> None:
    with store._database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []


def test_a_new_folder_is_said(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new/monitor.db"
    with structlog.testing.capture_logs() as first:
        SqlStore.open(url).close()
    with structlog.testing.capture_logs() as second:
        SqlStore.open(url).close()
    assert [(each["log_level"], each["folder"]) for each in first if "folder" in each] == [
        ("warning", str(tmp_path / "new"))
    ]
    assert not [each for each in second if "folder" in each]


def test_a_store_of_another_grid_is_refused(store_url: str) -> None:
    SqlStore.open(store_url).close()
    execute(store_url, "UPDATE meta SET value = '77' WHERE key = 'grid_version'")
    with pytest.raises(IncompatibleStore, match=f"grid version 77, this version needs {GRID_VERSION}: run"):
        SqlStore.open(store_url)


def test_a_store_of_an_unknown_revision_is_refused_and_left_alone(store_url: str) -> None:
    SqlStore.open(store_url).close()
    execute(store_url, "UPDATE alembic_version SET version_num = '9999'")
    for _ in range(2):
        with pytest.raises(IncompatibleStore, match=r"schema revision 9999, this version knows up to \d+: run"):
            SqlStore.open(store_url)


def test_a_database_with_tables_of_something_else_is_refused_and_left_alone(store_url: str) -> None:
    if store_url.startswith("postgresql"):
        execute(store_url, "CREATE TABLE models (name text)")
    else:
        SqlStore.open(store_url).close()
        execute(store_url, "DELETE FROM alembic_version")
    for _ in range(2):
        with pytest.raises(IncompatibleStore, match="is not this service's: give it a database of its own"):
            SqlStore.open(store_url)


def claim_after_others(store: SqlStore, partition: int) -> int:
    """Claim a partition, again if another process claims it at the same time."""
    while True:
        try:
            return store.claim(partition)
        except FencedOut:
            continue


def test_many_may_open_a_new_store_at_once(store_url: str) -> None:
    script = "\n".join(
        [
            "import sys",
            "from monitor.errors import FencedOut",
            "from monitor.store.sql import SqlStore",
            inspect.getsource(claim_after_others),
            "sys.stdin.readline()",
            f"with SqlStore.open(sys.argv[1], patience_seconds={PATIENCE_SECONDS}) as store:",
            "    print(claim_after_others(store, 5))",
        ]
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, store_url],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=PATIENCE_SECONDS) for process in processes]
    assert [error for _, error in answers] == [""] * 4
    assert sorted(int(answer) for answer, _ in answers) == [1, 2, 3, 4]


def test_threads_may_open_a_new_store_at_once(store_url: str) -> None:
    epochs = []

    def claim() -> None:
        with SqlStore.open(store_url, patience_seconds=PATIENCE_SECONDS) as store:
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
        SqlStore.open(url)
    assert "p4ss" not in str(refused.value)


def test_a_file_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SettingsError, match=r"folder .*/file/sub cannot be created: Not a directory"):
        SqlStore.open(f"sqlite:///{tmp_path}/file/sub/monitor.db")
    with pytest.raises(SettingsError, match=r"must be a file, but .* is a folder: name a file in it"):
        SqlStore.open(f"sqlite:///{tmp_path}")
    with pytest.raises(SettingsError, match=r"cannot be opened|cannot be created|cannot be written"):
        SqlStore.open("sqlite:////proc/monitor.db")


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "report.csv"
    other.write_text("p,y\n" * 1000)
    with pytest.raises(DamagedStore, match="is not a SQLite file: name another"):
        SqlStore.open(f"sqlite:///{other}")
    assert other.read_text() == "p,y\n" * 1000


def test_a_missing_driver_is_named_with_its_extra() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from monitor.errors import SettingsError\nfrom monitor.store.sql import SqlStore\n"
        "try: SqlStore.open('postgresql://u:p4ss@localhost/d')\n"
        "except SettingsError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert 'pip install "calibration-monitor[postgres]"' in said
    assert "p4ss" not in said


def test_a_locked_store_is_unavailable_and_a_failed_save_may_be_repeated(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/monitor.db"
    with SqlStore.open(url, patience_seconds=0.2) as store:
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
            SqlStore.open(url)
        for secret in (PASSWORD, "tests-wrong", "hidden-too", "s3cret"):
            assert secret not in str(refused.value)


def test_a_password_of_one_letter_does_not_mangle_messages() -> None:
    with pytest.raises(StoreUnavailable, match=r"the store postgresql://.* does not answer: connection failed"):
        SqlStore.open("postgresql://monitor:e@127.0.0.1:1/monitor")


def test_the_wheel_carries_the_migrations(tmp_path: Path) -> None:
    # Built from a copy: building leaves files behind.
    source = tmp_path / "source"
    shutil.copytree(ROOT / "monitor", source / "monitor", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", source)
    shutil.copy(ROOT / "LICENSE", source)
    (source / "README.md").write_text("# Calibration monitor")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
            *("--wheel-dir", tmp_path, source),
        ],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    script = (
        "import monitor; from monitor.store.sql import SqlStore; print(monitor.__file__);"
        f" print(SqlStore.open('sqlite:///{tmp_path}/m.db').claim(0))"
    )
    said = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path / "installed",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert said == [str(tmp_path / "installed" / "monitor" / "__init__.py"), "1"]


# What is open begins with a pane, or in the middle of one.
@pytest.mark.parametrize(("open_from_ms", "closed_to_ms"), [(7_200_000, 7_200_000), (7_170_000, 7_140_000)])
def test_a_store_of_the_first_revision_is_brought_forward_with_all_that_it_holds(
    store_url: str, open_from_ms: int, closed_to_ms: int
) -> None:
    with SqlStore.open(store_url) as store:
        store.save([checkpoint(store.claim(0), 10, journal=[batch(Bucket("churn", open_from_ms))])])
        before = load(store)
    # As the first revision left it.
    undo_closings(store_url)
    for table in reversed(METADATA.sorted_tables):
        if table.name not in FIRST_TABLES | UNDONE:
            execute(store_url, f"DROP TABLE {table.name}")
    execute(store_url, "DROP TABLE closed_sketches")
    # Panes of a minute for the last hour, and of half an hour for the hour before, too.
    narrow = {start: grid_table(seed=start) for start in range(3_600_000, 7_200_000, 60_000)}
    halves = range(3_600_000, 7_200_000, 1_800_000)
    wide = {start: GridTable.sum(narrow[at] for at in range(start, start + 1_800_000, 60_000)) for start in halves}
    wide |= {start: grid_table(seed=start) for start in range(0, 3_600_000, 1_800_000)}
    # The first minutes of the last hour are not kept any more.
    del narrow[3_600_000], narrow[3_660_000]
    engine = sa.create_engine(store_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for width, panes in ((60_000, narrow), (1_800_000, wide)):
            for start, table in panes.items():
                connection.execute(
                    sa.text("INSERT INTO closed_panes VALUES (0, 'churn', :width, :start, '7', 'all', :data)"),
                    {"width": width, "start": start, "data": table.to_bytes()},
                )
    engine.dispose()
    execute(store_url, "UPDATE alembic_version SET version_num = '0001'")
    with SqlStore.open(store_url) as store:
        after = load(store)
        found = store.read_closings("churn", {0: -1})[0]
        (clock,) = store.clocks()["churn"].values()
    assert after.journal == before.journal
    assert after._replace(models=[], journal=[]) == before._replace(models=[], journal=[])
    assert clock.closed_to_ms == closed_to_ms
    assert [(part.from_ms, part.to_ms, part.pane_ms) for part in found] == [
        (0, 5_400_000, 1_800_000),
        (5_400_000, closed_to_ms, 60_000),
    ]
    series = SeriesKey("churn", "7", "all")
    expected = {start: table for start, table in wide.items() if start < 5_400_000}
    expected |= {start: table for start, table in narrow.items() if start >= 5_400_000}
    assert tables_of(*(part.panes for part in found)) == {(start, series): table for start, table in expected.items()}


def test_an_older_store_knows_how_far_its_partitions_are_read_by_the_newest_prediction_of_any_model(
    store_url: str,
) -> None:
    watermarks = {0: [(5_000, 9_000), (7_000, -1)], 1: [(-1, 3_000)], 2: []}
    with SqlStore.open(store_url) as store:
        for partition, of_models in watermarks.items():
            models = [ModelState(f"model-{at}", *newest_ms) for at, newest_ms in enumerate(of_models)]
            store.save([checkpoint(store.claim(partition), 1, partition=partition, models=models, read_to_ms=99_000)])
    undo_closings(store_url)
    with SqlStore.open(store_url) as store:
        read_to_ms = {partition: clock.read_to_ms for partition, clock in store.partition_clocks().items()}
        assert read_to_ms == {0: 7_000, 1: -1, 2: -1}
        assert load(store, 0).models == [ModelState("model-0", 5_000, 9_000), ModelState("model-1", 7_000, -1)]


def test_models_of_labelled_events_alone_wait_for_no_outcomes_after_the_upgrade(store_url: str) -> None:
    watermarks = {"labelled": (7_000, 7_000), "both": (7_000, 7_000), "silent": (7_000, 7_000), "late": (7_000, 6_999)}
    rows = {name: np.zeros(2, JOURNAL_ROW) for name in watermarks}
    rows["labelled"]["outcome"] = 1
    rows["both"][1]["entry"] = ANSWERED
    rows["silent"][1]["outcome"] = -1
    rows["late"]["outcome"] = 1
    states = [ModelState(name, *newest_ms) for name, newest_ms in watermarks.items()]
    batches = [JournalBatch(Bucket(name, 0), of_model.tobytes()) for name, of_model in rows.items()]
    with SqlStore.open(store_url) as store:
        store.save([checkpoint(store.claim(0), 1, models=states, journal=batches)])
        # In another partition it has had outcomes by themselves.
        elsewhere = [ModelState("both", 9_000, 9_000), ModelState("labelled", 5_000, 5_000)]
        store.save([checkpoint(store.claim(1), 1, partition=1, models=elsewhere)])
    undo_closings(store_url)
    with SqlStore.open(store_url) as store:
        awaits = {model: {one.awaits_outcomes for one in clocks.values()} for model, clocks in store.clocks().items()}
        saved = [clock.saved_ms for clocks in store.clocks().values() for clock in clocks.values()]
        models = [one._replace(awaits_outcomes=int(one.name != "labelled")) for one in states]
        assert load(store, 0).models == sorted(models)
    assert awaits == {"labelled": {0}, "both": {1}, "silent": {1}, "late": {1}}
    assert min(saved) > 0
