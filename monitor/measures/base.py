"""What a measure's file declares. One file adds a measure: the folder is scanned."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from monitor.scores import ScoreTable

Norms = Callable[[ScoreTable, NDArray[np.float64]], NDArray[np.float64]]
"""(table, residual (draws, m)) -> a semi-norm of each row of residuals, shape (draws,). Of the table it may use the
predictions (score, counts, total), and never the outcomes."""

Witness = Callable[[ScoreTable], NDArray[np.float64]]
"""(table) -> the linear functional f, shape (m,), that attains the semi-norm N of the table's residuals r:
f @ r = N(r), and f @ h <= N(h) for all h. It is N's subgradient at r; of smCE, the witness over n. Of a measure that is
no semi-norm, its gradient with respect to the residuals."""

Draws = Callable[[ScoreTable, NDArray[np.float64]], NDArray[np.float64]]
"""(table, positives (draws, m)) -> the measure of each draw of outcomes for the table's predictions, shape (draws,)."""

Losses = Callable[[ScoreTable], NDArray[np.float64]]
"""(table) -> the loss of a positive and that of a negative event of each row, shape (2, m)."""


Unit = Literal["percent", "ratio", "nats", "sigma"]

LARGEST: Final[Mapping[Unit, float]] = MappingProxyType(
    {"percent": 100.0, "ratio": 1.0, "nats": math.inf, "sigma": math.inf}
)
"""The largest value that a measure of a unit can have, but for its offset; the smallest is 0."""

StandsIn = Literal["windows", "reports", "request"]


@dataclass(frozen=True, slots=True, repr=False)
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
        bit. Its interval follows from it. (A measure with none of ``norms``, ``witness``, ``losses`` and ``ends`` has
        an interval of its mean in windows of this size.)
    witness
        Of a measure with ``norms``: the functional that attains it. The interval of a model that is clearly off is
        shorter where it is known. Of a measure without: its gradient, where it has a limit that the values of ever more
        events come to, of which its interval then is.
    offset
        What the measure adds to ``norms``, from the predictions alone: the mean width of bins, say. Nothing if left
        out.
    draws
        ``value`` of many drawn outcomes at once, to the bit: of row d it is that of the table whose row i has
        ``positives[d, i]`` positives among as many events as before, all of them at the row's score. Resampling calls
        ``value`` for one after another if left out. Not asked where there are ``norms``.
    losses
        Where the measure is the mean of a loss over the events: the loss. Its interval follows from it.
    ends
        (table) -> lower and upper end of its 95% interval, where they are known without resampling.
    max_draws
        Resamples that are enough where each is slow; fewer are drawn where fewer are asked for.
    drawn_rows
        Rows on which resampling draws where a table has more, if the cells of the grid are too coarse for the measure.
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
    witness: Witness | None = None
    offset: Callable[[ScoreTable], float] | None = None
    draws: Draws | None = None
    losses: Losses | None = None
    ends: Callable[[ScoreTable], tuple[float, float]] | None = None
    max_draws: int = 999
    drawn_rows: int | None = None
    needs_whole_counts: bool = False
    stands_in: StandsIn = "windows"
    rank: int = 100

    def __repr__(self) -> str:
        return f"<measure {self.name}>"

    @property
    def largest(self) -> float:
        """The largest value there can be, but for the offset, which comes on top of it."""
        return LARGEST[self.unit]
