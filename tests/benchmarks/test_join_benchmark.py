"""Ten million pending predictions: what they take to join, to hold and to restore, beside a dictionary's."""

import resource
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from monitor.clock import SystemClock
from monitor.events.model import EventColumns, Kind, ModelPolicy
from monitor.events.strata import Strata
from monitor.store.base import Checkpoint, JournalBatch, ModelState, SavedStratum
from monitor.store.sql import SqlStore
from monitor.stream.join import Join
from monitor.stream.journal import pieces, sort_into_buckets
from monitor.stream.partition import Partition, PartitionSettings

DAY_MS = 86_400_000
POLICY = ModelPolicy(horizon_ms=DAY_MS, lateness_ms=DAY_MS // 24)
START_MS = 1_760_000_000_000
BATCH = 20_000
PENDING = 10_000_000
NAIVE = 1_000_000
MEGABYTE = 1 << 20


def batch(rng: np.random.Generator, at: int, strata: Strata) -> EventColumns:
    stratum = strata.stratum("churn", "1", {})
    return EventColumns(
        kind=np.full(BATCH, Kind.PREDICTION, np.int8),
        id_hash=rng.integers(0, 2**64, (BATCH, 2), np.uint64),
        time_ms=START_MS + at * DAY_MS // PENDING + np.zeros(BATCH, np.int64),
        prediction=rng.random(BATCH),
        outcome=np.full(BATCH, -1, np.int8),
        model=np.zeros(BATCH, np.int32),
        stratum=np.full(BATCH, stratum, np.int32),
    )


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def naive_bytes_and_rate(rng: np.random.Generator) -> tuple[float, float]:
    """A dictionary from id to (p, time, outcome): bytes and puts a second."""
    ids = [row.tobytes() for row in rng.integers(0, 2**64, (NAIVE, 2), np.uint64)]
    scores = rng.random(NAIVE).tolist()
    before, began = resident(), time.perf_counter()
    table = {key: (score, START_MS + at, None) for at, (key, score) in enumerate(zip(ids, scores, strict=True))}
    seconds = time.perf_counter() - began
    keys = sum(key.__sizeof__() for key in ids[:1000]) / 1000
    return (resident() - before) / len(table) + keys, len(table) / seconds


@pytest.mark.benchmark
def test_ten_million_pending_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(1)
    naive_width, naive_rate = naive_bytes_and_rate(rng)
    strata = Strata(lambda _: POLICY)
    join = Join(strata)
    join.apply(batch(rng, 0, strata))  # compiled before it is timed
    widths = np.array([DAY_MS // 24])
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        epoch = store.claim(0)
        before, seconds = resident(), 0.0
        for at in range(BATCH, PENDING, BATCH):
            columns = batch(rng, at, strata)
            began = time.perf_counter()
            joined = join.apply(columns)
            seconds += time.perf_counter() - began
            store.save(
                [
                    Checkpoint(
                        partition=0,
                        epoch=epoch,
                        offsets={"events": at},
                        models=[ModelState("churn", START_MS + DAY_MS, -1)],
                        strata=dict(enumerate(map(SavedStratum, strata.strata))) if at == BATCH else {},
                        journal=[
                            JournalBatch(bucket, piece)
                            for bucket, rows, _ in sort_into_buckets([joined], ["churn"], widths)
                            for piece in pieces(rows)
                        ],
                    )
                ]
            )
        held = resident() - before
        width = join.nbytes / join.predictions
        rate = (PENDING - BATCH) / seconds
        del join
        before, began = resident(), time.perf_counter()
        settings = PartitionSettings(policy=lambda _: POLICY, kept_ms={60_000: DAY_MS})
        restored = Partition(0, store.claim(0), settings, store.load(0))
        restore_seconds = time.perf_counter() - began
        restored_bytes = resident() - before
    assert restored.join.predictions == PENDING - BATCH
    with capsys.disabled():
        print(
            f"\n{PENDING:,} pending: join {rate / 1e6:.1f} M/s, {rate / naive_rate:.1f} x a dictionary's puts; "
            f"{width:.0f} B an entry, {naive_width / width:.1f} x less than a dictionary; process grew by "
            f"{held / MEGABYTE:.0f} MB while filling; restored in {restore_seconds:.1f} s, growing by "
            f"{restored_bytes / MEGABYTE:.0f} MB; peak of the process "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
        )
