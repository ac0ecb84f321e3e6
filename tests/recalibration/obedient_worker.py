"""A worker that fits nothing and whose guard decides as its argument says: ``python -m ... HOW``."""

import sys

import msgspec

from monitor.maps.artifact import to_bytes
from monitor.maps.identity import Identity
from monitor.recalibration.worker_process import Message, RefitResult, read_task


def main() -> None:
    how = sys.argv[1]
    task, sample = read_task(sys.stdin.buffer)
    passed = how != "rejected"
    comparison = {
        "events": len(sample.events),
        "champion": task.champion is not None,
        "guard": {"passed": passed, "reasons": [] if passed else ["It is not better.", "It is worse."]},
    }
    artifact = to_bytes(Identity(), {"id": task.job.id, "model": task.job.model})
    if how == "unreadable":
        artifact = artifact[:-100]
    line = msgspec.json.encode(Message(1.0, "done", RefitResult(artifact, comparison, {"reliability": b"<svg/>"})))
    if how == "spoils":
        line = line[:-100]
    sys.stdout.buffer.write(line + b"\n")


if __name__ == "__main__":
    main()
