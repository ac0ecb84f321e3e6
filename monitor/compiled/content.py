"""Content of a loop: digest of all that is compiled into its machine code."""

import hashlib
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, ModuleType
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

_PLAIN: Final = (bool, int, float, complex, str, bytes, tuple, type(None), np.generic, np.dtype)
_NAMED: Final = (type, np.ufunc, BuiltinFunctionType)


@runtime_checkable
class Loop(Protocol):
    """A function that is to be compiled, and how."""

    @property
    def py_func(self) -> Callable[..., Any]:
        """The function, as Python has it."""

    @property
    def fastmath(self) -> bool | set[str]:
        """Which rules of floating-point arithmetic may be broken."""


def content_of(loop: Loop) -> bytes:
    """Digest of a loop, of those that it calls, and of the constants that they use."""
    return digest(*_content(loop, set()))


def digest(*parts: bytes) -> bytes:
    """Digest of these parts, in this order. 32 bytes."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(len(part).to_bytes(8, "little") + part)
    return sha.digest()


def _content(loop: Loop, seen: set[object]) -> Iterator[bytes]:
    function = loop.py_func
    seen.add(function)
    if function.__code__.co_freevars:
        raise TypeError(f"{function.__qualname__} uses variables of another function: give them as arguments")
    yield repr(_ordered(loop.fastmath)).encode()
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
    if isinstance(value, np.ndarray):
        yield repr((name, value.dtype.str, value.shape)).encode() + value.tobytes()
    elif isinstance(value, _PLAIN):
        yield repr((name, type(value).__name__, value)).encode()
    elif isinstance(value, _NAMED) or (isinstance(value, ModuleType) and value.__name__ in {"math", "numpy"}):
        yield repr((name, value.__name__, getattr(value, "_fields", ()))).encode()
    elif isinstance(value, Loop):
        if value.py_func not in seen:
            yield from _content(value, seen)
    else:
        raise TypeError(f"{name} in a loop must be a number, an array or another loop, got {value!r}")
