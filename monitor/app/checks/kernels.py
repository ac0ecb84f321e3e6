"""Check that compiled loops can be compiled, and where they are kept."""

import os
from collections.abc import Iterator
from pathlib import Path

import numba

from monitor.app.checks.base import Finding, Surroundings, fail, ok, warn


def check_kernels(around: Surroundings) -> Iterator[Finding]:
    """Compile a small function, and check that compiled code can be kept for the next start."""
    del around
    try:
        from monitor.stream import table_loops  # noqa: PLC0415 - its import may fail, which is what is checked

        compiled = numba.njit(cache=False)(_plus_one)(1)
    except Exception as error:  # noqa: BLE001 - whatever stops the compiler would stop the service
        yield fail("kernels", f"nothing can be compiled: {error}; set NUMBA_CACHE_DIR to a folder that can be written")
        return
    if compiled != 2:
        yield fail("kernels", f"compiled code is wrong (1 + 1 was {compiled}): reinstall numba and llvmlite")
        return
    folder = _cache_of(table_loops)
    if folder is None:
        yield warn("kernels", "they compile, and are not kept: each start takes half a minute")
        return
    # Each module's are beside it, in __pycache__, or in one folder a module of NUMBA_CACHE_DIR.
    root = folder.parents[1] if folder.name == "__pycache__" else folder.parent
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


def _cache_of(module: object) -> Path | None:
    for value in vars(module).values():
        cache = getattr(value, "_cache", None)
        path = getattr(cache, "cache_path", None)
        if path is not None:
            return Path(path)
    return None


def _plus_one(number: int) -> int:
    return number + 1
