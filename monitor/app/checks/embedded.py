"""Check the embedded log, if it is the source."""

import os
from collections.abc import Iterator

from monitor.app.checks.base import CheckResult, Surroundings, existing_folder, fail, ok
from monitor.app.log_bounds import LogBounds, is_log_read
from monitor.app.parts import log_directory
from monitor.durations import format_duration
from monitor.reports.formatting import size_text


def check_embedded_log(around: Surroundings) -> Iterator[CheckResult]:
    """Check that the log can be written, and whether a service reads it."""
    source = around.settings.source
    if source.kind != "embedded":
        return
    directory = log_directory(around.settings)
    if not directory.exists():
        parent = existing_folder(directory.parent)
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
    bounds = LogBounds(around.settings, around.clock).read()
    records = sum(bound.end - bound.earliest for bound in bounds.values())
    size = sum(path.stat().st_size for path in directory.rglob("*.log"))
    reader = "a service reads it" if is_log_read(directory) else "no service reads it now"
    yield ok("log", f"{directory}: {records:,} records, {size_text(size)}; {reader}; it keeps {_kept(around)}")


def _kept(around: Surroundings) -> str:
    embedded = around.settings.source.embedded
    limits = []
    if embedded.retention is not None:
        limits.append(format_duration(embedded.retention))
    if embedded.retention_bytes is not None:
        limits.append(f"{size_text(embedded.retention_bytes)} a partition")
    return " and at most ".join(limits) or "everything, for ever (source.embedded.retention sets how long)"
