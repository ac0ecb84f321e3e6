"""Sketches of probability vectors in closings, for the canonical calibration error of windows."""

import numpy as np
from numpy.typing import NDArray

from monitor.classes.sketch import SkceSketch, SketchPlan
from monitor.classes.sketch_loops import add_to_sketch
from monitor.events.model import ModelPolicy, SeriesKey
from monitor.events.strata import Strata
from monitor.store.closing import PaneSketch
from monitor.stream.journal_loops import BLOCK, NO_OUTCOME, read_vectors


def plan_of(policy: ModelPolicy) -> SketchPlan | None:
    """Plan of a model's sketches; None if its windows have none."""
    if not policy.sketch_features:
        return None
    return SketchPlan(len(policy.classes), policy.sketch_features)


class Sketches:
    """Sums settled predictions to the sketch of each pane of the series ``all`` of models that have sketches.

    Only predictions of as many classes as the model has today are in them: others do not fit the same sums. A class
    beyond those of a vector came true only if the classes were declared anew.
    """

    def __init__(self, strata: Strata, pane_ms: int) -> None:
        self._strata = strata
        self._pane_ms = pane_ms
        self._plans = {
            model: plan for model, policy in enumerate(strata.policies) if (plan := plan_of(policy)) is not None
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
