"""Settings of the interpreter that suit a process which reads a log and answers requests at the same time."""

import gc
import sys
from typing import Final

_OLD_AFTER: Final = (200_000, 50, 50)
_SWITCH_SECONDS: Final = 0.001


def tune_interpreter() -> None:
    """Suit the interpreter to the service. Once all modules are loaded and the kernels are compiled."""
    # A poll makes tens of thousands of objects and lets go of all of them soon. By the usual thresholds the collector
    # goes through them, and through every module and compiled kernel, hundreds of times a second, and finds nothing:
    # up to 40% of the pipeline's time. What is loaded by now stays for good, so it is not looked at any more; and new
    # objects are, but only when as many as a few polls bring have piled up. Cycles are still found, later.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_OLD_AFTER)
    # While the pipeline decodes, a request waits for the interpreter's lock at each of its steps, by default for 5 ms
    # each time. The threads are few, so that switching more often costs the pipeline next to nothing.
    sys.setswitchinterval(_SWITCH_SECONDS)
