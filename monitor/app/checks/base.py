"""Checks: each reports findings, one line each, and changes nothing."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from monitor.app.settings import Settings
from monitor.clock import Clock, SystemClock

MAX_SKEW_SECONDS: Final = 1.0
"""Largest difference between two clocks without a warning."""


class CheckStatus(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARN = "warn"
    """The service runs, but this may cause trouble."""
    FAIL = "fail"
    """The service does not start, or stops, or loses something."""


class CheckResult(NamedTuple):
    """One line."""

    check: str
    """Name of the check."""
    verdict: CheckStatus
    detail: str
    """The finding, and what to do if it is not ok. Never a secret."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Input of the checks.

    Attributes
    ----------
    settings
        All settings, valid.
    file
        The file they were read from, or None.
    environ
        The environment variables.
    clock
        This machine's.
    """

    settings: Settings
    file: Path | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    clock: Clock = field(default_factory=SystemClock)


Check = Callable[[Surroundings], Iterator[CheckResult]]
"""A MonitorError that a check raises counts as a failed finding with the error's message."""


def ok(check: str, detail: str) -> CheckResult:
    """A finding without a problem."""
    return CheckResult(check, CheckStatus.OK, detail)


def warn(check: str, detail: str) -> CheckResult:
    """A finding that may cause trouble."""
    return CheckResult(check, CheckStatus.WARN, detail)


def fail(check: str, detail: str) -> CheckResult:
    """A finding that stops the service, or loses data."""
    return CheckResult(check, CheckStatus.FAIL, detail)


def existing_folder(path: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.is_dir())
