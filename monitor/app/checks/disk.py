"""Check the free space of the disks on which the service writes."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from monitor.app.checks.base import Finding, Surroundings, fail, ok, size_text, warn
from monitor.app.parts import log_directory
from monitor.store.address import sqlite_path

_MIN_FREE_FILES = 1000


def check_disks(around: Surroundings) -> Iterator[Finding]:
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
        yield _check_space(around, what, _existing_folder(path))


def _existing_folder(path: Path) -> Path:
    """The folder, or its nearest parent that exists."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.is_dir())


def _check_space(around: Surroundings, what: str, path: Path) -> Finding:
    thresholds = around.thresholds
    usage = shutil.disk_usage(path)
    inodes = os.statvfs(path)
    message = f"{path} ({what}): {size_text(usage.free)} of {size_text(usage.total)} free"
    if usage.free < thresholds.fail_free_bytes:
        return fail(
            "disk",
            f"{message}, less than {size_text(thresholds.fail_free_bytes)}: checkpoints and events will soon be"
            " refused; make room, or a larger volume",
        )
    # Some file systems count no inodes, and say 0 of 0.
    if inodes.f_files and inodes.f_favail < _MIN_FREE_FILES:
        return warn("disk", f"{message}, but room for {inodes.f_favail:,} more files only: remove some")
    if usage.free < thresholds.warn_free_bytes:
        return warn(
            "disk",
            f"{message}, less than {size_text(thresholds.warn_free_bytes)}: make room, keep less"
            " (source.embedded.retention, dead_letters.keep), or make the volume larger",
        )
    return ok("disk", message)
