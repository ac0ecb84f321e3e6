"""Whatever instant a process dies at, no refit is half ended and no map half promoted."""

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.errors import UnknownRecalibration
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import UNDER_WAY, JobState
from monitor.store.sql import SqlStore
from tests.long import longer
from tests.store.refits import stored_map

ROOT = Path(__file__).parents[2]


def assert_whole(refits: RecalibrationStore) -> int:
    """What is stored fits together; how many refits there are."""
    jobs = list(refits.jobs(limit=1_000_000))
    done = Counter((entry.action, entry.subject) for entry in refits.audit(limit=1_000_000))
    champions = [each.map_id for each in refits.champions() if each.map_id is not None]
    assert [job.id for job in jobs if job.state is JobState.CHAMPION] == champions
    assert sum(job.state in UNDER_WAY for job in jobs) <= 1
    for job in jobs:
        ended = job.state not in UNDER_WAY
        assert done["requested", job.id] == 1
        assert done["started", job.id] >= job.attempts
        if job.state is JobState.FAILED:
            # Whoever began it was killed three times over it.
            assert job.attempts == 3
            continue
        assert done["finished", job.id] == ended
        assert done["promoted", job.id] == ended
        assert (job.comparison == {"k": job.id}) == ended
        try:
            kept = refits.artifact(job.id)
        except UnknownRecalibration:
            # Old, or not made yet: then there is nothing of it.
            assert job.figures == ()
        else:
            assert ended
            assert kept == stored_map(job.id, job.id.encode() * 20_000)
            assert refits.figure(job.id, "reliability") == job.id.encode()
    for map_id in champions:
        refits.artifact(map_id)
    served = sum(each.revision for each in refits.champions())
    assert served == sum(count for (action, _), count in done.items() if action in {"promoted", "rolled_back"})
    return len(jobs)


@pytest.mark.longer
def test_a_killed_writer_leaves_nothing_half_promoted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/monitor.db"
    instants = random.Random(12)
    refits = 0
    for _ in range(longer(2, 6)):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.refit_crash_writer", url],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        # The first words say that it is at work, for some refits; then any instant will do.
        for _ in range(8):
            assert process.stdout.readline()
        time.sleep(instants.uniform(0.05, 0.4))
        process.kill()
        process.stdout.read()
        process.stdout.close()
        process.wait()
        with SqlStore.open(url, clock=SystemClock()) as store:
            now = assert_whole(RecalibrationStore(store.database))
            assert now >= refits
            refits = now
    assert refits > 10
