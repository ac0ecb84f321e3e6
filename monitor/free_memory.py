"""Return free memory to the system, where the C library keeps it."""

import ctypes
import sys
from collections.abc import Callable
from functools import cache


def return_free_memory() -> None:
    """Return what was freed to the system. Takes milliseconds; for after work that took much memory.

    glibc keeps freed blocks for later ones, unless they lie at the end of its heap: after a burst of many sizes that
    is as much again as is in use. Other C libraries have no such function, and nothing is done.
    """
    _trim()(0)


@cache
def _trim() -> Callable[[int], object]:
    if sys.platform != "linux":
        return lambda _: None
    return getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)
