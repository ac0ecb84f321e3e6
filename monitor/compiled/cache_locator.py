"""Where numba finds compiled kernels when they were compiled beforehand and may not be written to, as in an image.

numba's own locators take a directory only if a file can be written there, so that in a container whose root filesystem
is read-only every start would compile all kernels anew, or fail at the import of the first one. numba reads this one
when ``NUMBA_CACHE_LOCATOR_CLASSES=monitor.compiled.cache_locator.PrecompiledCacheLocator`` stands beside
``NUMBA_CACHE_DIR``; nothing else imports it.

Source  numba's documentation of NUMBA_CACHE_LOCATOR_CLASSES
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import UserProvidedCacheLocator

from monitor.private_directory import private_folder


class PrecompiledCacheLocator(UserProvidedCacheLocator):
    """``NUMBA_CACHE_DIR``, whether it can be written to or not.

    Where it cannot, what it holds is linked into a directory of this user's own under TMPDIR, which takes whatever has
    still to be compiled. Where that cannot be made either, only what was compiled beforehand can be used.
    """

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        self._cache_path = str(_usable(Path(self._cache_path)))

    def ensure_cache_path(self) -> None:
        """Raise OSError unless kernels can be read there. numba itself asks for more: that they can be written."""
        path = Path(self._cache_path)
        if path.is_dir() and not os.access(path, os.W_OK):
            return
        super().ensure_cache_path()  # type: ignore[no-untyped-call]


@cache
def _usable(compiled: Path) -> Path:
    """The directory itself, or where it is linked to. Once a process."""
    if not compiled.is_dir() or os.access(compiled, os.W_OK):
        return compiled
    own = _own_directory()
    if own is None:
        return compiled
    linked = own / compiled.name
    try:
        linked.mkdir(exist_ok=True)
        for file in compiled.iterdir():
            _link(linked / file.name, file)
    except OSError:
        # A disk that is full, say: what is compiled can be used all the same.
        return compiled
    return linked


def _link(link: Path, file: Path) -> None:
    # One that numba wrote itself holds what the other held, and more.
    if link.is_symlink() and link.readlink() != file:
        link.unlink(missing_ok=True)
    with suppress(FileExistsError):
        link.symlink_to(file)


def _own_directory() -> Path | None:
    """A directory that nobody else can write to: what numba reads there, it runs."""
    try:
        return private_folder(Path(tempfile.gettempdir()) / f"monitor-kernels-{os.getuid()}")
    except OSError:
        return None
