"""Sketches of probability vectors beside the panes, for the canonical calibration error of windows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.classes.sketch import SkceSketch, SketchPlan
from monitor.classes.sketch_loops import add_all_to_sketch
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.events.strata import Strata
from monitor.store.base import VECTOR, ClosedSketch, PaneKey
from monitor.stream.vector_loops import BLOCK, NO_OUTCOME, read_blocks

_NONE: Final = -1

_PaneId = tuple[int, int, int]
"""Series id, width and number of a pane."""


@dataclass(slots=True)
class _PaneSketch:
    """The sums of one pane, and the number of their last change."""

    sums: NDArray[np.int64]
    changed: int


@dataclass(frozen=True, slots=True)
class Contribution:
    """Sums that rows of the journal add to the sketch of one pane of each width."""

    plan: SketchPlan
    panes: tuple[_PaneId, ...]
    sums: NDArray[np.int64]


def plan_of(policy: ModelPolicy) -> SketchPlan | None:
    """Plan of a model's sketches; None if its windows have none."""
    if not policy.sketch_features:
        return None
    return SketchPlan(len(policy.classes), policy.sketch_features)


class SketchTable:
    """Sketches of one partition: panes of the series ``all`` of models with sketches. The owner locks it.

    Only predictions of as many classes as the model has today are in them: others do not fit the same sums.

    Parameters
    ----------
    strata
        Names, and the policies of their models.
    slides_ms
        Widths of the panes that are kept, ascending.
    """

    def __init__(self, strata: Strata, slides_ms: Iterable[int]) -> None:
        self._strata = strata
        self._slides_ms = tuple(slides_ms)
        self._panes: dict[_PaneId, _PaneSketch] = {}
        self._plans: dict[int, SketchPlan] = {}
        self._plan_of_stratum: NDArray[np.int64] = np.empty(0, np.int64)
        self._series_of_stratum: NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        return sum(entry.sums.nbytes for entry in self._panes.values())

    def update_names(self) -> None:
        """Update after strata have appeared. The first series of a stratum is that of its whole model."""
        models = self._strata.models_of_strata()
        plans = [plan_of(policy) for policy in self._strata.policies]
        self._plans = {model: plan for model, plan in enumerate(plans) if plan is not None}
        has_plan = np.array([plan is not None for plan in plans], np.bool_)
        self._plan_of_stratum = np.where(has_plan[models], models, _NONE) if models.size else np.empty(0, np.int64)
        start, series = self._strata.fan_out()
        self._series_of_stratum = series[start[:-1]].astype(np.int64)

    def contributions(self, rows: NDArray[np.void]) -> Iterator[Contribution]:
        """Sums that rows of the journal add, pane by pane. Changes nothing, so it needs no lock."""
        if not self._plans:
            return
        is_block = rows["entry"] == VECTOR
        main = np.flatnonzero(~is_block[:-1] & is_block[1:])
        first = np.cumsum(is_block)[main]
        blocks = read_blocks(rows)
        stratum = rows["stratum"][main]
        classes, label, before = blocks.classes[first], blocks.label[first], blocks.before[first]
        for model, plan in self._plans.items():
            chosen = (self._plan_of_stratum[stratum] == model) & (classes == plan.classes) & (label != before)
            if not chosen.any():
                continue
            at = first[chosen][:, None] + np.arange(-(-plan.classes // BLOCK))
            vectors = blocks.values[at].reshape(len(at), -1)[:, : plan.classes]
            series, time_ms = self._series_of_stratum[stratum[chosen]], rows["time_ms"][main[chosen]]
            numbers = [time_ms // slide for slide in self._slides_ms]
            panes, pane_of = np.unique(np.stack([series, *numbers], axis=1), axis=0, return_inverse=True)
            signed = ((1, label[chosen]), (-1, before[chosen]))
            for pane, (series_id, *numbers_of_pane) in enumerate(panes.tolist()):
                is_here = pane_of.reshape(-1) == pane
                sums = np.zeros(plan.size, np.int64)
                for sign, came_true in signed:
                    # A class beyond those of the vector came true only if the classes were declared anew.
                    chosen_rows = is_here & (came_true != NO_OUTCOME) & (came_true < plan.classes)
                    outcome = came_true[chosen_rows].astype(np.int64)
                    add_all_to_sketch(np.ascontiguousarray(vectors[chosen_rows]), outcome, sign, plan.tables, sums)
                slides = zip(self._slides_ms, numbers_of_pane, strict=True)
                yield Contribution(plan, tuple((series_id, slide, number) for slide, number in slides), sums)

    def add(self, part: Contribution, change: int) -> None:
        """Add to the panes. ``change`` is the number of this change, larger than the one before."""
        for pane in part.panes:
            self._add(pane, part.sums, change)

    def add_closed(self, closed: ClosedSketch, series: Mapping[SeriesKey, int], change: int) -> None:
        """Add a stored sketch. Skips one of another plan, or of a width that is no longer kept."""
        key, sketch = closed
        series_id = series.get(key.series)
        if series_id is None or key.slide_ms not in self._slides_ms or sketch.plan != self._plan(key.series.model):
            return
        self._add((series_id, key.slide_ms, key.start_ms // key.slide_ms), sketch.sums, change)

    def sum(self, series: SeriesKey, series_id: int, slide_ms: int, numbers: range) -> SkceSketch | None:
        """The sum of these panes' sketches; None if the model has none."""
        plan = self._plan(series.model) if series.segment == ALL else None
        if plan is None:
            return None
        total = SkceSketch.zero(plan)
        for entry in self._sketches_of(series_id, slide_ms, numbers):
            total += SkceSketch(plan, entry.sums)
        return total

    def last_change(self, series_id: int, slide_ms: int, numbers: range) -> int:
        """The last change to these panes' sketches; 0 if there are none."""
        return max((entry.changed for entry in self._sketches_of(series_id, slide_ms, numbers)), default=0)

    def expire(self, before_ms: Mapping[tuple[int, int], int]) -> None:
        """Remove the panes that start before ``before_ms[series id, width]``."""
        expired = [pane for pane in self._panes if pane[1] * pane[2] < before_ms.get(pane[:2], _NONE)]
        for pane in expired:
            del self._panes[pane]

    def dump(self, series: Iterable[SeriesKey]) -> list[ClosedSketch]:
        """All sketches, to be stored. ``series`` are the names of the series, by id."""
        names = list(series)
        result = []
        for (series_id, slide_ms, number), entry in self._panes.items():
            key, plan = names[series_id], self._plan(names[series_id].model)
            if plan is not None:
                result.append(ClosedSketch(PaneKey(slide_ms, number * slide_ms, key), SkceSketch(plan, entry.sums)))
        return result

    def _add(self, pane: _PaneId, sums: NDArray[np.int64], change: int) -> None:
        entry = self._panes.get(pane)
        # A new array each time, as other threads may read the old one.
        self._panes[pane] = _PaneSketch(sums if entry is None else entry.sums + sums, change)

    def _sketches_of(self, series_id: int, slide_ms: int, numbers: range) -> Iterator[_PaneSketch]:
        if self._panes:
            entries = (self._panes.get((series_id, slide_ms, number)) for number in numbers)
            yield from (entry for entry in entries if entry is not None)

    def _plan(self, model: str) -> SketchPlan | None:
        return next((self._plans.get(at) for at, name in enumerate(self._strata.models) if name == model), None)
