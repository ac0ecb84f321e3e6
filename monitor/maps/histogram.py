"""Histogram binning: the frequency of each bin of predictions."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from monitor.arrays import Floats
from monitor.errors import CorruptMap
from monitor.maps.base import BinaryMap, Method, MethodOption
from monitor.maps.parts import column
from monitor.measures.binned_errors import first_rows
from monitor.scores import ScoreTable
from monitor.scores.labelled import LabelledEvents
from monitor.scores.table import effective_number

MIN_EVENTS: Final = 20


@dataclass(frozen=True, eq=False)
class Histogram(BinaryMap):
    """The frequencies of bins of predictions.

    Attributes
    ----------
    edges
        float64, shape (B - 1,), strictly ascending, in (0, 1): the inner edges. Bins are closed on the left and open on
        the right; p = 1 falls in the last.
    value
        float64, shape (B,), in [0, 1]: the recalibrated prediction of each bin.
    weight
        float64, shape (B,): events in each bin at the fit. In empty bins predictions stay unchanged.
    """

    edges: Annotated[Floats, partial(column, low=0.0, high=1.0, rising=True)]
    value: Annotated[Floats, partial(column, low=0.0, high=1.0, least=1)]
    weight: Annotated[Floats, partial(column, low=0.0, least=1)]
    method: ClassVar[str] = "histogram"

    def recalibrate(self, prediction: Floats) -> Floats:
        """Return the value of each prediction's bin; the prediction itself where the bin was empty."""
        place = np.searchsorted(self.edges, prediction, side="right")
        return np.asarray(np.where(self.weight[place] > 0.0, self.value[place], prediction))

    def check(self) -> None:
        """Raise CorruptMap if sizes differ or all bins are empty."""
        if not self.edges.size + 1 == self.value.size == self.weight.size:
            raise CorruptMap(
                f"value and weight must be one longer than edges, "
                f"got {self.value.size}, {self.weight.size} and {self.edges.size}"
            )
        if not (self.weight > 0.0).any():
            raise CorruptMap("no bin has events")

    def describe(self) -> str:
        """Describe the map."""
        held = self.value[self.weight > 0.0]
        text = f"takes predictions to the frequency of their bin, {self.value.size} bins: {held.min():.4g} to "
        text += f"{held.max():.4g}"
        empty = self.value.size - held.size
        return f"{text}; leaves them as they are in {empty} without events" if empty else text


def _fit(events: LabelledEvents, options: Mapping[str, Any]) -> Histogram:
    events.require_outcomes(MIN_EVENTS)
    bins = options["bins"]
    edges = _edges(events, options["kind"], bins)
    place = np.searchsorted(edges, events.prediction, side="right")
    weight, hits, expected, squares = (
        np.bincount(place, column, edges.size + 1)
        for column in (
            events.weight,
            events.weight * events.outcome,
            events.weight * events.prediction,
            events.squares,
        )
    )
    # The bin's effective number of events, plus events that agree with the predictions.
    effective = effective_number(weight, squares)
    added = options["shrinkage"]
    frequency, mean = (
        np.divide(column, weight, out=np.zeros_like(weight), where=weight > 0.0) for column in (hits, expected)
    )
    value = np.divide(
        effective * frequency + added * mean, effective + added, out=np.zeros_like(weight), where=weight > 0.0
    )
    return Histogram(edges, np.clip(value, 0.0, 1.0), np.asarray(weight, np.float64))


def _edges(events: LabelledEvents, kind: str, bins: int) -> Floats:
    """Return the inner edges, strictly ascending."""
    if kind == "equal_width":
        return np.arange(1, bins) / bins
    table = ScoreTable.from_events(events.prediction, events.outcome, events.weight)
    inner = np.unique(first_rows(table, "quantile", bins)[1:-1])
    inner = inner[(inner > 0) & (inner < table.rows)]
    # Midpoints between neighbours; the upper neighbour if rounding gives the lower one.
    middle = (table.score[inner - 1] + table.score[inner]) / 2.0
    return np.asarray(np.where(middle > table.score[inner - 1], middle, table.score[inner]))


METHOD: Final = Method(
    name="histogram",
    title="Histogram binning",
    meaning=(
        "Takes each prediction to the frequency of its bin: makes no assumption on the fault, and forgets what tells "
        "predictions of one bin apart."
    ),
    rank=35,
    fit=_fit,
    load=Histogram.from_parts,
    options={
        "bins": MethodOption("whole", 15, "How many bins.", at_least=1, at_most=1000),
        "kind": MethodOption(
            "text",
            "equal_width",
            "equal_width, or quantile: as equally filled as equal predictions allow.",
            choices=("equal_width", "quantile"),
        ),
        "shrinkage": MethodOption(
            "number",
            1.0,
            "How many events that agree with the bin's mean prediction are added to it; 0 for plain binning, in which "
            "a bin of few events can become 0 or 1.",
            at_least=0.0,
            at_most=1e6,
        ),
    },
)
"""Source: Zadrozny, Elkan, "Obtaining calibrated probability estimates from decision trees and naive Bayesian
classifiers", 2001. Guo et al. 2017, section 4.1, for bins of equal width; the shrinkage is ours."""
