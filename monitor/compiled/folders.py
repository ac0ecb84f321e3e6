"""Folders of compiled loops: what the package was built with, and what is kept since.

That is beside the package, in the user's cache, or where NUMBA_CACHE_DIR says.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from monitor.private_directory import private_folder

SHIPPED: Final = Path(__file__).parent / "shipped"
"""Holds what was compiled when the package was built: deploy/build_backend.py."""

_BESIDE: Final = Path(__file__).parent / "__pycache__"


class Folders(NamedTuple):
    """Where compiled loops are looked for, in this order, and where new ones are written, if anywhere."""

    read: tuple[Path, ...]
    write: Path | None


@cache
def folders() -> Folders:
    """Find the folders. Once per process.

    An image holds its loops in a folder that cannot be written: what it lacks is kept in a private folder of this user
    under TMPDIR. No other user may write there, because code is read from there and run.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    usual = [Path(named)] if named else [_BESIDE, _cache_of_user()]
    read = (SHIPPED, *usual)
    write = next(_writable(usual), None)
    if write is not None:
        return Folders(read, write)
    own = _own_folder()
    return Folders((*read, own) if own else read, own)


def _writable(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        with suppress(OSError):
            path.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and os.access(path, os.W_OK | os.X_OK):
            yield path


def _cache_of_user() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - never raises
    return Path(root) / "calibration-monitor"


def _own_folder() -> Path | None:
    try:
        return private_folder(Path(tempfile.gettempdir()) / f"monitor-kernels-{os.getuid()}")
    except OSError:
        return None
