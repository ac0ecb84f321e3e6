"""Keep compiled loops on disk, each in a file whose name is a digest of all that went into it.

That is the bytecode of the loop and of those that it calls, the constants they use, the types of the arguments, the
processor, and the releases of Python, numba and LLVM. So a loop that changed is never loaded, whichever file changed;
an installation that was copied, or unpacked anew, loads what it has; and processes that compile the same loop at once
write the same file. numba's own cache knows the time of one source file, numbers its files by an index that such
processes overwrite for each other, and prepares to compile before it loads, which takes as long as loading fifty loops.
"""
# ruff: noqa: SLF001 - numba has no public interface for this; keep() checks the private one first

import hashlib
import logging
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from types import BuiltinFunctionType, CodeType, ModuleType
from typing import Any, Final

import llvmlite
import numba
import numpy as np
from numba.core import caching, config
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps

from monitor.compiled.folders import folders

_log = logging.getLogger(__name__)

_DIGEST_BYTES: Final = 32
_RELEASES: Final = (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__)
_PLAIN: Final = (bool, int, float, complex, str, bytes, tuple, type(None), np.generic, np.dtype)
_NAMED: Final = (type, np.ufunc, BuiltinFunctionType)


def keep(dispatcher: Any) -> None:
    """Let a function of numba load what was compiled before, and keep what it compiles."""
    if _is_as_expected(CompileResult):
        dispatcher._cache = LoopCache(dispatcher.py_func, dispatcher.targetoptions)
    else:
        dispatcher.enable_caching()


@cache
def _is_as_expected(result: type) -> bool:
    if callable(getattr(result, "_reduce", None)) and callable(getattr(result, "_rebuild", None)):
        return True
    _log.warning("numba %s keeps compiled code in another way: its own cache is used", numba.__version__)
    return False


class LoopCache(caching._Cache):
    """The compiled forms of one loop, as numba's dispatcher asks for them."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function = function
        self._options = options
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """Where new forms are written."""
        return str(folders().write)

    @cached_property
    def content(self) -> bytes:
        """Digest of the loop, of those that it calls, and of the constants that they use."""
        return _digest(*_content(self._function, self._options, set()))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the form for these types of arguments; None if there is none."""
        if not self._enabled:
            return None
        name = self._name(sig, target_context.codegen())
        for folder in folders().read:
            data = _read(folder / name)
            if data is not None:
                _log_debug("[cache] data loaded from %r", folder / name)
                rtsys.initialize(target_context)
                result: Any = CompileResult
                return result._rebuild(target_context, *pickle.loads(data))  # noqa: S301 - as numba does
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the form for these types of arguments, if there is a place for it."""
        folder = folders().write
        # Dynamic: an address of this process was compiled into it.
        if not self._enabled or folder is None or data.library.has_dynamic_globals:
            return
        path = folder / self._name(sig, data.codegen)
        try:
            _write(path, dumps(data._reduce()))  # type: ignore[no-untyped-call]
        except OSError as error:
            _log.warning("compiled code cannot be kept, so that the next start compiles again: %s", error)
        else:
            _log_debug("[cache] data saved to %r", path)

    def enable(self) -> None:
        """Load and keep from now on."""
        self._enabled = True

    def disable(self) -> None:
        """Neither load nor keep from now on."""
        self._enabled = False

    def flush(self) -> None:
        """Do nothing: what is on disk is right for ever."""

    def _name(self, sig: Any, codegen: Any) -> str:
        # numba's name of a named tuple has the types of its fields, and not theirs.
        arguments = [(str(one), getattr(one, "fields", ())) for one in getattr(sig, "args", sig)]
        key = _digest(self.content, repr((arguments, codegen.magic_tuple(), _RELEASES)).encode())
        module = self._function.__module__.rpartition(".")[2]
        return f"{module}.{self._function.__name__}-{key.hex()[:32]}.nbc"


def _content(function: Callable[..., Any], options: dict[str, Any], seen: set[object]) -> Iterator[bytes]:
    seen.add(function)
    if function.__code__.co_freevars:
        raise TypeError(f"{function.__qualname__} uses variables of another function: give them as arguments")
    yield repr(sorted((name, _ordered(value)) for name, value in options.items())).encode()
    for code in _codes(function.__code__):
        yield code.co_code
        yield repr([_ordered(each) for each in code.co_consts if not isinstance(each, CodeType)]).encode()
        yield repr((code.co_names, code.co_varnames, code.co_argcount, function.__defaults__)).encode()
        for name in code.co_names:
            if name in function.__globals__:
                yield from _value(name, function.__globals__[name], seen)


def _ordered(value: object) -> object:
    return sorted(value) if isinstance(value, set | frozenset) else value


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _value(name: str, value: Any, seen: set[object]) -> Iterator[bytes]:
    """Describe what a loop finds under this name, which is compiled into it."""
    if isinstance(getattr(value, "_cache", None), LoopCache):
        if value.py_func not in seen:
            yield from _content(value.py_func, value.targetoptions, seen)
    elif isinstance(value, np.ndarray):
        yield repr((name, value.dtype.str, value.shape)).encode() + value.tobytes()
    elif isinstance(value, _PLAIN):
        yield repr((name, type(value).__name__, value)).encode()
    elif isinstance(value, _NAMED) or (isinstance(value, ModuleType) and value.__name__ in {"math", "numpy"}):
        yield repr((name, value.__name__, getattr(value, "_fields", ()))).encode()
    else:
        raise TypeError(f"{name} in a loop must be a number, an array or another loop, got {value!r}")


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _read(path: Path) -> bytes | None:
    """Return what is kept there; None if there is nothing, or what a crash of the machine left of it."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, data = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return data if digest == _digest(data) else None


def _write(path: Path, data: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".part", delete=False) as stream:
        try:
            stream.write(_digest(data) + data)
            stream.flush()
            os.chmod(stream.name, 0o644)  # noqa: PTH101 - a temporary file is its owner's alone
            os.replace(stream.name, path)  # noqa: PTH105
        except BaseException:
            os.unlink(stream.name)  # noqa: PTH108
            raise


def _log_debug(message: str, path: Path) -> None:
    if config.DEBUG_CACHE:  # type: ignore[attr-defined]
        print(message % str(path))  # noqa: T201 - as numba does
