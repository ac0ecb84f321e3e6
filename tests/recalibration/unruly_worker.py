"""A worker that fails, dies or takes for ever: ``python unruly_worker.py HOW FOLDER``.

It knows nothing of the package, so that it is there at once.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def say(progress: float, step: str) -> None:
    print(json.dumps({"progress": progress, "step": step}), flush=True)


def main() -> int:
    how, folder = sys.argv[1], Path(sys.argv[2])
    print("some library says hello", flush=True)
    say(0.25, "fitting")
    if how == "too few":
        told = {"error": "NotEnoughData", "detail": "9 labelled events, at least 50 are needed"}
        (folder / "result.json").write_text(json.dumps(told))
    elif how == "raises":
        raise RuntimeError("the secret of the worker")
    elif how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "sleeps":
        # It ignores being asked, and has a child of its own.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        say(0.5, f"sleeping {os.getpid()} {child.pid} {os.getpriority(os.PRIO_PROCESS, 0)}")
        time.sleep(600)
    elif how != "leaves nothing":
        raise ValueError(how)
    return 0


if __name__ == "__main__":
    sys.exit(main())
