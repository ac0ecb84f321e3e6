"""What a backup holds is what the store held, in either database, and a restore is all of it or nothing."""

import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import zipfile
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa

from monitor.clock import ManualClock
from monitor.errors import Conflict, DamagedStore, FencedOut, IncompatibleStore, InputError, NoStore, StoreError
from monitor.store import history
from monitor.store.address import connect
from monitor.store.backup import MANIFEST, STORE, Manifest, back_up, sha256_of, store_tables, write_backup
from monitor.store.base import JOURNAL_ROW, Bucket
from monitor.store.migrate import newest_revision
from monitor.store.recalibrations import JobState
from monitor.store.restore import check_backup, restore, store_name
from monitor.store.schema import AUDIT
from monitor.store.sql import SqlStore
from tests.patience import PATIENCE_SECONDS, eventually, joined
from tests.real.postgres import PostgresServer
from tests.store import refits
from tests.store.histories import CHURN, every
from tests.store.next_version import REVISION, become_next_version
from tests.store.samples import HOUR_MS, batch, checkpoint, letter, load, pane_closing

NOT_COMPARED = {"partitions", "audit", "alembic_version"}
"""What a restore adds to: epochs are raised, and the audit trail tells of it."""


@pytest.fixture
def other_url(request: pytest.FixtureRequest, store_url: str, tmp_path: Path) -> str:
    """An empty store in the other database."""
    if store_url.startswith("postgresql"):
        return f"sqlite:///{tmp_path}/other/monitor.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.url(server.new_database())


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


def contents(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, as the database has it."""
    with closing(connect(url, 10, ManualClock())) as database, database.reading() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(sa.select(table).order_by(*table.primary_key))]
            for table in store_tables(connection)
        }


def compared(url: str) -> dict[str, list[tuple[object, ...]]]:
    return {name: rows for name, rows in contents(url).items() if name not in NOT_COMPARED}


@pytest.fixture
def backup(store_url: str, clock: ManualClock, tmp_path: Path) -> Path:
    fill(store_url, clock)
    target = tmp_path / "backup.zip"
    back_up(store_url, target, clock)
    return target


def test_a_store_moves_to_the_other_database_and_back(
    store_url: str, other_url: str, backup: Path, clock: ManualClock, tmp_path: Path
) -> None:
    restore(backup, other_url, clock, actor="cli:ada")
    assert compared(other_url) == compared(store_url)
    assert len(compared(other_url)["journal"]) == 4
    assert len(compared(other_url)["history"]) == 3
    back_up(other_url, tmp_path / "second.zip", clock)
    restored = restore(tmp_path / "second.zip", store_url, clock, replace=store_name(store_url), actor="cli:ada")
    assert restored.replaced["journal"] == 4
    assert compared(store_url) == compared(other_url)


def test_what_was_restored_goes_on(other_url: str, backup: Path, clock: ManualClock) -> None:
    restore(backup, other_url, clock, actor="cli:ada")
    with SqlStore.open(other_url, clock=clock) as store:
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


def test_numbers_go_on_where_the_last_rows_are_gone(
    store_url: str, other_url: str, clock: ManualClock, tmp_path: Path
) -> None:
    fill(store_url, clock)
    with SqlStore.open(store_url, clock=clock) as store:
        highest = max(each.number for each in store.dead_letters())
        store.remove_dead_letters([each.number for each in store.dead_letters()])
    back_up(store_url, tmp_path / "backup.zip", clock)
    restore(tmp_path / "backup.zip", other_url, clock, actor="cli:ada")
    with SqlStore.open(other_url, clock=clock) as store:
        store.save([checkpoint(store.claim(0), 99, dead_letters=[letter(77)])])
        assert store.dead_letters()[0].number == highest + 1


def test_the_manifest_says_what_is_in_it(store_url: str, backup: Path, clock: ManualClock) -> None:
    with zipfile.ZipFile(backup) as archive:
        manifest = msgspec.json.decode(archive.read(MANIFEST), type=Manifest)
    assert manifest == check_backup(backup, clock)
    assert manifest.database == store_url.partition(":")[0]
    assert manifest.schema_revision == newest_revision()
    assert [(each.topic, each.partition, each.offset) for each in manifest.offsets] == [
        ("predictions", 0, 17),
        ("predictions", 3, 20),
    ]
    assert manifest.tables == {name: len(rows) for name, rows in contents(store_url).items()}
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert [path.name for path in backup.parent.iterdir() if "monitor-" in path.name or "unfinished" in path.name] == []


def test_the_restore_stands_in_the_audit_trail(other_url: str, backup: Path, clock: ManualClock) -> None:
    restore(backup, other_url, clock, actor="cli:ada")
    with SqlStore.open(other_url, clock=clock) as store:
        *earlier, entry = refits.recalibrations(store).audit(limit=100)
    assert len(earlier) > 3
    assert (entry.actor, entry.action, entry.at_ms) == ("cli:ada", "restored", clock.now_ms())
    assert entry.detail["sha256"] == check_backup(backup, clock).sha256


def test_a_store_that_holds_something_is_not_replaced_by_mistake(
    store_url: str, backup: Path, clock: ManualClock
) -> None:
    before = contents(store_url)
    name = store_name(store_url)
    with pytest.raises(Conflict, match=rf"4 in journal.* add `--replace {name}`"):
        restore(backup, store_url, clock, actor="cli:ada")
    with pytest.raises(InputError, match=rf"must name the store .*'{name}', got 'yes'"):
        restore(backup, store_url, clock, replace="yes", actor="cli:ada")
    assert contents(store_url) == before


def test_a_service_that_still_runs_on_what_was_replaced_saves_nothing_more(
    store_url: str, backup: Path, clock: ManualClock
) -> None:
    with SqlStore.open(store_url, clock=clock) as running:
        epoch = running.claim(0)
        running.save([checkpoint(epoch, 50)])
        restore(backup, store_url, clock, replace=store_name(store_url), actor="cli:ada")
        with pytest.raises(FencedOut):
            running.save([checkpoint(epoch, 60)])
        assert load(running).offsets == {"predictions": 17}


def test_a_backup_beside_a_busy_service_is_of_one_moment(store_url: str, clock: ManualClock, tmp_path: Path) -> None:
    """Offsets, counters and journal were saved together, and are together in every backup."""
    saved = [0]
    done = threading.Event()

    def backup_of_more_than(reached: int, name: str) -> Manifest:
        eventually(lambda: saved[-1] > reached)
        return back_up(store_url, tmp_path / name, clock)

    def serve() -> None:
        with SqlStore.open(store_url, patience_seconds=PATIENCE_SECONDS) as store:
            epochs = {partition: store.claim(partition) for partition in (0, 1)}
            offset = 0
            while not done.is_set():
                offset += 1
                bucket = Bucket("churn", HOUR_MS)
                counters = {("prediction", "accepted"): offset}
                store.save(
                    [
                        checkpoint(
                            epoch,
                            offset,
                            partition=partition,
                            counters=counters,
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
        earlier = backup_of_more_than(0, "0.zip")
        manifests = [earlier, backup_of_more_than(earlier.offsets[0].offset, "1.zip")]
    finally:
        done.set()
        joined(thread)
    assert manifests[-1].offsets[0].offset > manifests[0].offsets[0].offset
    for number, manifest in enumerate(manifests):
        url = f"sqlite:///{tmp_path}/restored-{number}.db"
        restore(tmp_path / f"{number}.zip", url, clock, actor="cli:ada")
        with SqlStore.open(url) as store:
            for partition in (0, 1):
                state = load(store, partition)
                offset = state.offsets["predictions"]
                assert offset == manifest.offsets[0].offset
                assert state.counters == {("prediction", "accepted"): offset}
                assert sum(map(len, state.rows().values())) == offset * JOURNAL_ROW.itemsize
            assert store.count_dead_letters() == {"not_json": 2 * offset}


def test_a_backup_of_an_earlier_version_is_brought_forward(
    store_url: str, other_url: str, backup: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, second = compared(store_url), backup.with_name("second.zip")
    become_next_version(monkeypatch, backup.parent)
    if store_url.startswith("sqlite"):
        assert back_up(store_url, second, clock).tables == check_backup(backup, clock).tables
    else:
        with pytest.raises(IncompatibleStore, match=f"this version needs {REVISION}: run the command of the version"):
            back_up(store_url, second, clock)
    # Into an empty store, and into one of the earlier version, too.
    for url, replace in ((other_url, None), (store_url, store_name(store_url))):
        restored = restore(backup, url, clock, replace=replace, actor="cli:ada")
        assert restored.schema_revision == REVISION
        assert compared(url) == before
        with SqlStore.open(url, clock=clock) as store, store.database.reading() as connection:
            assert connection.exec_driver_sql("SELECT claims FROM partitions").scalars().all() == [100, 100]


def test_a_restore_that_fails_leaves_everything_as_it_was(
    store_url: str, other_url: str, backup: Path, clock: ManualClock, tmp_path: Path
) -> None:
    fill(other_url, clock)
    before = contents(other_url)
    # Sound by its digest; but two refits of a model are under way in it, which the database refuses.
    broken = tmp_path / "broken.db"
    with zipfile.ZipFile(backup) as archive:
        manifest = msgspec.json.decode(archive.read(MANIFEST), type=Manifest)
        broken.write_bytes(archive.read(STORE))
    with closing(sqlite3.connect(broken)) as file, file:
        file.execute("DROP INDEX refits_under_way")
        file.execute("UPDATE refits SET state = 'queued'")
    told = msgspec.structs.replace(manifest, sha256=sha256_of(broken), size=broken.stat().st_size)
    write_backup(tmp_path / "broken.zip", broken, told)
    with pytest.raises(Exception, match="refused a statement"):
        restore(tmp_path / "broken.zip", other_url, clock, replace=store_name(other_url), actor="cli:ada")
    assert contents(other_url) == before


# ---------------------------------------------------------------------- what needs one database only


@pytest.fixture
def plain(tmp_path: Path, clock: ManualClock) -> tuple[str, Path]:
    """A store in SQLite, and a backup of it."""
    url = f"sqlite:///{tmp_path}/state.db"
    fill(url, clock)
    back_up(url, tmp_path / "backup.zip", clock)
    return url, tmp_path / "backup.zip"


def test_no_byte_of_a_backup_can_change_unnoticed(plain: tuple[str, Path], clock: ManualClock, tmp_path: Path) -> None:
    url, backup = plain
    before = contents(url)
    whole = backup.read_bytes()
    damaged = tmp_path / "damaged.zip"
    noticed = 0
    for at in range(0, len(whole), len(whole) // 40):
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            found = check_backup(damaged, clock)
        except InputError:
            noticed += 1
        else:
            # Zip notes some things that nobody reads: times, and who may read the file.
            assert found == check_backup(backup, clock)
    assert noticed > 30
    for cut in (0, 10, len(whole) // 2, len(whole) - 1):
        damaged.write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"not a backup of this service|damaged"):
            restore(damaged, url, clock, replace="state.db", actor="cli:ada")
    assert contents(url) == before


def test_a_foreign_file_is_refused(clock: ManualClock, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    (tmp_path / "notes.txt").write_text("no archive")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("photo.jpg", b"x")
    for name in ("notes.txt", "other.zip"):
        with pytest.raises(InputError, match=f"{name} is not a backup of this service"):
            restore(tmp_path / name, url, clock, actor="cli:ada")
    with pytest.raises(InputError, match=r"nothing\.zip cannot be read: No such file"):
        restore(tmp_path / "nothing.zip", url, clock, actor="cli:ada")
    assert not (tmp_path / "state.db").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 2}, "of format 2, this version reads 1"),
        ({"schema_revision": "9999"}, "schema revision 9999, this version knows up to"),
        ({"schema_revision": "0012"}, "schema revision 0012, of a state of development before the first version"),
        ({"grid_version": "77"}, "grid version 77, this version needs"),
        ({"tables": {"journal": 1}}, "does not match its manifest"),
        ({"sha256": "0" * 64}, "is damaged"),
    ],
)
def test_a_backup_that_is_not_for_this_version_is_refused(
    plain: tuple[str, Path], clock: ManualClock, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    _, backup = plain
    with zipfile.ZipFile(backup) as archive, zipfile.ZipFile(tmp_path / "changed.zip", "w") as changed:
        manifest = msgspec.json.decode(archive.read(MANIFEST)) | change
        changed.writestr(MANIFEST, msgspec.json.encode(manifest))
        changed.writestr(STORE, archive.read(STORE))
    with pytest.raises((InputError, IncompatibleStore), match=said):
        restore(tmp_path / "changed.zip", f"sqlite:///{tmp_path}/new.db", clock, actor="cli:ada")
    assert not (tmp_path / "new.db").exists()


def test_where_there_is_no_store_there_is_no_backup(clock: ManualClock, tmp_path: Path) -> None:
    with pytest.raises(NoStore, match=r"there is no store at .*/none\.db"):
        back_up(f"sqlite:///{tmp_path}/none.db", tmp_path / "backup.zip", clock)
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as file:
        file.execute("CREATE TABLE t (x)")
    with pytest.raises(IncompatibleStore, match="holds no store of this service"):
        back_up(f"sqlite:///{tmp_path}/foreign.db", tmp_path / "backup.zip", clock)
    assert not (tmp_path / "backup.zip").exists()


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
    plain: tuple[str, Path], clock: ManualClock, tmp_path: Path, what: str
) -> None:
    url, backup = plain
    before = compared(url)
    content = damage(tmp_path / "state.db", what)
    with pytest.raises(DamagedStore, match=r"^[^\n]*`monitor restore BACKUP --replace state.db` keeps [^\n]*$"):
        back_up(url, tmp_path / "second.zip", clock)
    assert not (tmp_path / "second.zip").exists()
    with pytest.raises((DamagedStore, Conflict), match=r"--replace state\.db"):
        restore(backup, url, clock, actor="cli:ada")
    restored = restore(backup, url, clock, replace="state.db", actor="cli:ada")
    assert compared(url) == before
    assert restored.kept is not None
    assert restored.kept.parent == tmp_path
    assert restored.kept.name.startswith("state.db.damaged-")
    assert restored.kept.read_bytes()[100:] == content[100:]


def test_a_damaged_store_is_not_replaced_under_a_process_that_uses_it(
    plain: tuple[str, Path], clock: ManualClock, tmp_path: Path
) -> None:
    url, backup = plain
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM meta').fetchall();"
        " print('open'); input()"
    )
    command = [sys.executable, "-Iuc", script, str(tmp_path / "state.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"open\n"
        content = damage(tmp_path / "state.db", "middle")
        with pytest.raises(Conflict, match=r"another process uses the damaged store .*: stop the service first"):
            restore(backup, url, clock, replace="state.db", actor="cli:ada")
        assert (tmp_path / "state.db").read_bytes() == content
        user.communicate(b"\n")
    assert restore(backup, url, clock, replace="state.db", actor="cli:ada").kept is not None


def test_a_file_that_is_there_is_not_overwritten(plain: tuple[str, Path], clock: ManualClock) -> None:
    url, backup = plain
    before = backup.read_bytes()
    with pytest.raises(InputError, match="must be a new file"):
        back_up(url, backup, clock)
    assert backup.read_bytes() == before
    with pytest.raises(InputError, match=r"folder .* does not exist"):
        back_up(url, backup.parent / "none" / "backup.zip", clock)


def test_a_restored_store_has_the_triggers_and_indexes_of_a_new_one(
    plain: tuple[str, Path], clock: ManualClock, tmp_path: Path
) -> None:
    _, backup = plain
    restore(backup, f"sqlite:///{tmp_path}/new.db", clock, actor="cli:ada")
    statement = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2"
    shutil.copy(tmp_path / "new.db", tmp_path / "copy.db")
    with (
        closing(sqlite3.connect(tmp_path / "new.db")) as new,
        closing(sqlite3.connect(tmp_path / "state.db")) as old,
    ):
        assert new.execute(statement).fetchall() == old.execute(statement).fetchall()
    with (
        SqlStore.open(f"sqlite:///{tmp_path}/new.db") as store,
        pytest.raises(StoreError, match="never changed"),
        store.database.writing() as connection,
    ):
        connection.execute(sa.delete(AUDIT))
