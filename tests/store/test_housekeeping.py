"""What is kept for a time goes, and the disk does not fill."""

from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.store import history
from monitor.store.address import LOG_LIMIT_BYTES
from monitor.store.base import Bucket
from monitor.store.housekeeping import Swept, sweep
from monitor.store.sql import SqlStore
from tests.store.histories import CHURN, every
from tests.store.samples import HOUR_MS, batch, checkpoint, letter, load, pruned_dead_letters

DAY_MS = 24 * HOUR_MS
KEPT_MS = {HOUR_MS: DAY_MS}


def test_dead_letters_go_with_age_and_are_counted(store: SqlStore, clock: ManualClock) -> None:
    epochs = {partition: store.claim(partition) for partition in (0, 1)}
    for day in range(4):
        for partition, epoch in epochs.items():
            store.save(
                [
                    checkpoint(
                        epoch,
                        day,
                        partition=partition,
                        dead_letters=[letter(10 * day + at, partition=partition) for at in range(3)],
                    )
                ]
            )
        clock.advance(86_400)
    swept = sweep(store.database, 3 * DAY_MS, DAY_MS, KEPT_MS)
    assert swept.dead_letters == 6
    assert sorted({stored.letter.offset // 10 for stored in store.dead_letters()}) == [1, 2, 3]
    assert pruned_dead_letters(store) == 6
    assert sweep(store.database, None, DAY_MS, KEPT_MS).dead_letters == 0
    assert sweep(store.database, 1, DAY_MS, KEPT_MS).dead_letters == 18
    assert sweep(store.database, 1, DAY_MS, KEPT_MS) == Swept()
    assert store.count_dead_letters() == {}


def test_more_old_letters_than_go_at_once(store: SqlStore, clock: ManualClock) -> None:
    store.save([checkpoint(store.claim(0), 0, dead_letters=[letter(at) for at in range(2500)])])
    clock.advance(10)
    store.save([checkpoint(store.claim(0), 0, dead_letters=[letter(9999)])])
    assert sweep(store.database, 5_000, DAY_MS, KEPT_MS).dead_letters == 2500
    assert [stored.letter.offset for stored in store.dead_letters()] == [9999]


def test_history_goes_with_age(store: SqlStore) -> None:
    for day in (1, 4, 9):
        with store.database.writing() as connection:
            history.append(connection, {CHURN: every(HOUR_MS, day * DAY_MS, day * DAY_MS + HOUR_MS)})
    assert sweep(store.database, None, 5 * DAY_MS, KEPT_MS) == Swept(history=1)
    assert sweep(store.database, None, 5 * DAY_MS, KEPT_MS) == Swept()
    with store.database.reading() as connection:
        kept = history.read(connection, CHURN).to_ms.tolist()
    assert kept == [day * DAY_MS + HOUR_MS for day in (4, 9)]


def churn(store: SqlStore, hours: range, rows: int) -> None:
    """An hour's events come, and those of two hours before go, again and again."""
    epoch = store.claim(0)
    for hour in hours:
        gone = [Bucket("churn", (hour - 2) * HOUR_MS)]
        events = [batch(Bucket("churn", hour * HOUR_MS), rows, seed=hour)]
        letters = [letter(hour * 10 + at) for at in range(10)]
        store.save([checkpoint(epoch, hour, journal=events, dropped=gone, dead_letters=letters)])


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def test_a_file_that_is_used_for_long_stays_as_large_as_what_it_holds(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "state.db"
    sizes = []
    for hours in (range(2, 12), range(12, 150)):
        with SqlStore.open(f"sqlite:///{path}", clock=clock, dead_letter_limit=50) as store:
            churn(store, hours, 10_000)
            # Of the file, and of the log beside it, which is copied back when it has 16 MiB.
            assert size(path) < path.stat().st_size + (32 << 20)
            assert len(load(store).journal) == 2
            assert sum(store.count_dead_letters().values()) == 50
        sizes.append(size(path))
    assert sizes[1] < 1.5 * sizes[0]


def test_after_a_flood_the_disk_has_its_room_back(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "state.db"
    with SqlStore.open(f"sqlite:///{path}", clock=clock) as store:
        churn(store, range(2, 4), 300_000)
        flooded = path.stat().st_size
        churn(store, range(4, 8), 1_000)
        swept = sweep(store.database, None, DAY_MS, KEPT_MS)
        assert swept.free_bytes > flooded // 2
        assert len(load(store).journal) == 2
        assert sweep(store.database, None, DAY_MS, KEPT_MS) == Swept()
    # The log beside it has been copied back.
    assert path.stat().st_size < flooded // 2


@pytest.mark.parametrize("pages", [0, 1])
def test_little_room_is_kept_for_what_comes(tmp_path: Path, clock: ManualClock, pages: int) -> None:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=clock) as store:
        churn(store, range(2, 6), 1 + 2_000 * pages)
        assert sweep(store.database, None, DAY_MS, KEPT_MS).free_bytes == 0


def test_a_log_that_one_transaction_made_long_is_emptied_while_nothing_is_written(
    tmp_path: Path, clock: ManualClock
) -> None:
    log = tmp_path / "monitor.db-wal"
    with SqlStore.open(f"sqlite:///{tmp_path}/monitor.db", clock=clock) as store:
        sweep(store.database, None, DAY_MS, KEPT_MS)
        with store.database.writing() as connection:
            connection.exec_driver_sql("CREATE TABLE long (bytes BLOB)")
            for _ in range(40):
                connection.exec_driver_sql("INSERT INTO long VALUES (zeroblob(1048576))")
        assert log.stat().st_size > LOG_LIMIT_BYTES
        reading = store.database.snapshot()
        reading.exec_driver_sql("SELECT count(*) FROM long").scalar_one()
        with store.database.writing() as connection:
            connection.exec_driver_sql("INSERT INTO long VALUES (zeroblob(1))")
        # It does not wait for a reader.
        sweep(store.database, None, DAY_MS, KEPT_MS)
        assert log.stat().st_size > LOG_LIMIT_BYTES
        reading.close()
        sweep(store.database, None, DAY_MS, KEPT_MS)
        assert log.stat().st_size == 0
