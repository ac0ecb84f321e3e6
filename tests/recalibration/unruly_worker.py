"""A worker that fails, dies or takes for ever: ``python unruly_worker.py HOW``.

It knows nothing of the package, so that it is there at once.
"""

import json
import os
import signal
import subprocess
import sys
import time


def say(progress: float, step: str) -> None:
    print(json.dumps({"progress": progress, "step": step}), flush=True)


def main() -> int:
    how = sys.argv[1]
    print("some library says hello", flush=True)
    say(0.25, "fitting")
    if how == "too few":
        result = {"failure": "9 labelled events, at least 50 are needed"}
        print(json.dumps({"progress": 1.0, "step": "done", "result": result}))
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
