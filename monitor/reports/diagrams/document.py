"""All diagrams of a score table as one JSON document of some 10 kB, in columns, with the digits that can be seen."""

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats, Ints
from monitor.inference import Cox, fit_cox
from monitor.measures import tce_bins
from monitor.reports.diagrams.axis import ProbabilityAxis
from monitor.reports.diagrams.reliability import BINS, COLUMNS, BinSums, Curve, HistogramColumns, Witness, on_cells
from monitor.reports.evaluation.places import places
from monitor.scores import ScoreTable

MAX_TEST_BINS: Final = 48
"""Neighbouring bins of the test are added up to at most so many: a large window has hundreds."""
_DIGITS: Final = 4

_T = TypeVar("_T")
Document = dict[str, Any]


def diagrams_document(table: ScoreTable) -> Document:
    """What the diagrams of a table show, as JSON has it: see ``DiagramsBody`` of the REST API for each key.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    cells = on_cells(table)
    curve, witness = Curve.of(cells), Witness.of(cells)
    axis = ProbabilityAxis.of(cells, [cells.prevalence])
    axes = {"probability": ProbabilityAxis(), "logit": ProbabilityAxis.in_log_odds(cells, [cells.prevalence])}
    return {
        "axis": "logit" if axis.logit else "probability",
        "curve": {
            "prediction": probabilities(curve.prediction),
            "n": _counts(curve.counts),
            "rate": probabilities(curve.rate),
            "chance_lower": probabilities(curve.lower),
            "chance_upper": probabilities(curve.upper),
            "witness": short(witness.value),
        },
        **{name: _on_axis(cells, of_name) for name, of_name in axes.items()},
        "places": [
            {
                "from": probability(place.first),
                "to": probability(place.last),
                "prediction": probability(place.predicted),
                "rate": probability(place.happened),
                "share": number(place.share),
            }
            for place in places(cells)
        ],
        "test": None if table.weighted else _test(table),
        "fit": _fit(fit_cox(cells)),
    }


def _on_axis(cells: ScoreTable, axis: ProbabilityAxis) -> Document:
    bins = BinSums.of(cells, axis.edges(BINS)).filled()
    interval, chance = bins.interval(), bins.chance()
    columns = HistogramColumns.of(cells, axis, COLUMNS)
    first, last = axis.limits
    return {
        "from": number(first),
        "to": number(last),
        "bins": {
            "from": probabilities(bins.lower),
            "to": probabilities(bins.upper),
            "n": _counts(bins.counts),
            "positives": _counts(bins.positives),
            "prediction": probabilities(bins.predicted),
            "rate": probabilities(bins.rate),
            "lower": probabilities(interval.lower),
            "upper": probabilities(interval.upper),
            "chance_lower": probabilities(chance.lower),
            "chance_upper": probabilities(chance.upper),
        },
        "columns": {
            "positives": _counts(columns.positives),
            "negatives": _counts(columns.negatives),
            "surplus": short(columns.surplus),
            "chance": short(columns.chance),
        },
    }


def _test(table: ScoreTable) -> Document:
    bins = tce_bins(table)
    first = np.unique(np.arange(MAX_TEST_BINS) * bins.sizes.size // MAX_TEST_BINS)

    def sums(column: Ints) -> list[int]:
        return [int(total) for total in np.add.reduceat(column, first)]

    return {
        "alpha": bins.alpha,
        "from": probabilities(bins.lower_edge[first]),
        "to": probabilities(bins.upper_edge[np.append(first[1:], bins.sizes.size) - 1]),
        "n": sums(bins.sizes),
        "positives": sums(bins.positives),
        "too_low": sums(bins.rejected_below),
        "too_high": sums(bins.rejected - bins.rejected_below),
    }


_FIT: Final = ("offset", "offset_error", "slope", "slope_lower", "slope_upper", "intercept")


def _fit(cox: Cox) -> Document:
    return {name: number(getattr(cox, name)) for name in _FIT}


def number(value: float | None) -> float | None:
    """A number with four significant digits; None where it is none or infinite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{_DIGITS}g}")


def probability(p: float) -> float:
    """A probability whose distance from the nearer end of [0, 1] has four significant digits: odds keep theirs."""
    distance = min(p, 1.0 - p)
    return round(p, _DIGITS - 1 - math.floor(math.log10(distance))) if distance > 0.0 else p


def short(values: ArrayLike) -> list[float | None]:
    """Numbers with four significant digits."""
    return _each(number, values)


def probabilities(values: ArrayLike) -> list[float]:
    """Probabilities as :func:`probability` rounds them."""
    return _each(probability, values)


def _each(rounded: Callable[[float], _T], values: ArrayLike) -> list[_T]:
    return [rounded(value) for value in np.asarray(values, np.float64).tolist()]


def _counts(values: Floats) -> list[int] | list[float | None]:
    """Numbers of events, or sums of weights."""
    whole = values.astype(np.int64)
    return whole.tolist() if (whole == values).all() else short(values)
