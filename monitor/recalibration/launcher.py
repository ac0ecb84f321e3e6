"""Lower the priority of a worker, tie its life to the service, and become the worker.

Run as a file, so that nothing of the package is imported: ``python launcher.py PARENT COMMAND...``. On Linux the kernel
kills the process when the thread that started it ends, even if the service itself was killed.
"""

import ctypes
import os
import signal
import sys
from typing import Final

_NICE: Final = 10
_PR_SET_PDEATHSIG: Final = 1
_SERVICE_ENDED: Final = 3


def main() -> int:
    """Become ``COMMAND``; return only if the service has already ended."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    os.nice(_NICE)
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        if library.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl cannot tie the worker to the service")
    if os.getppid() == parent:
        os.execv(command[0], command)  # noqa: S606 - the service's own command, without a shell
    # The service ended before prctl was called.
    return _SERVICE_ENDED


if __name__ == "__main__":
    sys.exit(main())
