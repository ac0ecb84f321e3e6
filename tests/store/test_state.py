"""What is saved is what is loaded, on both databases."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.errors import FencedOut, IncompatibleTables
from monitor.events.model import SeriesKey, Stratum
from monitor.scores import GridTable
from monitor.store.base import Bucket, ClosedPane, JournalBatch, ModelState, PaneKey
from monitor.store.sql import SqlStore
from tests.store.samples import HOUR_MS, batch, checkpoint, grid_table, letter, load, pane, rows

FIRST = Bucket("churn", 0)
SECOND = Bucket("churn", HOUR_MS)


def test_a_partition_nobody_saved_is_empty(store: SqlStore) -> None:
    loaded = load(store, 7)
    assert loaded == ({}, [], [], {}, [], {})


def test_everything_comes_back_as_it_was_saved(store: SqlStore, store_url: str) -> None:
    epoch = store.claim(3)
    strata = [
        Stratum("churn", "7", (("region", "eu"), ("tier", "größe\\0 \N{SNOWMAN}"))),
        Stratum("odd\0name\\0\\", "unversioned", ()),
    ]
    models = [ModelState("churn", 12, -1, 5), ModelState("odd\0name\\0\\", -1, 99)]
    odd = ClosedPane(PaneKey(60_000, -60_000, SeriesKey("odd\0name\\0\\", "\\", "a=\0")), grid_table(seed=2))
    store.save(
        [
            checkpoint(
                epoch,
                41,
                partition=3,
                offsets={"predictions": 2**62, "outcomes": 0},
                models=models,
                new_strata=strata[:1],
                journal=[batch(FIRST, seed=1), batch(Bucket("odd\0name\\0\\", -HOUR_MS), seed=2)],
                closed=[pane(0, grid_table(seed=1)), odd],
                counters={("prediction", "joined"): 5, ("outcome", "orphan"): 2**40},
            )
        ]
    )
    store.save([checkpoint(epoch, 42, partition=3, models=models, first_stratum=1, new_strata=strata[1:])])

    with SqlStore.open(store_url) as other:
        loaded = load(other, 3)
    assert loaded.offsets == {"predictions": 42, "outcomes": 0}
    assert loaded.models == models
    assert loaded.strata == strata
    assert loaded.counters == {("prediction", "joined"): 5, ("outcome", "orphan"): 2**40}
    assert loaded.journal == [batch(FIRST, seed=1), batch(Bucket("odd\0name\\0\\", -HOUR_MS), seed=2)]
    assert loaded.panes == {pane(0, grid_table()).key: grid_table(seed=1), odd.key: odd.table}


def test_partitions_are_apart(store: SqlStore) -> None:
    for partition in (0, 1):
        epoch = store.claim(partition)
        journal = [batch(FIRST, seed=partition)]
        closed = [pane(0, grid_table(seed=partition))]
        store.save([checkpoint(epoch, partition, partition=partition, journal=journal, closed=closed)])
    store.save([checkpoint(1, 9, partition=1, dropped=[FIRST], expired_before_ms={("churn", 300_000): 1})])

    assert load(store, 0).rows() == {FIRST: rows(3, 0)}
    assert list(load(store, 0).panes.values()) == [grid_table(seed=0)]
    assert load(store, 1).journal == []
    assert load(store, 1).panes == {}


def test_watermarks_and_counters_are_replaced(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save([checkpoint(epoch, 1, models=[ModelState("a", 1, 1)], counters={("x", "y"): 1})])
    store.save(
        [checkpoint(epoch, 2, models=[ModelState("a", 7, 2, 3), ModelState("b", 1, 1)], counters={("x", "y"): 4})]
    )
    loaded = load(store)
    assert loaded.models == [ModelState("a", 7, 2, 3), ModelState("b", 1, 1)]
    assert loaded.counters == {("x", "y"): 4}


def test_the_journal_comes_in_the_order_in_which_it_was_saved(store: SqlStore) -> None:
    epoch = store.claim(0)
    saved = [batch((FIRST, SECOND)[i % 2], count=1 + i % 3, seed=i) for i in range(20)]
    for i in range(0, 20, 4):
        store.save([checkpoint(epoch, i, journal=saved[i : i + 4])])
    assert load(store).journal == saved


def test_a_batch_without_rows_is_no_batch_and_half_a_row_is_refused(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save([checkpoint(epoch, 1, journal=[JournalBatch(FIRST, b"")])])
    assert load(store).journal == []
    with pytest.raises(ValueError, match="whole rows of 46 bytes, got 47 bytes"):
        store.save([checkpoint(epoch, 2, journal=[JournalBatch(FIRST, b"x" * 47)])])
    assert load(store).offsets == {"predictions": 1}


def test_a_dropped_bucket_goes_with_what_the_same_checkpoint_appends(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save([checkpoint(epoch, 1, journal=[batch(FIRST), batch(SECOND)])])
    store.save([checkpoint(epoch, 2, journal=[batch(FIRST, seed=1), batch(SECOND, seed=2)], dropped=[FIRST])])
    assert load(store).rows() == {SECOND: rows(3) + rows(3, 2)}


def test_closed_panes_add_also_within_a_checkpoint(store: SqlStore) -> None:
    epoch = store.claim(0)
    parts = [grid_table(seed=seed) for seed in range(4)]
    store.save([checkpoint(epoch, 1, closed=[pane(0, parts[0]), pane(0, parts[1]), pane(300_000, parts[1])])])
    store.save([checkpoint(epoch, 2, closed=[pane(0, parts[2]), pane(0, parts[3], segment="region=eu")])])
    assert load(store).panes == {
        pane(0, parts[0]).key: GridTable.sum(parts[:3]),
        pane(300_000, parts[0]).key: parts[1],
        pane(0, parts[0], segment="region=eu").key: parts[3],
    }


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(cuts=st.lists(st.integers(0, 60), max_size=6), saves=st.integers(1, 4))
def test_however_a_pane_is_split_its_sum_is_the_same(store: SqlStore, cuts: list[int], saves: int) -> None:
    rng = np.random.default_rng(5)
    p, y = rng.random(60), rng.integers(-1, 2, 60)
    edges = [0, *sorted(cuts), 60]
    parts = [GridTable.from_events(p[a:b], y[a:b]) for a, b in itertools.pairwise(edges)]
    epoch = store.claim(0)
    for i in range(saves):
        store.save([checkpoint(epoch, i, closed=[pane(0, part) for part in parts[i::saves]])])
    found = load(store).panes
    # The next example begins anew.
    store.save([checkpoint(epoch, 9, expired_before_ms={("churn", 300_000): 1})])
    assert found == {pane(0, parts[0]).key: GridTable.from_events(p, y)}


def test_expired_panes_go_by_model_and_slide(store: SqlStore) -> None:
    epoch = store.claim(0)
    table = grid_table()
    closed = [pane(start, table, slide_ms=slide) for slide in (100, 200) for start in (0, 200, 400)]
    store.save([checkpoint(epoch, 1, closed=closed)])
    # What is closed and expired at once goes too.
    store.save([checkpoint(epoch, 2, closed=[pane(100, table, slide_ms=100)], expired_before_ms={("churn", 100): 400})])
    assert [(key.slide_ms, key.start_ms) for key in load(store).panes] == [(100, 400), (200, 0), (200, 200), (200, 400)]


def test_several_checkpoints_are_one_transaction(store: SqlStore) -> None:
    epochs = [store.claim(partition) for partition in range(3)]
    good = [checkpoint(epochs[i], 10 + i, partition=i, journal=[batch(FIRST, seed=i)]) for i in (2, 0, 1)]
    store.save(good)
    assert [load(store, i).rows() for i in range(3)] == [{FIRST: rows(3, i)} for i in range(3)]

    store.claim(2)
    with pytest.raises(FencedOut, match="partition 2 "):
        store.save([checkpoint(epochs[i], 20, partition=i, journal=[batch(SECOND)]) for i in range(3)])
    assert [load(store, i).offsets["predictions"] for i in range(3)] == [10, 11, 12]
    assert [load(store, i).rows() for i in range(3)] == [{FIRST: rows(3, i)} for i in range(3)]


def test_one_partition_twice_in_a_save_is_refused(store: SqlStore) -> None:
    epoch = store.claim(0)
    with pytest.raises(ValueError, match="one checkpoint per partition"):
        store.save([checkpoint(epoch, 1), checkpoint(epoch, 2)])


def test_a_stale_owner_leaves_nothing(store: SqlStore, store_url: str) -> None:
    first = store.claim(0)
    store.save([checkpoint(first, 1, journal=[batch(FIRST)], closed=[pane(0, grid_table())])])
    before = load(store)
    with SqlStore.open(store_url) as other:
        second = other.claim(0)
        assert second > first
        with pytest.raises(FencedOut, match=f"partition 0 was claimed under epoch {first}, its epoch now is {second}"):
            store.save(
                [
                    checkpoint(
                        first,
                        2,
                        new_strata=[Stratum("churn", "7", ())],
                        journal=[batch(SECOND)],
                        dropped=[FIRST],
                        closed=[pane(0, grid_table())],
                        expired_before_ms={("churn", 300_000): 10**12},
                        counters={("a", "b"): 1},
                        dead_letters=[letter(1)],
                    )
                ]
            )
        assert load(store) == before
        assert store.count_dead_letters() == {}
        other.save([checkpoint(second, 3)])
    assert load(store).offsets == {"predictions": 3}


def test_a_partition_must_be_claimed_before_it_is_saved(store: SqlStore) -> None:
    with pytest.raises(FencedOut, match="its epoch now is None"):
        store.save([checkpoint(1, 1)])


def test_an_error_in_the_middle_leaves_nothing(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save([checkpoint(epoch, 1, journal=[batch(FIRST)])])
    before = load(store)
    foreign = GridTable(grid_table().cell, grid_table().values, version=2)
    closed = [pane(0, grid_table()), pane(0, foreign)]
    with pytest.raises(IncompatibleTables):
        store.save([checkpoint(epoch, 2, journal=[batch(SECOND)], dropped=[FIRST], closed=closed)])
    assert load(store) == before


def test_a_loading_state_sees_no_later_save(store: SqlStore) -> None:
    epoch = store.claim(0)
    saved = [batch(FIRST, seed=i) for i in range(40)]
    store.save([checkpoint(epoch, 1, journal=saved, closed=[pane(0, grid_table())])])
    state = store.load(0)
    head = [next(state.journal) for _ in range(3)]
    store.save([checkpoint(epoch, 2, journal=[batch(FIRST, seed=99)], closed=[pane(0, grid_table(seed=1))])])
    store.save([checkpoint(epoch, 3, dropped=[FIRST])])
    assert head + list(state.journal) == saved
    assert [item.table for item in state.panes] == [grid_table()]
    assert load(store).journal == []


def test_loads_that_are_abandoned_give_their_connection_back(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save(
        [checkpoint(epoch, 1, journal=[batch(FIRST, seed=i) for i in range(40)], closed=[pane(0, grid_table())])]
    )
    kept = []
    for i in range(30):  # more than the pool has
        state = store.load(0)
        if i % 3 == 0:
            next(state.journal)
        elif i % 3 == 1:
            kept.append(list(state.journal))
            state.panes.close()  # type: ignore[attr-defined]  # streams close
            assert list(state.panes) == []
        del state
    assert store._database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert len(kept[0]) == 40
