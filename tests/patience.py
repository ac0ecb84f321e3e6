"""How tests wait for what must come to hold: however slow the machine is, and not a moment longer than it takes."""

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

Found = TypeVar("Found")

PATIENCE_SECONDS: Final = 240.0
"""So long that only what never comes to hold fails. Costs nothing where it does."""


def eventually(
    look: Callable[[], Found], *, shown: Callable[[], object] | None = None, pause_seconds: float = 0.05
) -> Found:
    """What a look finds, once that is true of it.

    Parameters
    ----------
    look
        Asked again and again. What it raises, it raises here: say in it what must not happen meanwhile.
    shown
        Told if it never holds, so that its reader sees what did.
    pause_seconds
        Between two looks.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        if time.monotonic() > deadline:
            told = "" if shown is None else f": {shown()}"
            raise AssertionError(f"it did not come to hold within {PATIENCE_SECONDS:g} s{told}")
        time.sleep(pause_seconds)
    return found


def joined(*threads: threading.Thread) -> None:
    """Wait for the ends of threads, all of which must come."""
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), f"the thread {thread.name} did not end within {PATIENCE_SECONDS:g} s"
