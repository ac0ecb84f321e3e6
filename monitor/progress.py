"""Callbacks by which long work reports its progress."""

from collections.abc import Callable

Progress = Callable[[float], None]
"""Called with the share of the work that is done, in (0, 1]."""

StageProgress = Callable[[str, float], None]
"""Called with the stage that runs, and the share of it that is done."""


def no_progress(*_: object) -> None:
    """Report nothing."""
