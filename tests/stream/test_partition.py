"""A partition that is saved and restored at any instant is the partition that never stopped."""

import gc
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from monitor.clock import SystemClock
from monitor.errors import DamagedStore
from monitor.events.codec import Decoder
from monitor.events.formats.base import Rules
from monitor.events.model import ALL, Kind, ModelPolicy, SeriesKey
from monitor.events.strata import Caps
from monitor.scores import GridTable
from monitor.store.schema import METADATA
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.windows.panes import ClosedPanes, read_closings
from tests.long import short_of
from tests.reference.naive_join import NaiveEvent
from tests.stream.support import (
    START_MS,
    TOPIC,
    Published,
    Traffic,
    batch_of,
    closings_in,
    records_of,
    tables_of,
    unruly_events,
)

POLICY = ModelPolicy(horizon_ms=24_000, lateness_ms=4_000, segments=("region",))
CLASSES = tuple("abcdefghi")
MIXED = Traffic(ids=200, span_ms=300_000, models=("a", "of-classes"), classes=len(CLASSES))
SETTINGS = PartitionSettings(
    policy=lambda model: replace(POLICY, classes=CLASSES) if model == "of-classes" else POLICY,
    kept_ms={1_000: 10**9},
)


def seen(partition: Partition) -> tuple[object, ...]:
    join = partition.join
    return (
        join.predictions,
        join.unanswered,
        join.early_outcomes,
        partition.counters(),
        join.model_states(),
        partition.offsets,
        tables_of(partition.unsettled(cells=True)),
    )


@pytest.mark.parametrize("traffic", [Traffic(ids=200, span_ms=300_000), MIXED], ids=["binary", "mixed"])
@pytest.mark.parametrize("seed", short_of(range(6), 2))
def test_restored_is_as_never_stopped(tmp_path: Path, seed: int, traffic: Traffic) -> None:
    rng = np.random.default_rng(seed)
    events = unruly_events(rng, 3_000, POLICY, traffic)
    records = records_of(events)
    decoder = Decoder(Rules(classes={"of-classes": len(CLASSES)}))
    steady, published, kept = Partition(0, 0, SETTINGS), Published(), Published()
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        stopped = Partition(0, store.claim(0), SETTINGS, store.load(0))
        for at in range(0, len(records), 100):
            steady.apply(batch_of(records[at : at + 100]), decoder, None)
            published.add(steady.checkpoint())
            if rng.random() < 0.3:  # a crash: what was read since the last checkpoint is read again
                stopped.apply(batch_of(records[at : at + 60]), decoder, None)
                stopped = Partition(0, store.claim(0), SETTINGS, store.load(0))
            assert stopped.offsets.get(TOPIC, 0) == at
            stopped.apply(batch_of(records[at : at + 100]), decoder, None)
            store.save([kept.add(stopped.checkpoint())])
        restored = Partition(0, store.claim(0), SETTINGS, store.load(0))
        stored = closings_in(store, *sorted({closing.model for closing in kept.closings}))
    assert [closing.to_bytes() for closing in kept.closings] == [closing.to_bytes() for closing in published.closings]
    assert sorted(closing.to_bytes()[0] for closing in stored) == sorted(
        closing.to_bytes()[0] for closing in kept.closings
    )
    assert steady.departed["answered"] > 100
    assert steady.departed["expired_unlabelled"] > 50
    assert steady.join.counters()["outcome", "orphan"] > 0
    assert steady.dead_letter_reasons == {"empty": 60}
    assert sum(steady.event_counters().values()) == len(records)
    for other in (stopped, restored):
        for mine, theirs in zip(seen(steady), seen(other), strict=True):
            if isinstance(mine, list):  # states of models: in no order
                assert sorted(map(repr, mine)) == sorted(map(repr, theirs))  # type: ignore[call-overload]
            else:
                assert mine == theirs


def test_a_full_join_lets_the_oldest_go_and_counts_them() -> None:
    settings = PartitionSettings(policy=SETTINGS.policy, kept_ms={1_000: 120_000}, max_predictions=1_000)
    partition, published = Partition(0, 0, settings), Published()
    events = [NaiveEvent(Kind.PREDICTION, "a", str(at), START_MS + 10 * at, 0.25) for at in range(2_000)]
    partition.apply(batch_of(records_of(events, garbage_every=0)), Decoder(), None)
    published.add(partition.checkpoint())
    assert partition.join.predictions <= 1_000
    assert partition.departed["evicted"] == 2_000 - partition.join.predictions
    assert sum(table.predictions for table in published.tables().values()) == partition.departed["evicted"]
    # Their duplicates are late, not new.
    partition.apply(batch_of(records_of(events, garbage_every=0)), Decoder(), None)
    assert partition.join.counters()["prediction", "accepted"] == 2_000
    assert partition.join.counters()["prediction", "late"] == partition.departed["evicted"]
    assert sum(table.predictions for table in published.tables(partition).values()) == 2_000


def test_implied_negatives_are_counted_as_such_when_they_leave() -> None:
    policy = ModelPolicy(horizon_ms=1_000, lateness_ms=1_000, implied_negative=True)
    partition = Partition(0, 0, PartitionSettings(policy=lambda _: policy, kept_ms={1_000: 120_000}))
    published = Published()
    events = [NaiveEvent(Kind.PREDICTION, "a", str(at), START_MS + 100 * at, 0.25) for at in range(500)]
    partition.apply(batch_of(records_of(events, garbage_every=0)), Decoder(), None)
    published.add(partition.checkpoint())
    assert partition.departed["implied_negative"] > 400
    assert partition.departed["expired_unlabelled"] == 0
    # Closings keep them unlabelled: what their absence means is the window's business.
    assert all(table.labelled == 0 for table in published.tables().values())


def test_closings_that_no_window_needs_are_removed(tmp_path: Path) -> None:
    policy = ModelPolicy(horizon_ms=1_000, lateness_ms=1_000)
    settings = PartitionSettings(policy=lambda _: policy, kept_ms={1_000: 10_000})
    events = [NaiveEvent(Kind.LABELLED, "a", str(at), START_MS + 100 * at, 0.25, 1) for at in range(1_000)]
    records = records_of(events, garbage_every=0)
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        partition = Partition(0, store.claim(0), settings, store.load(0))
        for at in range(0, 1_000, 50):
            partition.apply(batch_of(records[at : at + 50]), Decoder(), None)
            store.save([partition.checkpoint()])
        closings = closings_in(store, "a")
    closed_to_ms = int(partition.join.closed_to_ms[0])
    assert closings[-1].to_ms == closed_to_ms
    assert closed_to_ms - 16_000 < closings[0].to_ms <= closed_to_ms - 5_000


def test_old_closings_of_all_models_are_removed_also_by_a_partition_that_is_restored_all_the_time(
    tmp_path: Path,
) -> None:
    policy, kept_ms = ModelPolicy(horizon_ms=1_000, lateness_ms=1_000), 10_000
    settings = PartitionSettings(policy=lambda _: policy, kept_ms={1_000: kept_ms})
    models = [f"m{at:02}" for at in range(40)]
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        for second in range(80):
            events = [
                NaiveEvent(Kind.LABELLED, model, str(second), START_MS + 1_000 * second, 0.25, 1) for model in models
            ]
            partition = Partition(0, store.claim(0), settings, store.load(0))
            partition.apply(batch_of(records_of(events, garbage_every=0)), Decoder(), None)
            store.save([partition.checkpoint()])
        ages_ms = [int(partition.join.closed_to_ms[0]) - closings_in(store, model)[0].from_ms for model in models]
    # Once they span as long as they are kept, and three checkpoints for all models.
    assert max(ages_ms) <= 2 * kept_ms + 5_000


def test_beyond_the_caps_names_share_one_bucket() -> None:
    settings = PartitionSettings(
        policy=SETTINGS.policy, kept_ms={1_000: 120_000}, caps=Caps(versions=2, segment_values=2)
    )
    partition = Partition(0, 0, settings)
    events = [
        NaiveEvent(
            Kind.PREDICTION, "a", str(at), START_MS, 0.25, version=str(at % 4), segments=(("region", str(at % 5)),)
        )
        for at in range(100)
    ]
    partition.apply(batch_of(records_of(events, garbage_every=0)), Decoder(), None)
    tables = tables_of(partition.unsettled(cells=True))
    series = {series for _, series in tables}
    assert {key.version for key in series} == {"0", "1", "other"}
    assert {key.segment for key in series} == {"all", "region=0", "region=1", "region=other"}
    total = GridTable.zero()
    for (_, key), table in tables.items():
        if key.segment == "all":
            total += table
    assert total.predictions == 100
    assert SeriesKey("a", "other", "region=other") in series


def test_a_changed_policy_is_no_danger_to_what_was_saved(tmp_path: Path) -> None:
    """Buckets of another width overlap those that are there; nothing is dropped twice, lost, or taken for damage."""
    rng = np.random.default_rng(11)
    records = records_of(unruly_events(rng, 3_000, POLICY, Traffic(ids=200, span_ms=100_000)), garbage_every=0)
    long = ModelPolicy(horizon_ms=240_000, lateness_ms=4_000, segments=("region",))
    policies = [POLICY, long, POLICY, long]
    published = Published()
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        for turn in range(30):
            policy = policies[turn % 4]
            settings = PartitionSettings(policy=dict.fromkeys("ab", policy).get, kept_ms={1_000: 10**9})
            partition = Partition(0, store.claim(0), settings, store.load(0))
            partition.apply(batch_of(records[turn * 100 : turn * 100 + 100]), Decoder(), None)
            store.save([published.add(partition.checkpoint())])
        restored = Partition(0, store.claim(0), settings, store.load(0))
    accepted = sum(count for (_, fate), count in partition.join.counters().items() if fate == "accepted")
    of_models = [table for (_, series), table in published.tables(partition).items() if series.segment == "all"]
    assert sum(table.predictions for table in of_models) == accepted
    assert partition.join.predictions + sum(partition.departed.values()) == accepted
    assert tables_of(restored.unsettled(cells=True)) == tables_of(partition.unsettled(cells=True))
    assert restored.join.unanswered == partition.join.unanswered


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("journal", "1 of its outcomes belong to predictions that it does not hold"),
        ("strata", "it refers to names of a that were not saved"),
    ],
)
def test_a_journal_with_a_hole_is_refused(tmp_path: Path, lost: str, message: str) -> None:
    events = [
        NaiveEvent(Kind.PREDICTION, "a", "1", START_MS, 0.5),
        NaiveEvent(Kind.OUTCOME, "a", "1", START_MS + 10, y=1),
    ]
    records = records_of(events, garbage_every=0)
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        partition = Partition(0, store.claim(0), SETTINGS, store.load(0))
        partition.apply(batch_of(records[:1]), Decoder(), None)
        store.save([replace(partition.checkpoint(), **{lost: {} if lost == "strata" else ()})])  # type: ignore[arg-type]
        partition.apply(batch_of(records[1:]), Decoder(), None)
        store.save([partition.checkpoint()])
        with pytest.raises(DamagedStore, match=message):
            Partition(0, store.claim(0), SETTINGS, store.load(0))


def test_under_steady_traffic_memory_levels_out_once_windows_are_full() -> None:
    """Nothing is kept for longer than the policy and the windows ask: not in tables, and not beside them."""
    policy = ModelPolicy(horizon_ms=4_000, lateness_ms=1_000)
    partition = Partition(0, 0, PartitionSettings(policy=lambda _: policy, kept_ms={1_000: 10_000}))
    rng = np.random.default_rng(0)
    decoder = Decoder()
    traced: dict[int, int] = {}
    tables: dict[int, int] = {}
    for second in range(91):
        start_ms = START_MS + 1_000 * second
        events = [
            NaiveEvent(Kind.LABELLED, f"m{at % 5}", f"{second}-{at}", start_ms + at, float(p), int(rng.random() < p))
            for at, p in enumerate(rng.random(200))
        ]
        partition.apply(batch_of(records_of(events, garbage_every=0)), decoder, None)
        partition.checkpoint()
        if second in (30, 60, 90):
            tables[second] = partition.join.nbytes
        if second == 0:  # kernels are loaded
            tracemalloc.start()
        elif second in (60, 90):
            gc.collect()
            traced[second] = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert partition.join.predictions < 200 * 7
    assert tables[90] <= 1.02 * tables[60] <= 1.05 * tables[30]
    # Less than a pointer for each event: what grows by chance, and not with them.
    assert traced[90] - traced[60] < 8 * 200 * 30


def test_the_cheap_summary_counts_what_the_whole_one_holds() -> None:
    events = unruly_events(np.random.default_rng(3), 20_000, POLICY, Traffic(ids=9_000, span_ms=20_000))
    partition = Partition(0, 0, SETTINGS)
    partition.apply(batch_of(records_of(events)), Decoder(), None)
    whole = {key: table for key, table in tables_of(partition.unsettled(cells=True)).items() if key[1].segment == ALL}
    counted = partition.unsettled(cells=False)
    assert list(counted.names) == sorted(counted.names)
    assert counted.cells.series.size == len(whole) > 50
    for place, series in enumerate(counted.names):
        rows = counted.cells.of_series(place)
        assert (np.diff(rows.start_ms) > 0).all()
        for start_ms, values in zip(rows.start_ms.tolist(), rows.values.tolist(), strict=True):
            table = whole[start_ms, series]
            assert values[0] == table.labelled
            assert values[2] == table.predictions - table.labelled


MANY = 1_000


def with_many_models(store: SqlStore, models: int) -> Partition:
    """A partition that has read one labelled event of each model, and saved it."""
    policy = ModelPolicy(horizon_ms=1_000, lateness_ms=1_000)
    settings = PartitionSettings(policy=lambda _: policy, kept_ms={1_000: 10**9}, caps=Caps(models=models))
    partition = Partition(0, store.claim(0), settings, store.load(0))
    partition.apply(batch_of(records_of([labelled(f"m{at:05}", "1", 0) for at in range(MANY)], 0)), Decoder(), None)
    store.save([partition.checkpoint()])
    return partition


def labelled(model: str, id_: str, at_ms: int) -> NaiveEvent:
    return NaiveEvent(Kind.LABELLED, model, id_, START_MS + at_ms, 0.25, 1)


def rows_in(store: SqlStore) -> dict[str, int]:
    with store.database.reading() as connection:
        return {
            name: connection.execute(sa.select(sa.func.count()).select_from(METADATA.tables[name])).scalar_one()
            for name in ("models", "strata", "journal", "closings", "unsettled")
        }


def test_of_many_models_with_one_event_each_the_store_holds_a_row_and_then_a_closing_each(tmp_path: Path) -> None:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        partition = with_many_models(store, MANY)
        once = {"models": MANY, "strata": MANY, "unsettled": 1}
        assert rows_in(store) == {**once, "journal": MANY, "closings": 0}
        # Another event settles the first one of each.
        later = [labelled(f"m{at:05}", "2", 3_600_000) for at in range(MANY)]
        partition.apply(batch_of(records_of(later, garbage_every=0)), Decoder(), None)
        store.save([partition.checkpoint()])
        assert rows_in(store) == {**once, "journal": MANY, "closings": MANY}
        panes = ClosedPanes({1_000: 10**9}, lambda _: partition_policy(partition))
        read_closings(store, panes)
        assert len(panes.series()) == MANY
        for at in (0, 500, MANY - 1):
            series = panes.series()[at]
            first_ms = START_MS - START_MS % 1_000
            assert panes.sum(series, 1_000, first_ms, first_ms + 1_000) == GridTable.from_events([0.25], [1])
        assert partition.join.predictions == MANY


def test_models_beyond_the_cap_are_refused_and_counted(tmp_path: Path) -> None:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        partition = with_many_models(store, 700)
        assert partition.join.counters()["labelled", "accepted"] == 700
        assert partition.join.counters()["labelled", "refused"] == MANY - 700
        assert {name: rows_in(store)[name] for name in ("models", "strata", "journal")} == {
            "models": 700,
            "strata": 700,
            "journal": 700,
        }


def test_a_checkpoint_writes_the_models_that_changed_alone(tmp_path: Path) -> None:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        partition = with_many_models(store, MANY)
        assert partition.checkpoint().changed_models == []
        partition.apply(
            batch_of(records_of([labelled("m00007", "2", 500), labelled("m00009", "2", 10)], 0)), Decoder(), None
        )
        changed = partition.checkpoint()
        assert changed.changed_models == [7, 9]
        store.save([changed])
        restored = Partition(0, store.claim(0), SETTINGS, store.load(0))
        assert restored.join.model_states() == partition.join.model_states()
        assert restored.checkpoint().changed_models == []


def test_reading_many_models_takes_a_statement_for_a_hundred_and_none_where_nothing_is_new(tmp_path: Path) -> None:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        partition = with_many_models(store, MANY)
        panes = ClosedPanes({1_000: 10**9}, lambda _: partition_policy(partition))
        statements: list[str] = []
        sa.event.listen(store.database.engine, "before_cursor_execute", lambda *told: statements.append(told[2]))

        def of_closings() -> int:
            statements.clear()
            read_closings(store, panes)
            return sum("closings" in statement for statement in statements)

        assert of_closings() == MANY // 100
        settled = [labelled(f"m{at:05}", "2", 3_600_000) for at in range(450)]
        partition.apply(batch_of(records_of(settled, garbage_every=0)), Decoder(), None)
        store.save([partition.checkpoint()])
        assert of_closings() == 5
        assert len(statements) < 30
        assert of_closings() == 0


def partition_policy(partition: Partition) -> ModelPolicy:
    return partition.strata.policies[0]


def test_outcomes_of_a_model_that_has_no_predictions_count_towards_the_limit() -> None:
    """Nothing else bounds them: they may wait for predictions that are still to be read."""
    settings = PartitionSettings(policy=SETTINGS.policy, kept_ms={1_000: 120_000}, max_predictions=1_000)
    partition = Partition(0, 0, settings)
    for first in range(0, 20_000, 500):
        outcomes = [
            NaiveEvent(Kind.OUTCOME, "a", str(at), START_MS + 1_000 * at, math.nan, 1)
            for at in range(first, first + 500)
        ]
        partition.apply(batch_of(records_of(outcomes, garbage_every=0)), Decoder(), None)
        partition.checkpoint()
        assert partition.join.early_outcomes <= 1_000
    counted = partition.join.counters()
    assert counted["outcome", "early"] == partition.join.early_outcomes > 0
    assert counted["outcome", "orphan"] == 20_000 - partition.join.early_outcomes
    # The predictions of those that went are late, and those of the others meet them.
    events = [NaiveEvent(Kind.PREDICTION, "a", str(at), START_MS + 1_000 * at, 0.25) for at in (0, 19_999)]
    partition.apply(batch_of(records_of(events, garbage_every=0)), Decoder(), None)
    counted = partition.join.counters()
    assert counted["prediction", "late"] == counted["prediction", "accepted"] == counted["outcome", "joined"] == 1
