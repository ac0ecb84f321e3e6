"""A worker that fits nothing and whose guard decides as its argument says: ``python -m ... HOW``."""

import sys

import msgspec

from monitor.maps.artifact import to_bytes
from monitor.maps.identity import Identity
from monitor.recalibration.comparison import Comparison
from monitor.recalibration.worker_process import RefitResult, WorkerMessage, read_task
from tests.recalibration.comparisons import comparison


def main() -> None:
    how = sys.argv[1]
    task, sample = read_task(sys.stdin.buffer)
    passed = how != "rejected"
    document = comparison(n=len(sample.events))
    against = "none" if task.champion is None else "champion"
    reasons = [] if passed else ["It is not better.", "It is worse."]
    document["guard"] |= {"passed": passed, "reasons": reasons, "against": against}
    artifact = to_bytes(Identity(), {"id": task.job.id, "model": task.job.model})
    if how == "unreadable":
        artifact = artifact[:-100]
    line = msgspec.json.encode(
        WorkerMessage(1.0, "done", RefitResult(artifact, Comparison.of(document), {"reliability": b"{}"}))
    )
    if how == "spoils":
        line = line[:-100]
    sys.stdout.buffer.write(line + b"\n")


if __name__ == "__main__":
    main()
