"""Load machine code of a loop as numba compiled it, without numba.

To import numba takes longer than a report of a small file, and numba is needed only to compile. What it compiled is an
object file with one function that Python can call, which takes and gives Python objects. It finds its constants by
pointers to environments, and calls helpers in C: those of numba's extension modules, which are loaded here alone. They
stand in :data:`sys.modules` under their names, so that numba, if it is imported later, takes the same ones.

numba has no public interface for this. :mod:`monitor.compiled.cache` writes such files only where it finds numba as it
is expected, a file is for one release of numba, and a loop of which there is no such file is loaded by numba itself.
"""

import builtins
import ctypes
import importlib.machinery
import importlib.util
import logging
import pickle
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, Final, NamedTuple

import llvmlite.binding as llvm

from monitor.compiled.kept import numba_folder, read

_log = logging.getLogger(__name__)

_EXTENSIONS: Final = ("_dynfunc", "_helperlib", "core.runtime._nrt_python")

Form = Callable[..., Any]
"""Machine code for one kind of arguments, which Python calls by place."""

_alive: list[object] = []
"""Engines, whose code must not be freed, and what that code points to."""


class Native(NamedTuple):
    """A compiled form of a loop, as it is kept."""

    object_file: bytes
    function: str
    """Name of the function that Python calls."""

    environment: str
    environments: dict[str, list[Any]]
    """Constants of the loop and of those that it calls, by the names of the pointers to them."""

    needed: list[str]
    """Names that must be found: a missing one would end the process."""


def load(name: str, function: Any) -> Form | None:
    """Load what is kept by this name; None if there is nothing, or what cannot be loaded here."""
    data = read(f"{name}.nbn")
    if data is None:
        return None
    extensions = _extensions()
    if extensions is None:
        return None
    native = Native(*pickle.loads(data))  # noqa: S301 - only this user can write into these folders
    module = llvm.parse_assembly("")
    module.triple = llvm.get_process_triple()
    # One for each form, as the names of what numba compiles into it need not differ from those in another.
    engine = llvm.create_mcjit_compiler(module, _target().create_target_machine(jit=True))
    # Only now are names looked up in this process, too.
    if not all(llvm.address_of_symbol(each) for each in native.needed):
        return None
    engine.add_object_file(llvm.ObjectFileRef.from_data(native.object_file))
    engine.finalize_object()
    environments = {}
    for pointer, constants in native.environments.items():
        environment = extensions["_dynfunc"].Environment(function.__globals__)
        environment.consts.extend(constants)
        environments[pointer] = environment
        ctypes.c_void_p.from_address(engine.get_global_value_address(pointer)).value = id(environment)
    _alive.extend([engine, environments])
    form: Form = extensions["_dynfunc"].make_function(
        sys.modules.get(function.__module__),
        function.__name__,
        f"compiled form of {function.__qualname__}",
        engine.get_function_address(native.function),
        environments[native.environment],
        (),
    )
    return form


@cache
def _target() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple())


@cache
def _extensions() -> dict[str, ModuleType] | None:
    """Modules of numba in C, whose helpers LLVM finds by their names from now on; None if numba has other ones."""
    try:
        modules = {name: _extension(name) for name in _EXTENSIONS}
    except ImportError as error:
        _log.warning("loops are loaded by numba, which takes a second longer: %s", error)
        return None
    symbols = {"_Py_NoneStruct": id(None), "numba_unpickle": _address_of_unpickle()}
    symbols |= {f"PyExc_{name}": id(each) for name, each in vars(builtins).items() if _is_error(each)}
    for name in ("_helperlib", "_dynfunc"):
        for helper, address in modules[name].c_helpers.items():
            symbols.setdefault(f"numba_{helper}", address)
    for helper, address in modules["core.runtime._nrt_python"].c_helpers.items():
        symbols[helper if helper.startswith("_") else f"NRT_{helper}"] = address
    for name, address in symbols.items():
        llvm.add_symbol(name, address)
    return modules


def _extension(name: str) -> ModuleType:
    whole = f"numba.{name}"
    if whole not in sys.modules:
        folder = numba_folder().joinpath(*name.split(".")[:-1])
        spec = importlib.machinery.PathFinder.find_spec(whole, [str(folder)])
        if spec is None or spec.loader is None:
            raise ImportError(f"{whole} is not in {folder}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[whole] = module
    return sys.modules[whole]


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


@cache
def _address_of_unpickle() -> int:
    """A helper that numba has in Python, for constants such as the class of arrays and errors that are raised."""
    memo: dict[int, Any] = {}

    def unpickle(address: int, size: int, _: int) -> Any:
        if address not in memo:
            memo[address] = pickle.loads(ctypes.string_at(address, size))  # noqa: S301 - a constant of our own code
        return memo[address]

    # Called with the GIL, which it keeps.
    function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(unpickle)
    _alive.append(function)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
