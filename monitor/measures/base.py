"""What a measure's file declares. One file adds a measure: the folder is scanned."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from monitor.scores import ScoreTable

Norm = Callable[[NDArray[np.float64], NDArray[np.float64], float], float]
"""(score (m,), residual (m,), n) -> the measure, for those that are semi-norms of the residual measure."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure as the report, REST, Prometheus and the law tests know it.

    Attributes
    ----------
    name
        Its key in a report: ``tce``.
    title
        What a person calls it: ``TCE``.
    help
        One sentence: what it says, in plain words.
    unit
        ``percent`` (0 to 100) or ``ratio`` (0 to 1).
    value
        The measure of a table, with its default options. Never called with an empty table.
    error_bound
        (table, value) -> how far ``value`` can lie from that of the raw predictions that the table sums up; 0 for an
        exact table.
    norm
        The measure as a function of the residuals, where it is a semi-norm of them: its interval follows from it.
    needs_whole_counts
        Whether the table's counts must be whole numbers.
    rank
        Place in a report, ascending.
    """

    name: str
    title: str
    help: str
    unit: Literal["percent", "ratio"]
    value: Callable[[ScoreTable], float]
    error_bound: Callable[[ScoreTable, float], float]
    norm: Norm | None = None
    needs_whole_counts: bool = False
    rank: int = 100
