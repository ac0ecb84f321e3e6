"""Check that loops can be compiled, and where compiled code is kept."""

import os
from collections.abc import Iterator
from pathlib import Path

import monitor
from monitor.app.checks.base import Finding, Surroundings, fail, ok, warn
from monitor.compiled import load_numba


def check_kernels(around: Surroundings) -> Iterator[Finding]:
    """Compile a small function, and check that compiled code can be kept for the next start."""
    del around
    try:
        numba = load_numba()
        compiled = numba.njit(cache=False)(_plus_one)(1)
        # Only finds the folder: nothing is written before a call.
        folder = Path(numba.njit(cache=True)(_plus_one)._cache.cache_path)  # noqa: SLF001 - numba has no other way
    except Exception as error:  # noqa: BLE001 - whatever stops the compiler would stop the service
        yield fail("kernels", f"nothing can be compiled: {error}; set NUMBA_CACHE_DIR to a folder that can be written")
        return
    if compiled != 2:
        yield fail("kernels", f"compiled code is wrong (1 + 1 was {compiled}): reinstall numba and llvmlite")
        return
    # In the __pycache__ beside each module, or in one folder a package of NUMBA_CACHE_DIR.
    root = Path(monitor.__file__).parent if folder.name == "__pycache__" else folder.parent
    kept = sum(1 for _ in root.rglob("*.nbc"))
    message = f"they compile; {kept:,} compiled ones are kept in {root}"
    parent = next(path for path in (folder, *folder.parents) if path.is_dir())
    if not os.access(parent, os.W_OK) and not kept:
        yield warn(
            "kernels", f"{message}, which cannot be written: each start takes half a minute; set NUMBA_CACHE_DIR"
        )
    elif not kept:
        yield ok("kernels", f"{message}: the first start compiles for half a minute")
    else:
        yield ok("kernels", message)


def _plus_one(number: int) -> int:
    return number + 1
