"""What a measure's file declares. One file adds a measure: the folder is scanned."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from monitor.scores import ScoreTable

Norm = Callable[[NDArray[np.float64], NDArray[np.float64], float], float]
"""(score (m,), residual (m,), n) -> the measure, for those that are semi-norms of the residual measure."""


Norms = Callable[[NDArray[np.float64], NDArray[np.float64], float], NDArray[np.float64]]
"""(score (m,), residual (draws, m), n) -> the norm of each row of residuals, shape (draws,)."""

Draws = Callable[[ScoreTable, NDArray[np.float64]], NDArray[np.float64]]
"""(table, positives (draws, m)) -> the measure of each draw of outcomes for the table's predictions, shape (draws,)."""


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
    error_bound_is_certain
        Whether that holds always. Where the measure's own bins follow the data, as those of TCE do, the raw predictions
        may have others, and the number is an estimate, which the value keeps to nearly always.
    norm
        The measure as a function of the residuals, where it is a semi-norm of them: its interval follows from it.
    norms
        ``norm`` of many residuals at once, to the bit; resampling calls ``norm`` for one after another if left out.
    draws
        ``value`` of many drawn outcomes at once, to the bit: of row d it is that of the table whose row i has
        ``positives[d, i]`` positives among as many events as before, all of them at the row's score. Resampling calls
        ``value`` for one after another if left out. Not asked where there is a ``norm``.
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
    error_bound_is_certain: bool = True
    norm: Norm | None = None
    norms: Norms | None = None
    draws: Draws | None = None
    needs_whole_counts: bool = False
    rank: int = 100
