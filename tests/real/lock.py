"""What test runs, and the processes of one, must not do at the same time."""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Let one process fetch while others wait: they then find the files."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
