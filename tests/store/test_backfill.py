"""Closings of past predictions: a repeated batch changes nothing, and nothing overlaps."""

import numpy as np
import pytest

from monitor.errors import Conflict
from monitor.events.model import ALL, SeriesKey
from monitor.store import backfill
from monitor.store.base import BACKFILL, Checkpoint, ModelClock, ModelState
from monitor.store.closing import Cells, Closing, Panes
from monitor.store.sql import SqlStore

MINUTE_MS = 60_000


def closing(from_minute: int, to_minute: int, *, model: str = "churn", positives: int = 1) -> Closing:
    """One positive of the same prediction a minute."""
    start_ms = np.arange(from_minute, to_minute) * MINUTE_MS
    values = np.zeros((start_ms.size, 6), np.int64)
    values[:, 0] = positives
    cells = Cells(np.zeros_like(start_ms), start_ms, np.full_like(start_ms, 7), values)
    panes = Panes([SeriesKey(model, "", ALL)], cells)
    return Closing(model, from_minute * MINUTE_MS, to_minute * MINUTE_MS, MINUTE_MS, panes)


def positives(store: SqlStore, model: str = "churn") -> int:
    """All positives in the store."""
    found = store.read_closings(model, dict.fromkeys(store.clocks()[model], -1))
    return sum(int(part.panes.cells.values[:, 0].sum()) for parts in found.values() for part in parts)


def checkpoint(store: SqlStore, partition: int, *parts: Closing, closed_minute: int) -> None:
    """Save what a partition of the log has read of the model."""
    epoch = store.claim(partition)
    models = [ModelState("churn", closed_minute * MINUTE_MS, -1, closed_minute * MINUTE_MS)]
    store.save([Checkpoint(partition, epoch, {}, models, closings=list(parts))])


def test_a_batch_that_is_saved_again_replaces_what_it_saved(store: SqlStore) -> None:
    for _ in range(2):
        backfill.save(store.database, "a", [closing(0, 60), closing(60, 100)])
        assert positives(store) == 100
        assert store.backfilled_ms() == {"churn": 100 * MINUTE_MS}
    backfill.save(store.database, "a", [closing(0, 100, positives=3)])
    assert positives(store) == 300
    backfill.save(store.database, "b", [closing(100, 110)])
    backfill.save(store.database, "a", [closing(0, 100, model="credit")])
    assert positives(store) == 310
    assert positives(store, "credit") == 100
    assert store.clocks()["churn"] == {
        BACKFILL: ModelClock(110 * MINUTE_MS - 1, 110 * MINUTE_MS - 1, 110 * MINUTE_MS, 1, 1_700_000_000_003)
    }


def test_batches_do_not_overlap(store: SqlStore) -> None:
    backfill.save(store.database, "a", [closing(0, 100)])
    with pytest.raises(Conflict, match="churn: the backfill 'a' holds predictions from 1970-01-01T00:00:00"):
        backfill.save(store.database, "b", [closing(99, 120)])
    assert positives(store) == 100


def test_other_batches_are_replaced_where_they_overlap(store: SqlStore) -> None:
    backfill.save(store.database, "a", [closing(0, 60), closing(60, 100)])
    backfill.save(store.database, "b", [closing(100, 120)])
    backfill.save(store.database, "c", [closing(40, 70, positives=5)], replace=True)
    assert positives(store) == 90 + 5 * 30
    # Neither the rest of a batch nor what replaced it is lost, whichever is repeated.
    with pytest.raises(Conflict, match="the backfill 'c' holds predictions from 1970-01-01T00:40:00"):
        backfill.save(store.database, "a", [closing(0, 100)])
    backfill.save(store.database, "a", [closing(0, 40, positives=2)])
    assert positives(store) == 2 * 40 + 5 * 30 + 20
    backfill.save(store.database, "d", [closing(0, 110, positives=3)], replace=True)
    assert positives(store) == 3 * 110 + 10
    backfill.save(store.database, "c", [closing(120, 130)])
    backfill.save(store.database, "b", [closing(110, 120)])
    assert positives(store) == 3 * 110 + 20
    assert [(part.from_ms, part.to_ms) for part in backfill.read(store.database, "churn", 0, 120 * MINUTE_MS)] == [
        (0, 110 * MINUTE_MS),
        (110 * MINUTE_MS, 120 * MINUTE_MS),
    ]


def test_a_backfill_that_ends_within_a_wide_pane_replaces_nothing(store: SqlStore) -> None:
    wide = closing(0, 60)._replace(pane_ms=30 * MINUTE_MS)
    wide = wide._replace(panes=wide.panes._replace(cells=wide.panes.cells.take(np.array([0, 30]))))
    backfill.save(store.database, "a", [wide])
    with pytest.raises(Conflict, match=r"end this backfill at 1970-01-01T00:30:00.000Z or 1970-01-01T01:00:00.000Z"):
        backfill.save(store.database, "b", [closing(0, 40)], replace=True)
    assert positives(store) == 2
    backfill.save(store.database, "b", [closing(0, 30)], replace=True)
    assert positives(store) == 31


def test_what_the_service_has_read_is_not_backfilled(store: SqlStore) -> None:
    store.register([0, 1])
    checkpoint(store, 0, closing(50, 70), closed_minute=70)
    with pytest.raises(Conflict, match=r"read predictions from 1970-01-01T00:50:00.000Z on from partition 0"):
        backfill.save(store.database, "a", [closing(0, 60)])
    # Up to there, nothing is counted twice: partition 1 takes what it meets from before for late.
    backfill.save(store.database, "a", [closing(0, 50)])
    assert positives(store) == 70
    # A partition that has not closed that much yet may still accept such predictions.
    checkpoint(store, 1, closed_minute=20)
    with pytest.raises(Conflict, match="from partition 1 of its log"):
        backfill.save(store.database, "a", [closing(0, 50)])


def test_owners_claim_their_partitions_again(store: SqlStore) -> None:
    store.register([0])
    epoch = store.claim(0)
    backfill.save(store.database, "a", [closing(0, 60)])
    assert store.claim(0) > epoch + 1
    assert store.partition_clocks().keys() == {0}
    assert store.model_clocks() == {}
