"""Check the embedded log, if it is the source."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from monitor.app.checks.base import Finding, Surroundings, fail, ok, size_text
from monitor.app.log_bounds import log_bounds
from monitor.app.parts import log_directory
from monitor.durations import format_duration


def check_embedded_log(around: Surroundings) -> Iterator[Finding]:
    """Check that it exists, can be written, and whether a service reads it."""
    source = around.settings.source
    if source.kind != "embedded":
        return
    directory = log_directory(around.settings)
    if not directory.exists():
        parent = next(folder for folder in directory.absolute().parents if folder.exists())
        if not os.access(parent, os.W_OK):
            yield fail("log", f"{directory} is not there and cannot be made in {parent}: no permission to write")
            return
        yield ok("log", f"{directory.absolute()} is not there yet; the first start makes it")
        return
    if not os.access(directory, os.W_OK | os.X_OK):
        yield fail("log", f"{directory} cannot be written: give this user the permission, or set another directory")
        return
    if not (directory / "log.json").is_file():
        yield ok("log", f"{directory} holds no log yet; the first start makes it")
        return
    bounds = log_bounds(around.settings, around.clock)
    records = sum(bound.end - bound.begin for bound in bounds.values())
    size = sum(path.stat().st_size for path in directory.rglob("*.log"))
    reader = "a service reads it" if _is_read(directory) else "no service reads it now"
    yield ok("log", f"{directory}: {records:,} records, {size_text(size)}; {reader}; it keeps {_kept(around)}")


def _kept(around: Surroundings) -> str:
    embedded = around.settings.source.embedded
    bounds = []
    if embedded.retention is not None:
        bounds.append(format_duration(embedded.retention))
    if embedded.retention_bytes is not None:
        bounds.append(f"{size_text(embedded.retention_bytes)} a partition")
    return " and at most ".join(bounds) or "everything, for ever (source.embedded.retention sets how long)"


def _is_read(directory: Path) -> bool:
    lock = directory / "reader.lock"
    if not lock.is_file():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
