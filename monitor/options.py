"""Options of reports, refits and simulations: their names in messages, and what rooms of all floors know of values."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Final

TOLERANCE: Final = 0.05
"""Default limit up to which errors of the logits are too small to matter, however certain: they change odds by 5%."""

MIN_DRAWS: Final = 19
"""Draws below which no p-value can be .05 or below."""

_in_python: Final = ContextVar("_in_python", default=False)


class Option(Enum):
    """An option: the member's name is that of the command line, its value the argument in Python.

    In a message, ``f"name it with {Option.SEGMENT}"``, it is spelled as the caller does: ``--segment`` on the command
    line, ``segments`` within :func:`in_python`.
    """

    BUDGET = "budget"
    BY = "by"
    COMPARE = "compare"
    COMPARE_PREDICTION = "compare_prediction"
    DAYS = "days"
    DRAWS = "draws"
    FAIL_IF = "fail_if"
    FEATURE = "features"
    FIND_SEGMENTS = "find_segments"
    HELD_OUT = "held_out"
    HORIZON = "horizon"
    ID = "id"
    LOGITS = "logits"
    MEASURE = "measures"
    MEMORY = "memory"
    METHOD = "methods"
    MODELS = "models"
    OPTION = "options"
    OUTCOME = "outcome"
    PER_HOUR = "per_hour"
    POSITIVE = "positive"
    PREDICTION = "prediction"
    PREVALENCE = "prevalence"
    QUERY = "query"
    RUNS = "runs"
    SCENARIO = "scenario"
    SEGMENT = "segments"
    SINCE_CHANGE = "since_change"
    SKIP_BAD_ROWS = "skip_bad_rows"
    SPREAD = "spread"
    TIME = "time"
    TOLERANCE = "tolerance"
    WEIGHT = "weight"
    WHERE = "where"

    def __str__(self) -> str:
        return self.value if _in_python.get() else f"--{self.name.lower().replace('_', '-')}"

    def given(self, values: Sequence[str]) -> str:
        """The option with some values, as the caller writes it."""
        return (
            f"{self}={list(values)}"
            if _in_python.get()
            else " ".join(f"{self} {shlex.quote(value)}" for value in values)
        )


@contextmanager
def in_python() -> Iterator[None]:
    """Spell options as arguments in Python; also a decorator."""
    before = _in_python.set(True)
    try:
        yield
    finally:
        _in_python.reset(before)
