"""Return free memory to the system, and look for garbage where there is some."""

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def without_collection() -> Iterator[None]:
    """Look for no garbage while modules and kernels are loaded, which stay: that is a fifth of the time of a start."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


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
