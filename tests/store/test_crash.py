"""Whatever instant a process dies at, the store holds whole checkpoints and no part of one."""

import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from monitor.clock import SystemClock
from monitor.store.closing import Cells, Closing
from monitor.store.sql import SqlStore
from monitor.stream.journal_loops import JOURNAL_ROW
from tests.long import longer
from tests.patience import PATIENCE_SECONDS
from tests.store.crash_writer import CHECKPOINTS_A_BUCKET, PANE_MS
from tests.store.samples import Loaded, load, pane_closing

ROOT = Path(__file__).parents[2]


def writer(url: str, partition: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.crash_writer", url, str(partition)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_closings(store: SqlStore, partition: int = 0) -> Sequence[Closing]:
    return store.read_closings("churn", {partition: -1})[partition]


def assert_whole(loaded: Loaded, closings: Sequence[Closing], k: int) -> None:
    """Everything is as checkpoint k left it."""
    assert loaded.offsets == {"predictions": k, "outcomes": 2 * k}
    assert loaded.counters == {("prediction", "joined"): k}
    assert [(model.prediction_watermark_ms, model.outcome_watermark_ms) for model in loaded.models] == [(k, k)]
    assert [stratum.version for stratum, _ in loaded.strata.values()] == [str(i) for i in range(1, k + 1)]
    # However they were merged; the other process may have gone on since.
    assert [closing.from_ms for closing in closings] == [0, *(closing.to_ms for closing in closings[:-1])]
    cells = Cells.joined(closing.panes.cells for closing in closings)
    closed = cells.take(np.flatnonzero(cells.start_ms < PANE_MS * k))
    of_a_pane = pane_closing(PANE_MS, 1).panes.cells
    assert closed.start_ms.tolist() == np.repeat(np.arange(k) * PANE_MS, of_a_pane.cell.size).tolist()
    assert (closed.values == np.tile(of_a_pane.values, (k, 1))).all()
    oldest = max(1, (k // CHECKPOINTS_A_BUCKET - 1) * CHECKPOINTS_A_BUCKET)
    times = np.frombuffer(b"".join(batch.rows for batch in loaded.journal), JOURNAL_ROW)["time_ms"]
    assert times.tolist() == [i for i in range(oldest, k + 1) for _ in range(1 + i % 7)]


@pytest.mark.longer
def test_a_killed_writer_leaves_whole_checkpoints(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/monitor.db"
    instants = random.Random(11)
    said = 0
    for _ in range(longer(3, 8)):
        process = writer(url, 0)
        assert process.stdout is not None
        # The first words say that it is writing; then any instant will do.
        said = [int(process.stdout.readline()) for _ in range(8)][-1]
        time.sleep(instants.uniform(0, 0.15))
        process.kill()
        said = int((process.stdout.read().split() or [str(said)])[-1])
        process.stdout.close()
        process.wait()
        with SqlStore.open(url, clock=SystemClock()) as store:
            loaded = load(store)
            k = loaded.offsets["predictions"]
            # The last one may have been saved and not said.
            assert k in {said, said + 1}
            assert_whole(loaded, read_closings(store), k)
            assert sum(store.count_dead_letters().values()) == k
    assert said > 20


def test_two_processes_share_one_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new folder/monitor.db"
    processes = [writer(url, partition) for partition in (0, 1)]
    for process in processes:
        assert process.stdout is not None
        for _ in range(10):
            assert process.stdout.readline()
    with SqlStore.open(url, patience_seconds=PATIENCE_SECONDS, clock=SystemClock()) as store:
        # While both write.
        for partition in (0, 1):
            state = load(store, partition)
            assert_whole(state, read_closings(store, partition), state.offsets["predictions"])
        # The partition is taken from a living owner, which is refused and ends.
        epoch = store.claim(0)
        assert processes[0].wait(PATIENCE_SECONDS) == 1
        assert epoch == 2
        taken = load(store, 0)
        assert_whole(taken, read_closings(store), taken.offsets["predictions"])
        assert processes[1].poll() is None
    processes[1].kill()
    for process in processes:
        assert process.stdout is not None
        process.stdout.close()
        process.wait()
