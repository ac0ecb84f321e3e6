"""A batch of a streaming query is saved once, and only where the store and the query's folder belong together."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from monitor.app.parts import make_log, make_pipeline
from monitor.app.settings import load_settings
from monitor.clock import SystemClock
from monitor.errors import Conflict, FencedOut, SettingsError
from monitor.events.model import ALL, SeriesKey
from monitor.scores.grid_table import COLUMNS
from monitor.store.base import Checkpoint, ModelState
from monitor.store.closing import Cells, Closing, Panes
from monitor.store.sql import SqlStore
from tests.stream.support import closings_in

QUERY = "5f2a"
MINUTE_MS = 60_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db") as opened:
        yield opened


def checkpoint(epoch: int, number: int) -> Checkpoint:
    """One prediction in each minute."""
    at_ms = number * MINUTE_MS
    cells = Cells(np.zeros(1, np.int64), np.array([at_ms]), np.array([7]), np.ones((1, COLUMNS), np.int64))
    closing = Closing("churn", at_ms, at_ms + MINUTE_MS, MINUTE_MS, Panes.of([SeriesKey("churn", "1", ALL)], cells))
    models = [ModelState("churn", at_ms, at_ms, at_ms + MINUTE_MS)]
    return Checkpoint(0, epoch, {"events": number + 1}, models, closings=[closing], counters={("prediction", "x"): 1})


def test_a_repeated_batch_changes_nothing(store: SqlStore) -> None:
    epoch = store.claim(0)
    for number, is_new in ((0, True), (0, False), (1, True), (0, False), (1, False)):
        assert store.save_batch(QUERY, number, [checkpoint(epoch, number)]) == is_new
    assert sum(int(part.panes.cells.values[:, 0].sum()) for part in closings_in(store, "churn")) == 2
    assert store.saved_offsets() == {("events", 0): 2}


def test_a_batch_is_saved_whole_or_not_at_all(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.claim(0)
    with pytest.raises(FencedOut, match="partition 0"):
        store.save_batch(QUERY, 0, [checkpoint(epoch, 0)])
    assert store.save_batch(QUERY, 0, [checkpoint(epoch + 1, 0)])


def test_a_store_of_another_query_is_refused(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save_batch(QUERY, 0, [checkpoint(epoch, 0)])
    with pytest.raises(Conflict, match=f"holds 1 batches of the query {QUERY}, and this is other"):
        store.save_batch("other", 1, [])
    with pytest.raises(Conflict, match="up to 0, and its checkpoint folder is at 2"):
        store.save_batch(QUERY, 2, [])


def test_an_empty_store_begins_with_the_first_batch(store: SqlStore) -> None:
    with pytest.raises(Conflict, match="holds no batch of the query, and its checkpoint folder is at batch 3"):
        store.save_batch(QUERY, 3, [])


def test_a_store_that_the_service_reads_into_is_refused(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save([checkpoint(epoch, 0)])
    with pytest.raises(Conflict, match="what the service itself has read"):
        store.save_batch(QUERY, 0, [checkpoint(epoch, 1)])


def test_the_service_does_not_read_into_the_store_of_a_query(store: SqlStore, tmp_path: Path) -> None:
    epoch = store.claim(0)
    store.save_batch(QUERY, 0, [checkpoint(epoch, 0)])
    (tmp_path / "monitor.yaml").write_text(f"source: {{embedded: {{directory: {tmp_path}/log}}}}")
    settings, clock = load_settings(tmp_path / "monitor.yaml", {}), SystemClock()
    log = make_log(settings, clock)
    try:
        with pytest.raises(SettingsError, match=r"roles must be \[evaluate, serve\].*query 5f2a"):
            make_pipeline(settings, log, store, clock)
    finally:
        log.source.close()
