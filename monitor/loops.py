"""Compile loops over arrays to machine code, which is cached on disk.

Modules of such loops are named ``*_loops.py`` and stand beside what they serve: array in, array out. numba is imported
when the first loop is called, so a process that calls none starts quickly.
"""

import functools
import importlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., object])

_preparing = threading.RLock()


def njit(*, fastmath: bool | set[str] = False) -> Callable[[_Function], _Function]:
    """Compile a function with numba at its first call. It runs without the GIL.

    Parameters
    ----------
    fastmath
        Which rules of floating-point arithmetic may be broken for speed: flags of LLVM. None by default.
    """

    def decorate(function: _Function) -> _Function:
        return cast("_Function", _Loop(function, fastmath))

    return decorate


@functools.cache
def load_numba() -> Any:
    """Import numba, with this package's log line about compilation."""
    numba = importlib.import_module("numba")
    importlib.import_module("monitor.compiled.notice").install()
    return numba


class _Loop:
    """A function that numba compiles when it is first called."""

    def __init__(self, function: Callable[..., object], fastmath: bool | set[str]) -> None:
        functools.update_wrapper(self, function)
        self._function: Any = function
        self._fastmath = fastmath
        self._dispatcher: Callable[..., Any] | None = None
        self._compiled: Callable[..., Any] | None = None
        """The dispatcher of numba, once it can be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._compiled or self._prepare())(*args, **kwargs)

    def _prepare(self) -> Callable[..., Any]:
        with _preparing:
            if self._dispatcher is None:
                compile_function = load_numba().njit(nogil=True, fastmath=self._fastmath)
                self._dispatcher = compile_function(self._function)
                importlib.import_module("monitor.compiled.cache").keep(self._dispatcher)
                # numba looks up the loops that this one calls by their names, and must find functions of its own: all
                # at once, before another thread can call one of them.
                names = self._function.__globals__
                loops = {name: value for name, value in list(names.items()) if isinstance(value, _Loop)}
                names.update({name: loop._prepare() for name, loop in loops.items()})  # noqa: SLF001 - of this class
                self._compiled = self._dispatcher
            return self._dispatcher
