"""Compiled code is loaded only as what it was saved as, whoever else compiles at the same time.

numba keeps the compiled forms of a function in numbered files beside an index, which says what each of them holds. It
writes the one, then the other: two processes that compile the same function for different types choose the same number,
and the index of one may be left beside the code of the other. From then on every process would run the wrong machine
code, without an error. A process that ends between the two files, or a full disk, leaves the same behind where the
file of that number held what an earlier source was compiled to.

So each file says itself what it holds, behind what numba reads of it, and is taken for nothing else; what does not fit
is compiled and written anew. Nobody waits for anybody, and it holds where nothing can be locked or written, too.
"""
# ruff: noqa: SLF001 - numba offers no other way in; what is used of it is looked at before

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
"""Of numba's cache file, those that are replaced or used, each with its parameters."""


def save(file: Any, key: Any, data: Any) -> None:
    """In place of ``IndexDataCacheFile.save``: keep what a function was compiled to, and as what."""
    overloads = file._load_index()
    name = overloads.get(key)
    if name is None:
        taken = set(overloads.values())
        name = next(name for number in count(1) if (name := file._data_name(number)) not in taken)
    path = file._data_path(name)
    # Whole before the first byte is written.
    content = file._dump(data) + file._dump(_mark(file, key))
    with file._open_for_write(path) as stream:
        stream.write(content)
    _say("[cache] data saved to %r", path)
    if key not in overloads:
        file._save_index({**overloads, key: name})


def load(file: Any, key: Any) -> Any:
    """In place of ``IndexDataCacheFile.load``: what a function was compiled to, or None where it has to be compiled."""
    name = file._load_index().get(key)
    if name is None:
        return None
    path = file._data_path(name)
    try:
        content = io.BytesIO(Path(path).read_bytes())
    except OSError:
        # Another process removed it, or has named it and not written it yet.
        return None
    data = pickle.load(content)  # noqa: S301 - as numba does: who can write there can run anything here
    try:
        mark = pickle.load(content)  # noqa: S301
    except EOFError:
        # Written without this module.
        return None
    if mark != _mark(file, key):
        return None
    _say("[cache] data loaded from %r", path)
    return data


def _mark(file: Any, key: Any) -> tuple[Any, ...]:
    """By which numba, of which state of the source, for which types and which processor."""
    return numba.__version__, file._source_stamp, key


def _say(what: str, path: str) -> None:
    if config.DEBUG_CACHE:  # type: ignore[attr-defined]
        print(what % path)  # noqa: T201 - where and as numba says it


def install(into: ModuleType = caching) -> bool:
    """Let numba save and load in this way.

    Returns
    -------
    False where it does not keep files as expected: it then goes on in its own way, and the log says so.
    """
    kept: Any = getattr(into, "IndexDataCacheFile", None)
    if not _as_expected(kept):
        _log.warning(
            "numba %s does not keep compiled code as it did before: where two processes compile the same function for "
            "different types at the same time, it may load the code of the one for that of the other",
            numba.__version__,
        )
        return False
    kept.save, kept.load = save, load
    return True


def _as_expected(kept: Any) -> bool:
    for name, parameters in _METHODS.items():
        method = getattr(kept, name, None)
        if not inspect.isfunction(method) or list(inspect.signature(method).parameters)[1:] != parameters:
            return False
    return "_source_stamp" in kept.__init__.__code__.co_names
