"""What a service leaves that is killed in the middle of a refit."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from monitor.recalibration.claims import Claim, Claims


def abandon(store: str, parent: Path, claim: Claim) -> None:
    """Kill a process that holds a claim."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.recalibration.abandoned", store, str(parent), *claim], check=False
    )
    assert done.returncode == -signal.SIGKILL


if __name__ == "__main__":
    with Claims(sys.argv[1], Path(sys.argv[2])).hold(Claim(*sys.argv[3:])):
        os.kill(os.getpid(), signal.SIGKILL)
