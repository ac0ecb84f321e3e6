"""Saves checkpoints as fast as it can until it is killed: ``python -m tests.store.crash_writer URL PARTITION SEED``.

Checkpoint k brings one batch whose rows all say k, closes one pane, counts k, and drops every tenth bucket.
It says each number on its standard output once it is saved.
"""

import sys

import numpy as np

from monitor.clock import SystemClock
from monitor.events.model import Stratum
from monitor.store.base import Bucket, Checkpoint, JournalBatch, ModelState, SavedStratum
from monitor.store.sql import SqlStore
from monitor.stream.journal_loops import JOURNAL_ROW
from tests.patience import PATIENCE_SECONDS
from tests.store.samples import HOUR_MS, letter, load, pane_closing

CHECKPOINTS_A_BUCKET = 10
PANE_MS = 300_000


def checkpoint_number(k: int, partition: int, epoch: int) -> Checkpoint:
    rows = np.zeros(1 + k % 7, JOURNAL_ROW)
    rows["time_ms"] = k
    age, place = divmod(k, CHECKPOINTS_A_BUCKET)
    return Checkpoint(
        partition=partition,
        epoch=epoch,
        offsets={"predictions": k, "outcomes": 2 * k},
        models=[ModelState("churn", k, k)],
        strata={k - 1: SavedStratum(Stratum("churn", str(k), ()))},
        journal=[JournalBatch(Bucket("churn", age * HOUR_MS), rows.tobytes())],
        dropped=[Bucket("churn", (age - 2) * HOUR_MS)] if place == 0 else [],
        closings=[pane_closing(PANE_MS * k, 1)],
        counters={("prediction", "joined"): k},
        dead_letters=[letter(k, partition=partition)],
    )


def main() -> None:
    url, partition = sys.argv[1], int(sys.argv[2])
    # Who else writes there may keep it waiting; what ends it is to be the store's refusal.
    with SqlStore.open(url, patience_seconds=PATIENCE_SECONDS, clock=SystemClock()) as store:
        epoch = store.claim(partition)
        k = load(store, partition).offsets.get("predictions", 0)
        while True:
            k += 1
            store.save([checkpoint_number(k, partition, epoch)])
            print(k, flush=True)


if __name__ == "__main__":
    main()
