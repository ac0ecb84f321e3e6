"""What a measure's file declares. One file adds a measure: the folder is scanned."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from monitor.scores import ScoreTable

Norms = Callable[[ScoreTable, NDArray[np.float64]], NDArray[np.float64]]
"""(table, residual (draws, m)) -> a semi-norm of each row of residuals, shape (draws,). Of the table it may use the
predictions (score, counts, total), and never the outcomes."""

Draws = Callable[[ScoreTable, NDArray[np.float64]], NDArray[np.float64]]
"""(table, positives (draws, m)) -> the measure of each draw of outcomes for the table's predictions, shape (draws,)."""


Unit = Literal["percent", "ratio", "nats", "sigma"]
StandsIn = Literal["windows", "reports", "request"]


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
        ``percent`` (0 to 100), ``ratio`` (0 to 1), ``nats`` (0 and more, a logarithm of likelihoods) or ``sigma``
        (a number of standard deviations).
    value
        The measure of a table, with its default options. Never called with an empty table.
    error_bound
        (table, value) -> how far ``value`` can lie from that of the raw predictions that the table sums up; 0 for an
        exact table.
    error_bound_is_certain
        Whether that holds always. Where the measure's own bins follow the data, as those of TCE do, the raw predictions
        may have others, and the number is an estimate, which the value keeps to nearly always.
    norms
        Where the measure, less its ``offset``, is a semi-norm of the residuals: that of many residuals at once, to the
        bit. Its interval follows from it.
    offset
        What the measure adds to ``norms``, from the predictions alone: the mean width of bins, say. Nothing if left
        out.
    draws
        ``value`` of many drawn outcomes at once, to the bit: of row d it is that of the table whose row i has
        ``positives[d, i]`` positives among as many events as before, all of them at the row's score. Resampling calls
        ``value`` for one after another if left out. Not asked where there are ``norms``.
    needs_whole_counts
        Whether the table's counts must be whole numbers.
    stands_in
        ``windows``: in every report, and measured in every window. ``reports``: in reports of files and of data that is
        handed over, and in windows where the settings name it. ``request``: only where somebody names it, because it is
        slow or for the curious.
    rank
        Place in a report, ascending.
    """

    name: str
    title: str
    help: str
    unit: Unit
    value: Callable[[ScoreTable], float]
    error_bound: Callable[[ScoreTable, float], float]
    error_bound_is_certain: bool = True
    norms: Norms | None = None
    offset: Callable[[ScoreTable], float] | None = None
    draws: Draws | None = None
    needs_whole_counts: bool = False
    stands_in: StandsIn = "windows"
    rank: int = 100
