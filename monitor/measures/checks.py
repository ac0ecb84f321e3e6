"""Checks of the arguments of measures."""

import math
import operator

from monitor.errors import InputError, NotEnoughData
from monitor.scores import ScoreTable
from monitor.scores.table import require_table


def require_events(table: ScoreTable, measure: str, minimum: int = 1) -> None:
    """Raise NotEnoughData unless the table holds at least ``minimum`` events (or, if weighted, any at all).

    And InputError if it is no table.
    """
    require_table(table, measure)
    if table.rows == 0 or (not table.weighted and table.total < minimum):
        raise NotEnoughData(f"{measure} needs at least {minimum} event{'s'[: minimum > 1]}, got {table.total:g}")


def require_choice(key: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise InputError unless the option is one of those allowed."""
    if value not in allowed:
        raise InputError(f"{key} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def require_positive(key: str, value: float) -> None:
    """Raise InputError unless the option is a finite number above 0."""
    if not (math.isfinite(value) and value > 0.0):
        raise InputError(f"{key} must be a finite number above 0, got {value!r}")


def require_whole(key: str, value: int, minimum: int) -> int:
    """The option as an int; raises InputError unless it is a whole number of at least ``minimum``."""
    try:
        whole = operator.index(value)
    except TypeError:
        whole = minimum - 1
    if whole < minimum:
        raise InputError(f"{key} must be a whole number of at least {minimum}, got {value!r}")
    return whole
