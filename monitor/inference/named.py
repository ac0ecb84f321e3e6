"""What resampling needs of a measure."""

import reprlib
from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.errors import InputError
from monitor.scores import ScoreTable

OfMany = Callable[[ScoreTable, NDArray[np.float64]], NDArray[np.float64]]


class NamedMeasure(Protocol):
    """A measure, as far as it is drawn from. :class:`monitor.measures.Measure` says what each attribute is."""

    @property
    def name(self) -> str:
        """Its key in a report."""
        ...

    @property
    def value(self) -> Callable[[ScoreTable], float]:
        """The measure of a table."""
        ...

    @property
    def largest(self) -> float:
        """The largest value that it can have, but for its offset, which comes on top of it."""
        ...

    @property
    def norms(self) -> OfMany | None:
        """(table, residual (draws, m)) -> (draws,), if the measure less its offset is a semi-norm of the residuals."""
        ...

    @property
    def witness(self) -> Callable[[ScoreTable], NDArray[np.float64]] | None:
        """The functional, (m,), that attains the semi-norm of the residuals; or the gradient of what is no norm."""
        ...

    @property
    def offset(self) -> Callable[[ScoreTable], float] | None:
        """What the measure adds to its semi-norm, from the predictions alone."""
        ...

    @property
    def draws(self) -> OfMany | None:
        """``value`` of many drawn outcomes, positives (draws, m), at once, if there is a faster way than one by one."""
        ...

    @property
    def losses(self) -> Callable[[ScoreTable], NDArray[np.float64]] | None:
        """Loss of a positive and of a negative of each row, (2, m), if the measure is their mean."""
        ...

    @property
    def ends(self) -> Callable[[ScoreTable], tuple[float, float]] | None:
        """The ends of its interval, if they are known without resampling."""
        ...

    @property
    def max_draws(self) -> int:
        """Resamples that are enough."""
        ...

    @property
    def drawn_rows(self) -> int | None:
        """Rows to draw on where a table has more; the cells of the grid if None."""
        ...


def listed_measures(measures: Iterable[NamedMeasure]) -> list[NamedMeasure]:
    """The measures as a list; raises InputError if they are names, or a measure alone."""
    found = list(measures) if isinstance(measures, Iterable) else None
    if found is None or not all(hasattr(each, "max_draws") for each in found):
        given = reprlib.repr(measures)
        raise InputError(f'measures must be a list such as [MEASURES["smce"]], of monitor.measures, got {given}')
    return found


def largest_value(measure: NamedMeasure, table: ScoreTable) -> float:
    """The largest value that the measure can have of these predictions, its offset with it; the smallest is 0."""
    return measure.largest + (0.0 if measure.offset is None else measure.offset(table))
