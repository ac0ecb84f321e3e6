"""Refits, promotes and rolls back until it is killed: ``python -m tests.store.refit_crash_writer URL``.

Refit k is compared with what serves, promoted with its end, and every third time taken back. It says each step on its
standard output once it is done.
"""

import sys
from dataclasses import replace

from monitor.clock import SystemClock
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import JobState
from monitor.store.sql import SqlStore
from tests.store.refits import queued, stored_map


def main() -> None:
    with SqlStore.open(sys.argv[1], clock=SystemClock()) as store:
        refits = RecalibrationStore(store.database, keep=3)
        number = len(refits.jobs(limit=1_000_000))
        while True:
            # A refit that the one before was killed over is taken up first.
            job = refits.claim_job("w", lease_ms=0)
            if job is None:
                number += 1
                refits.add_job(queued(number, at_ms=number), idempotency_key=f"k{number}")
                print("added", flush=True)
                continue
            baseline = next((each.map_id for each in refits.champions()), None)
            ended = replace(job, state=JobState.CANDIDATE, comparison={"k": job.id}, baseline=baseline)
            artifact = stored_map(job.id, job.id.encode() * 20_000)
            refits.finish_job(ended, "w", artifact, {"reliability": job.id.encode()}, promote=True)
            print("promoted", flush=True)
            if number % 3 == 0:
                refits.roll_back("churn", "7", actor="w", now_ms=1, note="")
                print("rolled back", flush=True)


if __name__ == "__main__":
    main()
