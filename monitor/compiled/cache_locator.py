"""Lets numba use a read-only cache directory of precompiled kernels, as in an image.

numba's own locators accept a directory only if they can write to it. In a container with a read-only root filesystem
every start would then compile all kernels again, or fail at the first import. numba uses this locator if
``NUMBA_CACHE_LOCATOR_CLASSES=monitor.compiled.cache_locator.PrecompiledCacheLocator`` is set with ``NUMBA_CACHE_DIR``;
nothing else imports it.

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
    """``NUMBA_CACHE_DIR``, whether it is writable or not.

    If it is not, its files are linked into a private directory of this user under TMPDIR, where new code is saved. If
    that cannot be created either, only the precompiled code is used.
    """

    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None:
        super().__init__(py_func, py_file)  # type: ignore[no-untyped-call]
        self._cache_path = str(_usable(Path(self._cache_path)))

    def ensure_cache_path(self) -> None:
        """Raise OSError unless kernels can be read there; numba itself would require that they can be written."""
        path = Path(self._cache_path)
        if path.is_dir() and not os.access(path, os.W_OK):
            return
        super().ensure_cache_path()  # type: ignore[no-untyped-call]


@cache
def _usable(compiled: Path) -> Path:
    """The directory itself, or the private directory with links to its files. Once per process."""
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
        # For example a full disk: the precompiled code can still be used.
        return compiled
    return linked


def _link(link: Path, file: Path) -> None:
    # A regular file was written by numba and contains the precompiled code, and more.
    if link.is_symlink() and link.readlink() != file:
        link.unlink(missing_ok=True)
    with suppress(FileExistsError):
        link.symlink_to(file)


def _own_directory() -> Path | None:
    """A directory that no other user can write to, because numba runs the code that it reads there."""
    try:
        return private_folder(Path(tempfile.gettempdir()) / f"monitor-kernels-{os.getuid()}")
    except OSError:
        return None
