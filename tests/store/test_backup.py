"""What a backup holds is what the store in SQLite held, and a restore is all of it or nothing."""

import hashlib
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from monitor.clock import ManualClock, SystemClock
from monitor.errors import Conflict, DamagedStore, FencedOut, IncompatibleStore, InputError, NoStore, StoreError
from monitor.store import history
from monitor.store.backup import back_up
from monitor.store.base import Bucket
from monitor.store.migrate import newest_revision
from monitor.store.recalibrations import JobState
from monitor.store.restore import check_backup, restore
from monitor.store.schema import AUDIT, METADATA
from monitor.store.sql import SqlStore
from monitor.stream.journal_loops import JOURNAL_ROW
from tests.patience import PATIENCE_SECONDS, eventually, joined
from tests.store import refits
from tests.store.histories import CHURN, every
from tests.store.next_version import REVISION, become_next_version
from tests.store.samples import HOUR_MS, batch, checkpoint, letter, load, pane_closing

NOT_COMPARED = {"partitions", "audit"}
"""What a restore adds to: epochs are raised, and the audit trail tells of it."""


def fill(url: str, clock: ManualClock) -> None:
    """Something in every part of a store that was in use."""
    with SqlStore.open(url, clock=clock, dead_letter_limit=3) as store:
        for partition in (0, 3):
            epoch = store.claim(partition)
            bucket = Bucket("ch\0urn\\0", HOUR_MS)
            store.save(
                [
                    checkpoint(
                        epoch,
                        17 + partition,
                        partition=partition,
                        journal=[batch(bucket, 3000, seed=1), batch(bucket, 5, seed=2)],
                        closings=[pane_closing(HOUR_MS * at, at) for at in range(5)],
                        counters={("prediction", "accepted"): 2**40},
                        dead_letters=[letter(at, partition=partition) for at in range(4)],
                    )
                ]
            )
        with store.database.writing() as connection:
            history.append(connection, {CHURN: every(HOUR_MS, 0, 50 * HOUR_MS)})
        kept = refits.recalibrations(store)
        refits.run(kept, 1, promote=True)
        refits.run(kept, 2, baseline="rc_1", state=JobState.REJECTED)


def tables(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, as the database has it."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        return {name: sorted(file.execute(f"SELECT * FROM {name}"), key=repr) for name in METADATA.tables}


def compared(url: str) -> dict[str, list[tuple[object, ...]]]:
    return {name: rows for name, rows in tables(url).items() if name not in NOT_COMPARED}


@pytest.fixture
def url(tmp_path: Path, clock: ManualClock) -> str:
    """A store in use."""
    fill(made := f"sqlite:///{tmp_path}/state.db", clock)
    return made


@pytest.fixture
def backup(url: str, clock: ManualClock, tmp_path: Path) -> Path:
    back_up(url, tmp_path / "backup.db", clock)
    return tmp_path / "backup.db"


@pytest.fixture
def new_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/new/state.db"


def test_a_restored_store_holds_what_was_backed_up_and_goes_on(
    url: str, backup: Path, new_url: str, clock: ManualClock
) -> None:
    restore(backup, new_url, clock, actor="cli:ada")
    assert compared(new_url) == compared(url)
    assert len(compared(new_url)["journal"]) == 4
    assert len(compared(new_url)["history"]) == 3
    with SqlStore.open(new_url, clock=clock) as store:
        assert load(store, 3).offsets == {"predictions": 20}
        assert load(store, 3).counters == {("prediction", "accepted"): 2**40}
        numbers = {each.number for each in store.dead_letters()}
        epoch = store.claim(0)
        store.save([checkpoint(epoch, 99, dead_letters=[letter(77)])])
        (new,) = [each for each in store.dead_letters() if each.number not in numbers]
        # Numbers are never given twice, also where the newest letters were removed before the backup.
        assert new.number > max(numbers)
        kept = refits.recalibrations(store)
        assert kept.artifact("rc_1").artifact == b"map 1"
        refits.run(kept, 3, state=JobState.REJECTED)
        with pytest.raises(StoreError, match="never changed"), store.database.writing() as connection:
            connection.execute(sa.delete(AUDIT))


def test_numbers_go_on_where_the_last_rows_are_gone(url: str, new_url: str, clock: ManualClock, tmp_path: Path) -> None:
    with SqlStore.open(url, clock=clock) as store:
        highest = max(each.number for each in store.dead_letters())
        store.remove_dead_letters([each.number for each in store.dead_letters()])
    back_up(url, tmp_path / "backup.db", clock)
    restore(tmp_path / "backup.db", new_url, clock, actor="cli:ada")
    with SqlStore.open(new_url, clock=clock) as store:
        store.save([checkpoint(store.claim(0), 99, dead_letters=[letter(77)])])
        assert store.dead_letters()[0].number == highest + 1


def test_a_backup_is_one_private_file_that_says_what_is_in_it(url: str, backup: Path, clock: ManualClock) -> None:
    contents = check_backup(backup, clock)
    assert contents.schema_revision == newest_revision()
    assert [(each.topic, each.partition, each.offset) for each in contents.offsets] == [
        ("predictions", 0, 17),
        ("predictions", 3, 20),
    ]
    assert contents.tables == {name: len(rows) for name, rows in tables(url).items()}
    assert contents.sha256 == hashlib.sha256(backup.read_bytes()).hexdigest()
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert {path.name for path in backup.parent.iterdir()} <= {"backup.db", "state.db", "state.db-wal", "state.db-shm"}


def test_the_restore_stands_in_the_audit_trail(backup: Path, new_url: str, clock: ManualClock) -> None:
    restore(backup, new_url, clock, actor="cli:ada")
    with SqlStore.open(new_url, clock=clock) as store:
        *earlier, entry = refits.recalibrations(store).audit(limit=100)
    assert len(earlier) > 3
    assert (entry.actor, entry.action, entry.at_ms) == ("cli:ada", "restored", clock.now_ms())
    assert entry.detail["sha256"] == check_backup(backup, clock).sha256


def test_a_store_that_holds_something_is_replaced_only_by_its_name(url: str, backup: Path, clock: ManualClock) -> None:
    before = tables(url)
    with pytest.raises(Conflict, match=r"4 in journal.* add `--replace state\.db`"):
        restore(backup, url, clock, actor="cli:ada")
    with pytest.raises(InputError, match=r"must name the store .*'state\.db', got 'yes'"):
        restore(backup, url, clock, replace="yes", actor="cli:ada")
    assert tables(url) == before
    with SqlStore.open(url, clock=clock) as store:
        epoch = store.claim(0)
        store.save([checkpoint(epoch, 50)])
    restored = restore(backup, url, clock, replace="state.db", actor="cli:ada")
    assert (restored.replaced["journal"], restored.kept) == (4, None)
    assert [path.name for path in backup.parent.iterdir() if "replaced" in path.name] == []
    with SqlStore.open(url, clock=clock) as store:
        assert load(store).offsets == {"predictions": 17}
        # A service that comes back with its epoch of the replaced store.
        with pytest.raises(FencedOut):
            store.save([checkpoint(epoch, 60)])


def test_a_backup_beside_a_busy_service_is_of_one_moment(new_url: str, clock: ManualClock, tmp_path: Path) -> None:
    """Offsets, counters and journal were saved together, and are together in the backup."""
    url = f"sqlite:///{tmp_path}/state.db"
    saved = [0]
    done = threading.Event()

    def serve() -> None:
        with SqlStore.open(url, patience_seconds=PATIENCE_SECONDS, clock=SystemClock()) as store:
            epochs = {partition: store.claim(partition) for partition in (0, 1)}
            offset = 0
            while not done.is_set():
                offset += 1
                bucket = Bucket("churn", HOUR_MS)
                store.save(
                    [
                        checkpoint(
                            epoch,
                            offset,
                            partition=partition,
                            counters={("prediction", "accepted"): offset},
                            journal=[batch(bucket, 1, seed=offset)],
                            dead_letters=[letter(offset, partition=partition)],
                        )
                        for partition, epoch in epochs.items()
                    ]
                )
                saved.append(offset)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        eventually(lambda: saved[-1] > 3)
        contents = back_up(url, tmp_path / "backup.db", clock)
    finally:
        done.set()
        joined(thread)
    restore(tmp_path / "backup.db", new_url, clock, actor="cli:ada")
    with SqlStore.open(new_url, clock=SystemClock()) as store:
        for partition in (0, 1):
            state = load(store, partition)
            offset = state.offsets["predictions"]
            assert offset == contents.offsets[0].offset > 3
            assert state.counters == {("prediction", "accepted"): offset}
            assert sum(map(len, state.rows().values())) == offset * JOURNAL_ROW.itemsize
        assert store.count_dead_letters() == {"not_json": 2 * offset}


def test_a_backup_of_an_earlier_version_is_brought_forward(
    url: str, backup: Path, new_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = compared(url)
    become_next_version(monkeypatch, backup.parent)
    assert back_up(url, backup.with_name("second.db"), clock).tables == check_backup(backup, clock).tables
    # Into an empty store, and into one of the earlier version, too.
    for to, replace in ((new_url, None), (url, "state.db")):
        restored = restore(backup, to, clock, replace=replace, actor="cli:ada")
        assert restored.schema_revision == REVISION
        assert compared(to) == before
        with SqlStore.open(to, clock=clock) as store, store.database.reading() as connection:
            assert connection.exec_driver_sql("SELECT claims FROM partitions").scalars().all() == [100, 100]


def test_a_damaged_or_foreign_file_is_refused(url: str, backup: Path, clock: ManualClock, tmp_path: Path) -> None:
    before, whole = tables(url), backup.read_bytes()
    bad = tmp_path / "bad.db"
    for content in (b"", b"no database", whole[:-1], whole[: len(whole) // 2], whole[:40_000] + bytes(40_000)):
        bad.write_bytes(content)
        with pytest.raises((InputError, IncompatibleStore), match=r"bad\.db (is not a backup of this|holds no store)"):
            restore(bad, url, clock, replace="state.db", actor="cli:ada")
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as file:
        file.execute("CREATE TABLE t (x)")
    with pytest.raises(IncompatibleStore, match=r"foreign\.db holds no store of this service"):
        restore(tmp_path / "foreign.db", url, clock, replace="state.db", actor="cli:ada")
    with pytest.raises(InputError, match=r"nothing\.db cannot be read, or copied .*: No such file"):
        restore(tmp_path / "nothing.db", url, clock, actor="cli:ada")
    assert tables(url) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "schema revision 9999, this version knows up to"),
        (
            "UPDATE alembic_version SET version_num = '0012'",
            "revision 0012, of a state of development before the first",
        ),
        ("UPDATE meta SET value = '77' WHERE key = 'grid_version'", "grid version 77, this version needs"),
    ],
)
def test_a_backup_that_is_not_for_this_version_is_refused(
    backup: Path, new_url: str, clock: ManualClock, change: str, said: str
) -> None:
    with closing(sqlite3.connect(backup)) as file, file:
        file.execute(change)
    with pytest.raises(IncompatibleStore, match=said):
        restore(backup, new_url, clock, actor="cli:ada")
    assert list((backup.parent / "new").iterdir()) == []


def test_where_there_is_no_store_there_is_no_backup(clock: ManualClock, tmp_path: Path) -> None:
    with pytest.raises(NoStore, match=r"there is no store at .*/none\.db"):
        back_up(f"sqlite:///{tmp_path}/none.db", tmp_path / "backup.db", clock)
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as file:
        file.execute("CREATE TABLE t (x)")
    with pytest.raises(IncompatibleStore, match="holds no store of this service"):
        back_up(f"sqlite:///{tmp_path}/foreign.db", tmp_path / "backup.db", clock)
    assert not (tmp_path / "backup.db").exists()


def test_a_store_in_postgresql_has_tools_of_its_own(backup: Path, clock: ManualClock) -> None:
    url = "postgresql+psycopg://monitor:hunter2@db:5433/scores?sslmode=require&sslpassword=hunter2"
    shown = re.escape("'postgresql://monitor@db:5433/scores?sslmode=require'")
    with pytest.raises(InputError, match=rf"pg_dump --format=custom --file=new\.dump {shown}$"):
        back_up(url, Path("new.dump"), clock)
    command = f"pg_restore --clean --if-exists --single-transaction {backup} --dbname"
    with pytest.raises(InputError, match=f"{command} {shown}$"):
        restore(backup, url, clock, actor="cli:ada")


def damage(path: Path, what: str) -> bytes:
    """Damage a SQLite file; return what it holds then."""
    whole = bytearray(path.read_bytes())
    page = 16_384
    if what == "beginning":
        whole[:100] = bytes(100)
    elif what == "first page":
        whole[100:page] = b"\xa5" * (page - 100)
    elif what == "end":
        del whole[len(whole) // 2 :]
    else:
        for at in range(3 * page, len(whole), 2 * page):
            whole[at : at + 64] = bytes(64)
    path.write_bytes(whole)
    return bytes(whole)


@pytest.mark.parametrize("what", ["beginning", "first page", "middle", "end"])
def test_a_damaged_store_makes_no_backup_and_is_replaced_by_an_earlier_one(
    url: str, backup: Path, clock: ManualClock, tmp_path: Path, what: str
) -> None:
    before = compared(url)
    content = damage(tmp_path / "state.db", what)
    with pytest.raises(DamagedStore, match=r"^[^\n]*`monitor restore BACKUP --replace state.db` keeps [^\n]*$"):
        back_up(url, tmp_path / "second.db", clock)
    assert not (tmp_path / "second.db").exists()
    with pytest.raises((DamagedStore, Conflict), match=r"--replace state\.db"):
        restore(backup, url, clock, actor="cli:ada")
    restored = restore(backup, url, clock, replace="state.db", actor="cli:ada")
    assert compared(url) == before
    assert restored.kept is not None
    assert restored.kept.parent == tmp_path
    assert restored.kept.name.startswith("state.db.damaged-")
    assert restored.kept.read_bytes()[100:] == content[100:]


def test_a_store_is_not_replaced_under_a_process_that_uses_it(
    url: str, backup: Path, clock: ManualClock, tmp_path: Path
) -> None:
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM meta').fetchall();"
        " print('open'); input()"
    )
    command = [sys.executable, "-Iuc", script, str(tmp_path / "state.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"open\n"
        with pytest.raises(Conflict, match=r"another process uses the store .*: stop the service first"):
            restore(backup, url, clock, replace="state.db", actor="cli:ada")
        content = damage(tmp_path / "state.db", "middle")
        with pytest.raises(Conflict, match=r"another process uses the store .*: stop the service first"):
            restore(backup, url, clock, replace="state.db", actor="cli:ada")
        assert (tmp_path / "state.db").read_bytes() == content
        user.communicate(b"\n")
    assert restore(backup, url, clock, replace="state.db", actor="cli:ada").kept is not None


def test_a_file_that_is_there_is_not_overwritten(url: str, backup: Path, clock: ManualClock) -> None:
    before = backup.read_bytes()
    with pytest.raises(InputError, match="must be a new file"):
        back_up(url, backup, clock)
    assert backup.read_bytes() == before
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        back_up(url, backup.parent / "none" / "backup.db", clock)
