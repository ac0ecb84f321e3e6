"""A worker that fits nothing and whose guard says what it is told: ``python -m ... HOW FOLDER``."""

import sys
from pathlib import Path

from monitor.maps.artifact import to_bytes
from monitor.maps.identity import Identity
from monitor.recalibration.task_folder import RefitResult, read_task, write_result


def main() -> int:
    how, folder = sys.argv[1], Path(sys.argv[2])
    task = read_task(folder)
    passed = how != "rejected"
    comparison = {
        "events": len(task.events),
        "champion": task.champion is not None,
        "guard": {"passed": passed, "reasons": [] if passed else ["It is not better.", "It is worse."]},
    }
    artifact = to_bytes(Identity(), {"id": task.id, "model": task.model, "version": task.version})
    if how == "unreadable":
        artifact = artifact[:-100]
    write_result(folder, RefitResult(artifact, comparison, {"reliability": b"<svg/>"}))
    if how == "spoils":
        (folder / "result.json").write_bytes(b"something else")
    return 0


if __name__ == "__main__":
    sys.exit(main())
