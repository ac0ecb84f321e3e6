"""What test runs, and the processes of one, must not do at the same time, and what they leave to each other."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from monitor.private_directory import private_folder

_UNLOCKED: Final = ".new"


@contextlib.contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Let one process fetch while others wait: they then find the files."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    # Another user of the checkout may have made it: to lock it, reading is enough.
    file = os.open(lock, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


@contextlib.contextmanager
def passing_folder(prefix: str) -> Iterator[Path]:
    """A temporary folder that goes at the end: by us or, if we are killed, by the next of this user that makes one."""
    temporary = Path(tempfile.gettempdir())
    marks = private_folder(temporary / f"calibration-monitor-tests-{os.geteuid()}")
    if marks is None:
        raise RuntimeError(f"others may write to the folder of this user's tests in {temporary}: remove it")
    _remove_what_was_left(marks, temporary)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=temporary))
    mark, unlocked = marks / folder.name, marks / f"{folder.name}{_UNLOCKED}"
    with unlocked.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # Under this name only once it is locked: what nobody has locked is taken for left.
        unlocked.rename(mark)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
            mark.unlink()


def _remove_what_was_left(marks: Path, temporary: Path) -> None:
    for mark in marks.iterdir():
        if mark.suffix == _UNLOCKED:
            continue
        # Another process may remove the same, or still work there.
        with contextlib.suppress(FileNotFoundError, BlockingIOError), mark.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A server of theirs may still be ending: then the next one removes it.
            shutil.rmtree(temporary / mark.name, ignore_errors=True)
            if not (temporary / mark.name).exists():
                mark.unlink()
