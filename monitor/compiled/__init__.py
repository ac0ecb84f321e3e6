"""Compile loops over arrays to machine code, which is kept on disk.

Modules of such loops are named ``*_loops.py`` and stand beside what they serve: array in, array out.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

from monitor.compiled import cache_file, notice

_Function = TypeVar("_Function", bound=Callable[..., object])

cache_file.install()
notice.install()


def njit(*, fastmath: bool | set[str] = False) -> Callable[[_Function], _Function]:
    """Compile a function with numba at its first call. It runs without the GIL.

    Parameters
    ----------
    fastmath
        Which rules of floating-point arithmetic may be broken for speed: flags of LLVM. None by default.
    """
    return cast("Callable[[_Function], _Function]", numba.njit(cache=True, nogil=True, fastmath=fastmath))
