"""States to store, by seed, and what of a loaded state can be compared."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from monitor.events.model import DeadLetter, Reason, SeriesKey, Stratum
from monitor.scores import GridTable
from monitor.store.base import (
    JOURNAL_ROW,
    Bucket,
    Checkpoint,
    ClosedPane,
    JournalBatch,
    ModelState,
    PaneKey,
)
from monitor.store.sql import SqlStore

HOUR_MS = 3_600_000


class Loaded(NamedTuple):
    """A partition's state, read to the end."""

    offsets: Mapping[str, int]
    models: Sequence[ModelState]
    strata: Sequence[Stratum]
    counters: Mapping[tuple[str, str], int]
    journal: list[JournalBatch]
    panes: dict[PaneKey, GridTable]

    def rows(self) -> dict[Bucket, bytes]:
        """The journal's rows by bucket: what must survive every merge of batches."""
        found: defaultdict[Bucket, bytes] = defaultdict(bytes)
        for batch in self.journal:
            found[batch.bucket] += batch.rows
        return dict(found)


def load(store: SqlStore, partition: int = 0) -> Loaded:
    state = store.load(partition)
    journal = list(state.journal)
    panes = {pane.key: pane.table for pane in state.panes}
    return Loaded(state.offsets, state.models, state.strata, state.counters, journal, panes)


def rows(count: int, seed: int = 0) -> bytes:
    """Whole journal rows of random bytes."""
    return np.random.default_rng(seed).bytes(JOURNAL_ROW.itemsize * count)


def batch(bucket: Bucket, count: int = 3, seed: int = 0) -> JournalBatch:
    return JournalBatch(bucket, rows(count, seed))


def grid_table(events: int = 50, seed: int = 0) -> GridTable:
    rng = np.random.default_rng(seed)
    return GridTable.from_events(rng.random(events), rng.integers(-1, 2, events))


def pane(start_ms: int, table: GridTable, *, slide_ms: int = 300_000, segment: str = "all") -> ClosedPane:
    return ClosedPane(PaneKey(slide_ms, start_ms, SeriesKey("churn", "7", segment)), table)


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
