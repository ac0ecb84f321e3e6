"""Make numba's disk cache safe for several processes that compile at the same time.

numba saves the compiled versions of a function in numbered files, listed in an index. It writes the code file, then the
index: two processes that compile the same function for different types choose the same number, so that the index of one
may be left with the code of the other. From then on every process would run the wrong machine code, without an error.
The same happens if a process ends between the two writes, or the disk is full, and the file of that number contains
code of an earlier source.

So each code file ends with its own key, after the part that numba reads. A file whose key does not match is ignored,
and the function is compiled and saved again. This needs no locks, and works if nothing can be written.
"""
# ruff: noqa: SLF001 - numba has no public interface for this; install() checks the private one first

import inspect
import io
import logging
import pickle
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numba
from numba.core import caching, config

_log = logging.getLogger(__name__)

_METHODS: Final = {
    "save": ["key", "data"],
    "load": ["key"],
    "_load_index": [],
    "_save_index": ["overloads"],
    "_data_name": ["number"],
    "_data_path": ["name"],
    "_dump": ["obj"],
    "_open_for_write": ["filepath"],
}
"""Methods of numba's cache file that are replaced or used, with their parameters."""


def save(file: Any, key: Any, data: Any) -> None:
    """Replacement of ``IndexDataCacheFile.save``: save compiled code with its key."""
    overloads = file._load_index()
    name = overloads.get(key)
    if name is None:
        taken = set(overloads.values())
        name = next(name for number in count(1) if (name := file._data_name(number)) not in taken)
    path = file._data_path(name)
    # Serialise everything before the first byte is written.
    content = file._dump(data) + file._dump(_mark(file, key))
    with file._open_for_write(path) as stream:
        stream.write(content)
    _log_debug("[cache] data saved to %r", path)
    if key not in overloads:
        file._save_index({**overloads, key: name})


def load(file: Any, key: Any) -> Any:
    """Replacement of ``IndexDataCacheFile.load``: the compiled code, or None if there is none for this key."""
    name = file._load_index().get(key)
    if name is None:
        return None
    path = file._data_path(name)
    try:
        content = io.BytesIO(Path(path).read_bytes())
    except OSError:
        # Another process removed it, or has listed it in the index but not written it yet.
        return None
    data = pickle.load(content)  # noqa: S301 - as numba does: write access there already allows running code here
    try:
        mark = pickle.load(content)  # noqa: S301
    except EOFError:
        # Written by numba itself.
        return None
    if mark != _mark(file, key):
        return None
    _log_debug("[cache] data loaded from %r", path)
    return data


def _mark(file: Any, key: Any) -> tuple[Any, ...]:
    """Version of numba, stamp of the source, types and processor."""
    return numba.__version__, file._source_stamp, key


def _log_debug(message: str, path: str) -> None:
    if config.DEBUG_CACHE:  # type: ignore[attr-defined]
        print(message % path)  # noqa: T201 - as numba does


def install(into: ModuleType = caching) -> bool:
    """Replace numba's saving and loading; False, with a warning in the log, if numba's cache is not as expected."""
    cache_file: Any = getattr(into, "IndexDataCacheFile", None)
    if not _is_as_expected(cache_file):
        _log.warning(
            "numba %s does not keep compiled code as it did before: where two processes compile the same function for "
            "different types at the same time, it may load the code of the one for that of the other",
            numba.__version__,
        )
        return False
    cache_file.save, cache_file.load = save, load
    return True


def _is_as_expected(cache_file: Any) -> bool:
    for name, parameters in _METHODS.items():
        method = getattr(cache_file, name, None)
        if not inspect.isfunction(method) or list(inspect.signature(method).parameters)[1:] != parameters:
            return False
    return "_source_stamp" in cache_file.__init__.__code__.co_names
