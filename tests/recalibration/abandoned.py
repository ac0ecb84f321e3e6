"""What a service leaves that is killed in the middle of a refit."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from monitor.recalibration.folders import Claim, RefitFolders


def abandon(store: str, parent: Path, claim: Claim) -> None:
    """Kill a process that works in a folder, with events in it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.recalibration.abandoned", store, str(parent), *claim], check=False
    )
    assert done.returncode == -signal.SIGKILL


if __name__ == "__main__":
    with RefitFolders(sys.argv[1], Path(sys.argv[2])).new_folder(Claim(*sys.argv[3:])) as folder:
        (folder / "figures").mkdir()
        (folder / "events.arrow").write_bytes(b"x")
        os.kill(os.getpid(), signal.SIGKILL)
