"""Close settled predictions: sum what leaves the join by series, pane and cell."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Ints
from monitor.events.model import SeriesKey
from monitor.events.strata import Strata
from monitor.scores import grid
from monitor.scores.grid_table import COLUMNS
from monitor.scores.sketch import SkceSketch, SketchPlan
from monitor.scores.sketch_loops import add_to_sketch
from monitor.store.closing import Cells, Panes, PaneSketch
from monitor.stream.journal_loops import BLOCK, NO_OUTCOME, VECTOR, read_vectors

_CHUNK: Final = 1 << 16


def close(parts: Iterable[NDArray[np.void]], strata: Strata, pane_ms: int) -> Panes:
    """Sum predictions by series, pane and cell.

    Parameters
    ----------
    parts
        Rows of the journal with the entries PREDICTED and VECTOR: predictions with the outcomes that they have.
    strata
        Names of the partition.
    pane_ms
        Width of the panes.
    """
    start, series = strata.fan_out()
    classes = strata.class_fan_out()
    each_class = np.arange(classes[2].size + 1, dtype=np.int32)
    sums: list[Cells] = []
    sketches = _Sketches(strata, pane_ms)
    for rows in parts:
        binary = rows[rows["entry"] != VECTOR]
        columns = (np.ascontiguousarray(binary[name]) for name in ("stratum", "time_ms", "prediction", "outcome"))
        sums += _spread(_add_up(pane_ms, *columns), start, series)
        if binary.size < rows.size:
            for of_classes in _each_class(rows, *classes[:2]):
                sums += _spread(_add_up(pane_ms, *of_classes), each_class, classes[2])
            sketches.add(rows)
    return Panes.of(strata.series, Cells.joined(sums).summed(), sketches.panes())


def _add_up(
    pane_ms: int, stratum: NDArray[Any], time_ms: Ints, prediction: NDArray[np.float64], outcome: NDArray[Any]
) -> Cells:
    """Sum predictions by stratum, pane and cell."""
    cell = grid.locate(prediction)
    values = np.zeros((cell.size, COLUMNS), np.int64)
    at, column = np.arange(cell.size), np.where(outcome < 0, 2, 1 - outcome)
    values[at, column] = 1
    values[at, column + 3] = grid.to_units(prediction) - grid.anchors()[cell]
    return Cells(stratum.astype(np.int64), time_ms - time_ms % pane_ms, cell, values).summed()


def _spread(sums: Cells, start: NDArray[np.int32], series: NDArray[np.int32]) -> Iterator[Cells]:
    """Repeat the sums of each stratum for each of its series, ``series[start[s]:start[s + 1]]`` of stratum s."""
    for place in range(int(np.diff(start).max(initial=0))):
        at = start[sums.series] + place
        has = np.flatnonzero(at < start[sums.series + 1])
        yield sums.take(has)._replace(series=series[at[has]].astype(np.int64))


def _each_class(
    rows: NDArray[np.void], first_class: NDArray[np.int32], class_count: NDArray[np.int32]
) -> Iterator[tuple[Ints, Ints, NDArray[np.float64], Ints]]:
    """Yield predictions over several classes as binary ones, each class against the rest, a chunk at a time.

    Classes beyond those that the model has today are left out.

    Yields
    ------
    place, time_ms, prediction, outcome
        Shape (n,) each; ``place`` is that of the class among those of all strata.
    """
    places, first, blocks = read_vectors(rows)
    stratum, times_ms, probabilities = rows["stratum"][places], rows["time_ms"][places], blocks.values.reshape(-1)
    counts = np.minimum(blocks.classes[first], class_count[stratum]).astype(np.int64)
    step = max(_CHUNK // int(counts.max(initial=1)), 1)
    for start in range(0, places.size, step):
        count = counts[start : start + step]
        at = start + np.repeat(np.arange(count.size), count)
        number = np.arange(at.size) - np.repeat(np.cumsum(count) - count, count)
        label = blocks.label[first[at]]
        outcome = np.where(label < 0, NO_OUTCOME, label == number)
        yield first_class[stratum[at]] + number, times_ms[at], probabilities[first[at] * BLOCK + number], outcome


class _Sketches:
    """Sums settled predictions to the sketch of each pane of the series ``all`` of models that have sketches.

    Only predictions of as many classes as the model has today are in them: others do not fit the same sums. A class
    beyond those of a vector came true only if the classes were declared anew.
    """

    def __init__(self, strata: Strata, pane_ms: int) -> None:
        self._strata = strata
        self._pane_ms = pane_ms
        self._plans = {
            model: SketchPlan(len(policy.classes), policy.sketch_features)
            for model, policy in enumerate(strata.policies)
            if policy.sketch_features
        }
        self._sums: dict[tuple[SeriesKey, int], SkceSketch] = {}

    def add(self, rows: NDArray[np.void]) -> None:
        """Add rows of the journal."""
        if not self._plans:
            return
        main, first, blocks = read_vectors(rows)
        stratum, classes, label = rows["stratum"][main], blocks.classes[first], blocks.label[first]
        model_of = self._strata.models_of_strata()[stratum]
        start_ms = rows["time_ms"][main] // self._pane_ms * self._pane_ms
        for model, plan in self._plans.items():
            wanted = (model_of == model) & (classes == plan.classes)
            chosen = np.flatnonzero(wanted & (label != NO_OUTCOME) & (label < plan.classes))
            panes, pane_of = np.unique(np.stack([stratum[chosen], start_ms[chosen]]), axis=1, return_inverse=True)
            for pane, (at, pane_start_ms) in enumerate(panes.T.tolist()):
                here = chosen[pane_of.reshape(-1) == pane]
                places = first[here][:, None] + np.arange(-(-plan.classes // BLOCK))
                vectors = np.ascontiguousarray(blocks.values[places].reshape(len(places), -1)[:, : plan.classes])
                added = np.zeros(plan.size, np.int64)
                add_to_sketch(vectors, label[here].astype(np.int64), plan.tables, added)
                series = self._strata.strata[at].series()[0], pane_start_ms
                self._sums[series] = self._sums.get(series, SkceSketch.zero(plan)) + SkceSketch(plan, added)

    def panes(self) -> list[PaneSketch]:
        """The sketches, ascending by series and pane."""
        return [PaneSketch(*key, self._sums[key]) for key in sorted(self._sums)]
