"""Compile loops over arrays to machine code, which is kept on disk.

Modules of such loops are named ``*_loops.py``, next to the code that uses them.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

from monitor.compiled import cache_file, notice

_Function = TypeVar("_Function", bound=Callable[..., object])

cache_file.install()
notice.install()


def njit(*, fastmath: bool | set[str] = False) -> Callable[[_Function], _Function]:
    """Compile a function with numba at its first call; it releases the GIL.

    Parameters
    ----------
    fastmath
        Flags of LLVM: rules of floating-point arithmetic that may be broken for speed.
    """
    return cast("Callable[[_Function], _Function]", numba.njit(cache=True, nogil=True, fastmath=fastmath))
