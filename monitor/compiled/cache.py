"""Let numba load what it compiled before, and keep what it compiles: as numba needs it, and as it runs without numba.

numba's own cache knows the time of one source file, numbers its files by an index that processes which compile the same
loop overwrite for each other, and prepares to compile before it loads, which takes as long as loading fifty loops.
"""
# ruff: noqa: SLF001 - numba has no public interface for this; keep() checks the private one first

import logging
import pickle
from functools import cache, cached_property
from typing import Any, Final, cast

import numba
from numba.core import caching, types
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps
from numba.np.numpy_support import as_dtype

from monitor.compiled.content import Loop, content_of
from monitor.compiled.folders import folders
from monitor.compiled.kept import name_of, read, write
from monitor.compiled.kinds import Kind, kind_of_elements
from monitor.compiled.native import Native

_log = logging.getLogger(__name__)

TRIED: Final = ("0.68",)
"""Releases of numba whose code :mod:`monitor.compiled.native` was tried with; that of others is loaded by numba."""


def keep(dispatcher: Any, loop: Loop) -> None:
    """Let a function of numba load what was compiled before, and keep what it compiles."""
    if _is_as_expected(CompileResult):
        dispatcher._cache = LoopCache(loop)
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

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """Where new forms are written."""
        return str(folders().write)

    @cached_property
    def content(self) -> bytes:
        """Digest of the loop, of those that it calls, and of the constants that they use."""
        return content_of(self._loop)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the form for these types of arguments; None if there is none."""
        data = read(self._file(sig)) if self._enabled else None
        if data is None:
            return None
        rtsys.initialize(target_context)
        result: Any = CompileResult
        return result._rebuild(target_context, *pickle.loads(data))  # noqa: S301 - as numba does

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the form for these types of arguments, if there is a place for it."""
        # Dynamic: an address of this process was compiled into it.
        if not self._enabled or data.library.has_dynamic_globals:
            return
        reduced = data._reduce()
        native = _native(data, reduced)
        kinds = tuple([kind_of_type(one) for one in _arguments(sig)])
        try:
            # In this order: a form that numba loads is one that it alone can load.
            if native is not None and None not in kinds:
                write(f"{name_of(self._loop.py_func, self.content, kinds)}.nbn", native)
            write(self._file(sig), dumps(reduced))  # type: ignore[no-untyped-call]
        except OSError as error:
            _log.warning("compiled code cannot be kept, so that the next start compiles again: %s", error)

    def enable(self) -> None:
        """Load and keep from now on."""
        self._enabled = True

    def disable(self) -> None:
        """Neither load nor keep from now on."""
        self._enabled = False

    def flush(self) -> None:
        """Do nothing: what is on disk is right for ever."""

    def _file(self, sig: Any) -> str:
        # numba's name of a named tuple has the types of its fields, and not theirs.
        arguments = repr([(str(one), getattr(one, "fields", ())) for one in _arguments(sig)])
        return f"{name_of(self._loop.py_func, self.content, arguments)}.nbc"


def _arguments(sig: Any) -> Any:
    return getattr(sig, "args", sig)


def kind_of_type(of: Any) -> Kind | None:
    """Kind of the values of a type of numba; None if only numba knows them."""
    if type(of) is types.Array:
        return kind_of_elements(as_dtype(of.dtype)), of.ndim, of.layout, of.mutable
    if isinstance(of, types.Boolean):
        return "bool"
    if type(of) in {types.Integer, types.Float}:
        return str(of.name)
    if isinstance(of, types.NumPyRandomGeneratorType):
        return "generator"
    if isinstance(of, types.BaseTuple):
        cls = getattr(of, "instance_class", tuple)
        inner = [kind_of_type(one) for one in cast("Any", of).types]
        return None if None in inner else (cls.__module__, cls.__qualname__, getattr(cls, "_fields", ()), *inner)
    return None


def _native(result: Any, reduced: Any) -> bytes | None:
    """A form as it is loaded without numba; None if it needs numba."""
    if numba.__version__.rpartition(".")[0] not in TRIED:
        return None
    module = result.library._final_module
    names = [*module.functions, *module.global_variables]
    environments = {each.env_name: list(each.consts) for each in (result.environment, *reduced[-1])}
    native = Native(
        object_file=reduced[0][2][0],
        function=result.fndesc.llvm_cpython_wrapper_name,
        environment=result.fndesc.env_name,
        environments=environments,
        needed=[each.name for each in names if each.is_declaration and not each.name.startswith("llvm.")],
    )
    try:
        data = pickle.dumps(tuple(native))
    except (pickle.PicklingError, TypeError, AttributeError):
        return None
    # A constant of numba's own would import it where it is loaded.
    return None if b"numba" in pickle.dumps(list(environments.values())) else data
