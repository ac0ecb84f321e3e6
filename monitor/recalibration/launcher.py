"""Becomes a worker: polite to the service beside it, and never outliving it.

Run as a file, so that nothing of the package is imported: ``python launcher.py PARENT COMMAND...``. It replaces itself
by the command, with a lower priority; on Linux the kernel kills the process when the thread that started it is gone,
also when that was killed itself.
"""

import ctypes
import os
import signal
import sys
from typing import Final

_NICE: Final = 10
_PR_SET_PDEATHSIG: Final = 1
_SERVICE_IS_GONE: Final = 3


def main() -> int:
    """Become ``COMMAND``; returns only if the service is gone already."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    os.nice(_NICE)
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        if library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl cannot tie the worker to the service")
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606 - the service's own command, without a shell
    # It died before the kernel was told.
    return _SERVICE_IS_GONE


if __name__ == "__main__":
    sys.exit(main())
