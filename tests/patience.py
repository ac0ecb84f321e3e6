"""Wait for a condition: as long as a slow machine needs, and no longer than it takes."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

Value = TypeVar("Value")

PATIENCE_SECONDS: Final = 240.0
"""So long that only what never comes to hold fails. Costs nothing where it does."""


def eventually(
    look: Callable[[], Value], *, shown: Callable[[], object] | None = None, pause_seconds: float = 0.05
) -> Value:
    """Call a function until its value is true, and return that value.

    Parameters
    ----------
    look
        The function. An exception of it ends the wait: assert in it what must not happen meanwhile.
    shown
        Its value is part of the error message if the condition never holds.
    pause_seconds
        Between two calls.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (value := look()):
        if time.monotonic() > deadline:
            detail = "" if shown is None else f": {shown()}"
            raise AssertionError(f"it did not come to hold within {PATIENCE_SECONDS:g} s{detail}")
        time.sleep(pause_seconds)
    return value


def joined(*threads: threading.Thread) -> None:
    """Wait for the ends of threads, all of which must come."""
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), f"the thread {thread.name} did not end within {PATIENCE_SECONDS:g} s"


def ended_or_within(thread: threading.Thread, function: str) -> bool:
    """Whether a thread has ended, or waits for a lock in this function."""
    frame = sys._current_frames().get(thread.ident or 0)
    return not thread.is_alive() or (frame is not None and frame.f_code.co_name == function)
