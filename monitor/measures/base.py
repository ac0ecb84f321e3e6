"""The kinds of measures. One file adds a measure: it declares a ``MEASURE`` of one of these kinds.

What is known of a measure decides how its 95% interval is found (:func:`monitor.inference.interval`):

- :class:`SemiNorm`: of the residuals. The interval is of the value for the law that the events come from.
- :class:`Limit`: no semi-norm, but more events bring the value closer to a limit. The interval is of that limit.
- :class:`MeanLoss`: the mean of a loss over the events. The interval is of the expected loss.
- :class:`Measure` itself: none of these. The interval is of the measure's mean over windows of this size.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Any, Concatenate, Final, Literal, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats
from monitor.errors import InputError
from monitor.scores import ClassTable, ScoreTable
from monitor.scores.arguments import numbers, require_same_index
from monitor.scores.class_table import positive_class

Unit = Literal["percent", "ratio", "nats", "sigma"]

LARGEST: Final[Mapping[Unit, float]] = MappingProxyType(
    {"percent": 100.0, "ratio": 1.0, "nats": math.inf, "sigma": math.inf}
)
"""The largest value of a measure by its unit, without a semi-norm's offset."""

_Options = ParamSpec("_Options")
_Value_co = TypeVar("_Value_co", covariant=True)


class OfEvents(Protocol[_Options, _Value_co]):
    """A function of a score table, or of predictions and outcomes."""

    __name__: str

    @overload
    def __call__(self, table: ScoreTable, /, *options: _Options.args, **named: _Options.kwargs) -> _Value_co: ...

    @overload
    def __call__(
        self, p: ArrayLike, y: ArrayLike, /, *options: _Options.args, **named: _Options.kwargs
    ) -> _Value_co: ...


def of_events(function: Callable[Concatenate[ScoreTable, _Options], _Value_co]) -> OfEvents[_Options, _Value_co]:
    """Let a function of a score table take predictions and outcomes, too: ``smce(table)`` or ``smce(p, y)``.

    Predictions are P(y = 1), shape (n,), or those of 0 and of 1, shape (n, 2), as ``predict_proba`` returns them;
    outcomes are 0 or 1, shape (n,).
    """
    name = function.__name__

    @wraps(function)
    def measure(table: Any, *options: Any, **named: Any) -> _Value_co:
        if isinstance(table, ScoreTable):
            return function(table, *options, **named)
        if not options:
            given = type(table).__name__
            raise InputError(
                f"{name} needs predictions and outcomes, {name}(p, y), or a score table, got {given} alone"
            )
        return function(_table_of(table, options[0]), *options[1:], **named)

    return cast("OfEvents[_Options, _Value_co]", measure)


def _table_of(p: ArrayLike, y: ArrayLike) -> ScoreTable:
    if np.ndim(p) == 2 and np.shape(p)[1] == 2:
        require_same_index(p=p, y=y)
        vectors = ClassTable.from_events(numbers("p", p), np.zeros(len(np.asarray(p))), names=("p", "y"))
        p, y = positive_class(vectors.prediction), np.asarray(y)
    return ScoreTable.from_events(p, y)


AppearsIn = Literal["windows", "reports", "request"]


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Measure:
    """One measure as reports, REST, Prometheus and the law tests use it.

    Attributes
    ----------
    name
        Its key in a report: ``tce``.
    title
        Its name for people: ``TCE``.
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
        False if the bound is an estimate, as for TCE, whose bins follow the data.
    draws
        (table, positives (draws, m)) -> ``value`` of each draw of outcomes, (draws,), up to rounding: of the table
        with ``positives[d, i]`` positives among the events of row i, all at the row's score. Only for speed: if left
        out, ``value`` is called for each draw.
    max_draws
        Number of resamples that is enough for a slow measure.
    drawn_rows
        Merge a table of more rows than the grid has cells to this many rows for resampling, for a measure for which
        the cells are too coarse.
    needs_whole_counts
        Whether the measure refuses weighted tables.
    appears_in
        ``windows``: in every report and every window. ``reports``: in reports of files and of data in memory, and in
        windows if the settings name it. ``request``: only where it is named, because it is slow or special.
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
    draws: Callable[[ScoreTable, Floats], Floats] | None = None
    max_draws: int = 999
    drawn_rows: int | None = None
    needs_whole_counts: bool = False
    appears_in: AppearsIn = "windows"
    rank: int = 100

    def __repr__(self) -> str:
        return f"<measure {self.name}>"

    def smallest(self, table: ScoreTable) -> float:  # noqa: ARG002 - an offset depends on the table
        """The smallest possible value for these predictions, whatever the outcomes."""
        return 0.0

    def largest(self, table: ScoreTable) -> float:
        """The largest possible value for these predictions, whatever the outcomes."""
        return LARGEST[self.unit] + self.smallest(table)

    def of_outcomes(self, table: ScoreTable, positives: Floats) -> Floats:
        """The measure of each draw of outcomes, all events of a row at its score: positives (draws, m) -> (draws,)."""
        if self.draws is not None:
            return self.draws(table, positives)
        return np.array([self.value(table.with_outcomes(row)) for row in positives])


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class SemiNorm(Measure):
    """A semi-norm N of the residuals, plus an offset that depends on the predictions alone.

    Attributes
    ----------
    norms
        (table, residual (draws, m)) -> N of each row of residuals, shape (draws,). It may use the table's predictions
        (score, counts, total), but not its outcomes.
    witness
        (table) -> the linear functional f, shape (m,), that attains N of the table's residuals r: f @ r = N(r), and
        f @ h <= N(h) for all h. It is N's subgradient at r; for smCE, the witness over n. It makes the interval of a
        clearly miscalibrated model shorter.
    offset
        (table) -> what the measure adds to N: the mean width of bins, for example.
    ends
        (table) -> lower and upper end of the 95% interval, if they are known without resampling.
    on_wide_cells
        Whether a table of cells is resampled on wide cells, because N hardly changes if the residuals of neighbouring
        cells move together.
    """

    norms: Callable[[ScoreTable, Floats], Floats]
    witness: Callable[[ScoreTable], Floats] | None = None
    offset: Callable[[ScoreTable], float] | None = None
    ends: Callable[[ScoreTable], tuple[float, float]] | None = None
    on_wide_cells: bool = False

    def smallest(self, table: ScoreTable) -> float:
        """The offset."""
        return 0.0 if self.offset is None else self.offset(table)

    def of_outcomes(self, table: ScoreTable, positives: Floats) -> Floats:
        """The measure of each draw of outcomes, all events of a row at its score: positives (draws, m) -> (draws,)."""
        return self.norms(table, positives - table.counts * table.score) + self.smallest(table)


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Limit(Measure):
    """A measure that is no semi-norm, but has a limit that its values approach with more events.

    Attributes
    ----------
    gradient
        (table) -> the measure's gradient with respect to the residuals, shape (m,).
    """

    gradient: Callable[[ScoreTable], Floats]


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class MeanLoss(Measure):
    """The mean of a loss over the events.

    Attributes
    ----------
    losses
        (table) -> the loss of a positive and of a negative event in each row, shape (2, m).
    """

    losses: Callable[[ScoreTable], Floats]
