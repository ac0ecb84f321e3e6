"""Check the machine: free space on its disks, and whether numerical kernels can be compiled."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from monitor.app.checks.base import CheckResult, Surroundings, existing_folder, fail, ok, warn
from monitor.app.parts import log_directory
from monitor.compiled.folders import folders
from monitor.loops import load_numba
from monitor.reports.formatting import size_text
from monitor.store.address import sqlite_path

_MIN_FREE_FILES: Final = 1000
_WARN_FREE_BYTES: Final = 2 << 30
_FAIL_FREE_BYTES: Final = 200 << 20


def check_disks(around: Surroundings) -> Iterator[CheckResult]:
    """Check the free space of the log, the store and temporary files."""
    settings = around.settings
    places: dict[str, Path] = {}
    if settings.source.kind == "embedded":
        places["log"] = log_directory(settings)
    store = sqlite_path(settings.store.url)
    if store is not None:
        places["store"] = store.parent
    places["temporary files"] = Path(tempfile.gettempdir())
    for what, path in places.items():
        yield _check_space(what, existing_folder(path))


def _check_space(what: str, path: Path) -> CheckResult:
    usage = shutil.disk_usage(path)
    inodes = os.statvfs(path)
    message = f"{path} ({what}): {size_text(usage.free)} of {size_text(usage.total)} free"
    if usage.free < _FAIL_FREE_BYTES:
        return fail(
            "disk",
            f"{message}, less than {size_text(_FAIL_FREE_BYTES)}: checkpoints and events will soon be"
            " refused; make room, or a larger volume",
        )
    # Some file systems count no inodes, and say 0 of 0.
    if inodes.f_files and inodes.f_favail < _MIN_FREE_FILES:
        return warn("disk", f"{message}, but room for {inodes.f_favail:,} more files only: remove some")
    if usage.free < _WARN_FREE_BYTES:
        return warn(
            "disk",
            f"{message}, less than {size_text(_WARN_FREE_BYTES)}: make room, keep less"
            " (source.embedded.retention, dead_letters.keep), or make the volume larger",
        )
    return ok("disk", message)


def check_kernels(around: Surroundings) -> Iterator[CheckResult]:
    """Compile a small function, and check that compiled code can be kept for the next start."""
    del around
    try:
        numba = load_numba()
        compiled = numba.njit(cache=False)(_plus_one)(1)
    except Exception as error:  # noqa: BLE001 - anything that stops the compiler stops the service
        yield fail("kernels", f"nothing can be compiled: {error}; set NUMBA_CACHE_DIR to a folder that can be written")
        return
    if compiled != 2:
        yield fail("kernels", f"compiled code is wrong (1 + 1 was {compiled}): reinstall numba and llvmlite")
        return
    found = folders()
    kept = {folder: sum(1 for _ in folder.glob("*.nb[cn]")) for folder in found.read}
    fullest = max(kept, key=lambda folder: (kept[folder], folder == found.write))
    message = f"they compile; {kept[fullest]:,} compiled ones are kept in {fullest}"
    if found.write is None and not kept[fullest]:
        yield warn(
            "kernels", f"{message}, which cannot be written: each start takes half a minute; set NUMBA_CACHE_DIR"
        )
    elif not kept[fullest]:
        yield ok("kernels", f"{message}: the first start compiles for half a minute")
    else:
        yield ok("kernels", message)


def _plus_one(number: int) -> int:
    return number + 1
