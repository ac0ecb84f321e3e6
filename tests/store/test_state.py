"""What is saved is what is loaded, on both databases."""

import pytest

from monitor.clock import SystemClock
from monitor.errors import FencedOut, StoreError
from monitor.events.model import Stratum
from monitor.events.strata import Cap
from monitor.scores import GridTable
from monitor.store.base import Bucket, CapUse, ModelState, SavedStratum
from monitor.store.closing import Closing, OldPanes
from monitor.store.sql import SqlStore
from tests.long import sqlite_first
from tests.store.samples import HOUR_MS, batch, checkpoint, closings_in, grid_table, letter, load, pane_closing, rows
from tests.stream.support import tables_of

FIRST = Bucket("churn", 0)
SECOND = Bucket("churn", HOUR_MS)


def test_a_partition_nobody_saved_is_empty(store: SqlStore) -> None:
    loaded = load(store, 7)
    assert loaded == ({}, [], {}, {}, [])


def test_everything_comes_back_as_it_was_saved(store: SqlStore, store_url: str) -> None:
    epoch = store.claim(3)
    strata = {
        0: SavedStratum(Stratum("churn", "7", (("region", "eu"), ("tier", "größe\\0 \N{SNOWMAN}"))), 5),
        3: SavedStratum(Stratum("odd\0name\\0\\", "unversioned", ())),
    }
    models = [ModelState("churn", 12, -1, 5), ModelState("odd\0name\\0\\", -1, 99)]
    odd = pane_closing(60_000, 2, model="odd\0name\\0\\", version="\\")
    store.save(
        [
            checkpoint(
                epoch,
                41,
                partition=3,
                offsets={"predictions": 2**62, "outcomes": 0},
                models=models,
                strata={0: strata[0]._replace(newest_ms=1)},
                journal=[batch(FIRST, seed=1), batch(Bucket("odd\0name\\0\\", -HOUR_MS), seed=2)],
                closings=[pane_closing(300_000, 1), odd],
                counters={("prediction", "joined"): 5, ("outcome", "orphan"): 2**40},
            )
        ]
    )
    store.save([checkpoint(epoch, 42, partition=3, models=models, strata=strata)])

    with SqlStore.open(store_url, clock=SystemClock()) as other:
        loaded = load(other, 3)
        assert closings_in(other, 3) == [pane_closing(300_000, 1).to_bytes()]
        assert closings_in(other, 3, odd.model) == [odd.to_bytes()]
    assert loaded.offsets == {"predictions": 42, "outcomes": 0}
    assert loaded.models == models
    assert loaded.strata == strata
    assert loaded.counters == {("prediction", "joined"): 5, ("outcome", "orphan"): 2**40}
    assert loaded.journal == [batch(FIRST, seed=1), batch(Bucket("odd\0name\\0\\", -HOUR_MS), seed=2)]


def test_caps_are_replaced_as_a_whole_and_merged_over_partitions(store: SqlStore) -> None:
    versions, odd, models = Cap("versions", "churn"), Cap("segment_values", "odd\0name\\", "größe\0"), Cap("models")
    first, second = store.claim(0), store.claim(1)
    store.save([checkpoint(first, 0, caps={odd: CapUse(3, 4, 2**40, 7), models: CapUse(1, 2)})])
    store.save([checkpoint(first, 1)])
    assert store.load(0).caps == {odd: CapUse(3, 4, 2**40, 7), models: CapUse(1, 2)}
    store.save([checkpoint(first, 2, caps={odd: CapUse(3, 4, 5, 7), versions: CapUse(2, 4, 1, 9)})])
    store.save([checkpoint(second, 0, partition=1, caps={versions: CapUse(3, 4, 2, 8), models: CapUse(2, 2)})])
    assert store.load(0).caps == {odd: CapUse(3, 4, 5, 7), versions: CapUse(2, 4, 1, 9)}
    assert store.caps() == {odd: CapUse(3, 4, 5, 7), versions: CapUse(3, 4, 3, 9), models: CapUse(2, 2)}


def test_names_that_have_ended_are_removed(store: SqlStore) -> None:
    epoch = store.claim(0)
    strata = {at: SavedStratum(Stratum("ab"[at % 2], str(at), ()), at) for at in range(4)}
    models = [ModelState("a", 1, 1), ModelState("b", 2, 2)]
    store.save([checkpoint(epoch, 1, models=models, strata=strata)])
    store.save([checkpoint(epoch, 2, models=models, ended_strata=[1, 2, 3], ended_models=["b"])])
    assert (load(store).strata, load(store).models) == ({0: strata[0]}, models[:1])
    store.save([checkpoint(epoch, 3, models=models[:1], strata={2: strata[2]})])
    assert load(store).strata == {0: strata[0], 2: strata[2]}


def test_partitions_are_apart(store: SqlStore) -> None:
    for partition in (0, 1):
        epoch = store.claim(partition)
        journal = [batch(FIRST, seed=partition)]
        closings = [pane_closing(300_000, partition)]
        store.save([checkpoint(epoch, partition, partition=partition, journal=journal, closings=closings)])
    store.save([checkpoint(1, 9, partition=1, dropped=[FIRST], old=[OldPanes("churn", 300_000, 300_000, None)])])

    assert load(store, 0).rows() == {FIRST: rows(3, 0)}
    assert closings_in(store, 0) == [pane_closing(300_000, 0).to_bytes()]
    assert load(store, 1).journal == []
    assert closings_in(store, 1) == []


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


def test_a_dropped_bucket_goes_with_what_the_same_checkpoint_appends(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save([checkpoint(epoch, 1, journal=[batch(FIRST), batch(SECOND)])])
    store.save([checkpoint(epoch, 2, journal=[batch(FIRST, seed=1), batch(SECOND, seed=2)], dropped=[FIRST])])
    assert load(store).rows() == {SECOND: rows(3) + rows(3, 2)}


def test_closings_come_in_order_and_from_a_time_on(store: SqlStore) -> None:
    epoch = store.claim(0)
    saved = [pane_closing(300_000 * at, at) for at in range(1, 6)]
    store.save([checkpoint(epoch, 1, closings=[*saved[:2], pane_closing(300_000, model="other")])])
    store.save([checkpoint(epoch, 2, closings=saved[2:])])
    assert closings_in(store) == [part.to_bytes() for part in saved]
    assert [part.to_ms for part in store.read_closings("churn", {0: 600_000})[0]] == [900_000, 1_200_000, 1_500_000]
    assert store.read_closings("churn", {0: 1_500_000}) == {}
    assert store.read_closings("unknown", {0: -1}) == {}


def test_expired_closings_go_by_model(store: SqlStore) -> None:
    epoch = store.claim(0)
    saved = [pane_closing(300_000 * at, model=model) for model in ("churn", "other") for at in (1, 2, 3)]
    store.save([checkpoint(epoch, 1, closings=saved)])
    # What is closed and expired at once goes too.
    store.save(
        [checkpoint(epoch, 2, closings=[pane_closing(100_000)], old=[OldPanes("churn", 300_000, 600_000, None)])]
    )
    assert closings_in(store) == [pane_closing(900_000).to_bytes()]
    assert len(closings_in(store, 0, "other")) == 3


@sqlite_first
def test_many_small_closings_are_merged_and_nothing_is_lost(store: SqlStore) -> None:
    epoch = store.claim(0)
    saved = [pane_closing(300_000 * at, at) for at in range(1, 400)]
    most = 0
    for at, part in enumerate(saved):
        store.save([checkpoint(epoch, at, closings=[part])])
        most = max(most, len(closings_in(store))) if at % 20 == 0 else most
    assert most < 100
    found = store.read_closings("churn", {0: -1})[0]
    assert found[0].from_ms == 0
    assert [part.from_ms for part in found[1:]] == [part.to_ms for part in found[:-1]]
    assert Closing.merged(found).to_bytes() == Closing.merged(saved).to_bytes()
    # A reader that has read up to a time gets what ends later, whole.
    later = store.read_closings("churn", {0: 300_000 * 390})[0]
    assert later[-1].to_ms == 300_000 * 399
    assert later[0].from_ms <= 300_000 * 390


def test_old_closings_are_widened(store: SqlStore) -> None:
    epoch = store.claim(0)
    saved = [pane_closing(60_000 * at, at, width_ms=60_000) for at in range(1, 31)]
    store.save([checkpoint(epoch, 1, closings=saved)])
    for offset, before_ms in ((2, 600_000), (3, 600_000), (4, 1_200_000)):
        store.save([checkpoint(epoch, offset, old=[OldPanes("churn", 60_000, before_ms, 300_000)])])
        found = store.read_closings("churn", {0: -1})[0]
        narrow = (1_800_000 - before_ms) // 60_000
        assert [part.pane_ms for part in found] == [300_000] * (offset // 2) + [60_000] * narrow
        assert [part.from_ms for part in found[1:]] == [part.to_ms for part in found[:-1]]
        wide = tables_of(*(part.panes for part in found if part.pane_ms == 300_000))
        assert wide == {
            (start, found[0].panes.names[0]): GridTable.sum(
                grid_table(seed=at) for at in range(start // 60_000 + 1, start // 60_000 + 6)
            )
            for start in range(0, before_ms, 300_000)
        }
    assert Closing.merged([part for part in found if part.pane_ms == 60_000]).to_bytes() == (
        Closing.merged(saved[20:]).to_bytes()
    )


def test_what_is_not_settled_is_replaced_until_it_is_left_out(store: SqlStore) -> None:
    epoch = store.claim(0)
    first, second = pane_closing(300_000, 1).panes, pane_closing(600_000, 2).panes
    assert store.read_unsettled() == {}
    for offset, (given, expected) in enumerate([(first, first), (None, first), (second, second)]):
        store.save([checkpoint(epoch, offset, unsettled=given)])
        assert {part: panes.to_bytes() for part, panes in store.read_unsettled().items()} == {0: expected.to_bytes()}


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
    store.save([checkpoint(first, 1, journal=[batch(FIRST)], closings=[pane_closing(300_000)])])
    before = load(store)
    with SqlStore.open(store_url, clock=SystemClock()) as other:
        second = other.claim(0)
        assert second > first
        with pytest.raises(FencedOut, match=f"partition 0 was claimed under epoch {first}, its epoch now is {second}"):
            store.save(
                [
                    checkpoint(
                        first,
                        2,
                        strata={0: SavedStratum(Stratum("churn", "7", ()))},
                        journal=[batch(SECOND)],
                        dropped=[FIRST],
                        closings=[pane_closing(600_000)],
                        old=[OldPanes("churn", 300_000, 10**12, None)],
                        counters={("a", "b"): 1},
                        dead_letters=[letter(1)],
                    )
                ]
            )
        assert load(store) == before
        assert closings_in(store) == [pane_closing(300_000).to_bytes()]
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
    with pytest.raises(StoreError):
        # One closing twice.
        store.save(
            [checkpoint(epoch, 2, journal=[batch(SECOND)], dropped=[FIRST], closings=[pane_closing(300_000)] * 2)]
        )
    assert load(store) == before
    assert closings_in(store) == []


def test_a_loading_state_sees_no_later_save(store: SqlStore) -> None:
    epoch = store.claim(0)
    saved = [batch(FIRST, seed=i) for i in range(40)]
    store.save([checkpoint(epoch, 1, journal=saved)])
    state = store.load(0)
    head = [next(state.journal) for _ in range(3)]
    store.save([checkpoint(epoch, 2, journal=[batch(FIRST, seed=99)])])
    store.save([checkpoint(epoch, 3, dropped=[FIRST])])
    assert head + list(state.journal) == saved
    assert load(store).journal == []


def test_loads_that_are_abandoned_give_their_connection_back(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save([checkpoint(epoch, 1, journal=[batch(FIRST, seed=i) for i in range(40)])])
    kept = []
    for i in range(30):  # more than the pool has
        state = store.load(0)
        if i % 3 == 0:
            next(state.journal)
        elif i % 3 == 1:
            kept.append(list(state.journal))
            state.candidates.close()  # type: ignore[attr-defined]  # streams close
            assert list(state.candidates) == []
        del state
    assert store._database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert len(kept[0]) == 40


def test_offsets_of_a_topic_that_was_made_anew_are_dropped_and_no_earlier_owner_saves_them_again(
    store: SqlStore,
) -> None:
    epoch = store.claim(0)
    store.note_topics({"predictions": "first", "outcomes": "same"})
    store.save([checkpoint(epoch, 10, offsets={"predictions": 10, "outcomes": 20})])
    store.note_topics({"predictions": "first", "outcomes": "same"})
    assert load(store).offsets == {"predictions": 10, "outcomes": 20}
    store.note_topics({"predictions": "second", "outcomes": "same"})
    assert store.topic_ids() == {"predictions": "second", "outcomes": "same"}
    assert load(store).offsets == {"outcomes": 20}
    with pytest.raises(FencedOut):
        store.save([checkpoint(epoch, 30, offsets={"predictions": 30})])
    store.save([checkpoint(store.claim(0), 5, offsets={"predictions": 5})])
    # A log without ids says nothing.
    store.note_topics({})
    assert load(store).offsets == {"outcomes": 20, "predictions": 5}
