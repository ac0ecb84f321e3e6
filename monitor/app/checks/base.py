"""What every check is: it looks, says what it found in one line each, and changes nothing."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from monitor.app.settings import Settings
from monitor.clock import Clock, SystemClock


class Verdict(StrEnum):
    """How something stands."""

    OK = "ok"
    WARN = "warn"
    """The service runs, and somebody should look at this."""
    FAIL = "fail"
    """The service does not start, or stops, or loses something."""


class Finding(NamedTuple):
    """One line."""

    check: str
    """What was looked at, in a word or two."""
    verdict: Verdict
    detail: str
    """What was found, and where it is not well, what to do. Never a secret."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When something that is a matter of degree is not well.

    Attributes
    ----------
    warn_free_bytes, fail_free_bytes
        Free space of a disk.
    skew_seconds
        Difference between this machine's clock and another's, above which there is a warning.
    """

    warn_free_bytes: int = 2 << 30
    fail_free_bytes: int = 200 << 20
    skew_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What checks look at.

    Attributes
    ----------
    settings
        All settings, which are sound.
    file
        Where they were read from; None: there is none.
    environ
        The environment variables.
    clock
        This machine's.
    thresholds
        When something is not well.
    """

    settings: Settings
    file: Path | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    clock: Clock = field(default_factory=SystemClock)
    thresholds: Thresholds = field(default_factory=Thresholds)


class Check(Protocol):
    """A check. What it raises of the service's own errors counts as a failure, in the error's words."""

    def __call__(self, around: Surroundings) -> Iterator[Finding]:
        """Look."""
        ...


def ok(check: str, detail: str) -> Finding:
    """All is well."""
    return Finding(check, Verdict.OK, detail)


def warn(check: str, detail: str) -> Finding:
    """Somebody should look at this."""
    return Finding(check, Verdict.WARN, detail)


def fail(check: str, detail: str) -> Finding:
    """It has to be mended."""
    return Finding(check, Verdict.FAIL, detail)


def size_text(size: float) -> str:
    """A size in bytes, to three digits."""
    units = ("B", "KiB", "MiB", "GiB")
    for unit in units:
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"
