"""States to store, by seed, and what of a loaded state can be compared."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from monitor.events.model import DeadLetter, Reason, SeriesKey
from monitor.scores import GridTable
from monitor.store.base import Bucket, Checkpoint, JournalBatch, ModelState, SavedStratum
from monitor.store.closing import Cells, Closing, Panes
from monitor.store.schema import PARTITIONS
from monitor.store.sql import SqlStore
from monitor.stream.journal_loops import JOURNAL_ROW

HOUR_MS = 3_600_000


class Loaded(NamedTuple):
    """A partition's state, read to the end."""

    offsets: Mapping[str, int]
    models: Sequence[ModelState]
    strata: Mapping[int, SavedStratum]
    counters: Mapping[tuple[str, str], int]
    journal: list[JournalBatch]

    def rows(self) -> dict[Bucket, bytes]:
        """The journal's rows by bucket: what must survive every merge of batches."""
        found: defaultdict[Bucket, bytes] = defaultdict(bytes)
        for batch in self.journal:
            found[batch.bucket] += batch.rows
        return dict(found)


def load(store: SqlStore, partition: int = 0) -> Loaded:
    state = store.load(partition)
    journal = list(state.journal)
    return Loaded(state.offsets, state.models, state.strata, state.counters, journal)


def rows(count: int, seed: int = 0) -> bytes:
    """Whole journal rows of random bytes."""
    return np.random.default_rng(seed).bytes(JOURNAL_ROW.itemsize * count)


def batch(bucket: Bucket, count: int = 3, seed: int = 0) -> JournalBatch:
    return JournalBatch(bucket, rows(count, seed))


def grid_table(events: int = 50, seed: int = 0) -> GridTable:
    rng = np.random.default_rng(seed)
    return GridTable.from_events(rng.random(events), rng.integers(-1, 2, events))


def pane_closing(
    to_ms: int, seed: int = 0, *, model: str = "churn", version: str = "7", width_ms: int = 300_000
) -> Closing:
    """The closing of the pane that ends at a time."""
    table = grid_table(seed=seed)
    size = table.cell.size
    cells = Cells(np.zeros(size, np.int64), np.full(size, to_ms - width_ms), table.cell, table.values)
    return Closing(model, to_ms - width_ms, to_ms, width_ms, Panes((SeriesKey(model, version, "all"),), cells))


def closings_in(store: SqlStore, partition: int = 0, model: str = "churn") -> list[tuple[bytes, bytes | None]]:
    """The stored closings, in order."""
    return [found.to_bytes() for found in store.read_closings(model, {partition: -(2**62)}).get(partition, ())]


def letter(offset: int, *, partition: int = 0, reason: Reason = Reason.NOT_JSON) -> DeadLetter:
    return DeadLetter(
        topic="predictions",
        partition=partition,
        offset=offset,
        timestamp_ms=1_690_000_000_000 + offset,
        reason=reason,
        detail=f"not JSON: unexpected byte at {offset}",
        key=b"\x00key",
        value=b"\xff\x00{" + str(offset).encode(),
        headers=(("trace", b"\x00\xff"), ("trace", b"twice")),
    )


def checkpoint(epoch: int, offset: int, *, partition: int = 0, **changes: Any) -> Checkpoint:
    """A checkpoint of nothing but its offset, and what is named."""
    return Checkpoint(
        **{
            "partition": partition,
            "epoch": epoch,
            "offsets": {"predictions": offset},
            "models": [ModelState("churn", 1_000 + offset, 500 + offset)],
            **changes,
        }
    )


def pruned_dead_letters(store: SqlStore) -> int:
    """Number of letters that were removed because of the limit or their age."""
    with store.database.reading() as connection:
        return int(connection.execute(sa.select(sa.func.sum(PARTITIONS.c.dead_letters_pruned))).scalar_one() or 0)
