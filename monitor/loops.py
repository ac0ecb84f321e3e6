"""Compile loops over arrays to machine code, which is cached on disk.

Modules of such loops are named ``*_loops.py`` and stand beside what they serve: array in, array out. What is on disk is
loaded without numba. numba is imported when a loop is called with arguments for which there is nothing yet.
"""

import functools
import importlib
import threading
from collections.abc import Callable
from types import FunctionType
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
        return cast("_Function", CompiledLoop(function, fastmath))

    return decorate


@functools.cache
def load_numba() -> Any:
    """Import numba, with this package's log line about compilation."""
    numba = importlib.import_module("numba")
    importlib.import_module("monitor.compiled.notice").install()
    return numba


class CompiledLoop:
    """A function whose machine code is loaded, or compiled, when it is first called with arguments of some kinds."""

    def __init__(self, function: Callable[..., object], fastmath: bool | set[str]) -> None:
        functools.update_wrapper(self, function)
        self.py_func: Any = function
        self.fastmath = fastmath
        self.forms: dict[tuple[Any, ...], Callable[..., Any]] = {}
        """Machine code that can be called, by the kinds of the arguments."""

        self._dispatcher: Any = None
        self._names = function.__code__.co_varnames[: function.__code__.co_argcount]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the form for arguments of these kinds."""
        if kwargs:
            args += tuple([kwargs[name] for name in self._names[len(args) :]])
        kinds = _kinds_of()(args)
        return (self.forms.get(kinds) or self._form(kinds, args))(*args)

    def _form(self, kinds: tuple[Any, ...], args: tuple[Any, ...]) -> Callable[..., Any]:
        with _preparing:
            form = self._load(kinds) or self._compile(kinds, args)
            if None not in kinds:
                self.forms[kinds] = form
            return form

    def _load(self, kinds: tuple[Any, ...]) -> Callable[..., Any] | None:
        if None in kinds:
            return None
        native = importlib.import_module("monitor.compiled.native")
        return cast("Callable[..., Any] | None", native.load(self._name(kinds), self.py_func))

    def names(self) -> list[str]:
        """Names of the files of the forms that were called in this process, without their endings."""
        return [self._name(kinds) for kinds in self.forms]

    def _name(self, kinds: tuple[Any, ...]) -> str:
        kept = importlib.import_module("monitor.compiled.kept")
        return cast("str", kept.name_of(self.py_func, self._content, kinds))

    @functools.cached_property
    def _content(self) -> bytes:
        return cast("bytes", importlib.import_module("monitor.compiled.content").content_of(self))

    def _compile(self, kinds: tuple[Any, ...], args: tuple[Any, ...]) -> Callable[..., Any]:
        dispatcher = self.prepare()
        if None in kinds:  # numba chooses the form
            return cast("Callable[..., Any]", dispatcher)
        return cast("Callable[..., Any]", dispatcher.compile(tuple([dispatcher.typeof_pyval(each) for each in args])))

    def prepare(self) -> Any:
        """Return the loop as numba has it, for one thread at a time."""
        if self._dispatcher is None:
            # numba looks up the loops that this one calls by their names, and must find functions of its own.
            names = dict(self.py_func.__globals__)
            loops = {name: each for name, each in names.items() if isinstance(each, CompiledLoop)}
            for loop in dict.fromkeys([self, *loops.values()]):
                if loop.py_func.__globals__ is self.py_func.__globals__:
                    loop._dispatcher = loop._made(names)  # noqa: SLF001 - of this class
            names.update({name: loop.prepare() for name, loop in loops.items()})
        return self._dispatcher

    def _made(self, names: dict[str, Any]) -> Any:
        of = self.py_func
        function = FunctionType(of.__code__, names, of.__name__, of.__defaults__, of.__closure__)
        functools.update_wrapper(function, of)
        dispatcher = load_numba().njit(nogil=True, fastmath=self.fastmath)(function)
        importlib.import_module("monitor.compiled.cache").keep(dispatcher, self)
        return dispatcher


@functools.cache
def _kinds_of() -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    return cast(
        "Callable[[tuple[Any, ...]], tuple[Any, ...]]", importlib.import_module("monitor.compiled.kinds").kinds_of
    )
