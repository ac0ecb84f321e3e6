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
    line, ``segments`` within :func:`in_python`; and ``read(..., Columns(outcome=...))`` where it is said there.
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
    OPTION = "options of methods"
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
        return self._python("...") if _in_python.get() else f"--{self.name.lower().replace('_', '-')}"

    def given(self, values: Sequence[str]) -> str:
        """The option with some values, as the caller writes it."""
        if _in_python.get():
            return self._python(f"{list(values)}")
        return " ".join(f"{self} {shlex.quote(value)}" for value in values)

    def _python(self, value: str) -> str:
        if self in _OF_COLUMNS:
            return f"read(..., Columns({self.value}={value}))"
        if self in _OF_READ:
            return f"read(..., {self.value}={value})"
        return self.value if value == "..." else f"{self.value}={value}"


_OF_COLUMNS: Final = (
    *(Option.PREDICTION, Option.OUTCOME, Option.TIME, Option.ID),
    *(Option.POSITIVE, Option.LOGITS, Option.SKIP_BAD_ROWS),
)
_OF_READ: Final = (Option.WHERE, Option.QUERY, Option.MEMORY)
"""Options that are arguments of Columns and of :func:`monitor.read` in Python, not of the function that is called."""


@contextmanager
def in_python() -> Iterator[None]:
    """Spell options as arguments in Python; also a decorator."""
    before = _in_python.set(True)
    try:
        yield
    finally:
        _in_python.reset(before)
