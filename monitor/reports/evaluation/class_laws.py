"""Resampling of models of many classes: laws under calibration, and how far norms of the residuals vary."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.classes.base import Outcomes, Prepared
from monitor.classes.bin_loops import categorical_draws, hits_of_draws
from monitor.inference import coarsen
from monitor.inference.interval import interval_of_norm
from monitor.measures.base import MeanLoss, Measure, SemiNorm
from monitor.scores import ClassTable, ScoreTable, grid

Floats = NDArray[np.float64]

_HELD: Final = 4_000_000
"""Drawn numbers that are held at a time: 32 MB."""

_NULL, _BOOTSTRAP = 20, 21
"""Streams of random numbers: what one thing draws must not depend on what else is drawn."""

_PAIRS: Final = 2
"""Draws of which the raw predictions are measured beside their cells, to tell what cells do to a measure."""


def null_laws(
    table: ClassTable,
    measures: Mapping[str, Prepared],
    each_class: Mapping[str, Measure],
    counted: Sequence[int],
    *,
    draws: int,
    seed: int,
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Each measure of outcomes drawn from the predictions, and the mean over the classes of each binary one.

    One set of outcomes serves all: what the classes have in common stays in the law of their mean.
    """
    rng = np.random.default_rng([seed, _NULL])
    cumulative = np.cumsum(table.prediction, axis=1)
    parts: dict[str, list[Floats]] = {name: [] for name in measures}
    classes = _OneAgainstRest.of(table, counted)
    means: dict[str, list[Floats]] = {name: [] for name in each_class} if counted else {}
    effects: dict[str, float] = {}
    done = 0
    for size in _chunks(draws, max(table.rows, classes.size)):
        outcomes = categorical_draws(rng, cumulative, size)
        for name, measure in measures.items():
            parts[name].append(measure.draws(outcomes))
        positives = hits_of_draws(classes.rows, outcomes, classes.size)
        for name, mean in means.items():
            left = each_class[name].max_draws - done
            if left > 0:
                mean.append(classes.mean(each_class[name], positives[:left]))
        if done == 0:
            effects = classes.effects(table, {name: each_class[name] for name in means}, outcomes, means)
        done += size
    return (
        {name: np.concatenate(each) for name, each in parts.items()},
        {name: np.concatenate(each) + effects.get(name, 0.0) for name, each in means.items()},
    )


@dataclass(frozen=True, slots=True)
class _OneAgainstRest:
    """The score tables of single classes as they are drawn on: on cells where they have more rows than the grid.

    Attributes
    ----------
    labels
        Which classes.
    tables
        Their tables.
    rows
        int32, shape (n, K): the row of each probability, counted through all tables; -1 for classes that are left out.
    """

    labels: tuple[int, ...]
    tables: tuple[ScoreTable, ...]
    rows: NDArray[np.int32]

    @classmethod
    def of(cls, table: ClassTable, labels: Sequence[int]) -> "_OneAgainstRest":
        rows: NDArray[np.int32] = np.full(table.prediction.shape, -1, np.int32)
        tables = []
        first = 0
        for label in labels:
            scores, prediction = table.one_against_rest(label), table.prediction[:, label]
            if scores.rows > grid.cell_count():
                place = np.unique(grid.locate(prediction), return_inverse=True)[1]
                scores = coarsen(scores)
            else:
                place = np.searchsorted(scores.score, prediction)
            rows[:, label] = first + place
            first += scores.rows
            tables.append(scores)
        return cls(tuple(labels), tuple(tables), rows)

    @property
    def size(self) -> int:
        """Rows of all tables together."""
        return sum(table.rows for table in self.tables)

    def mean(self, measure: Measure, positives: Floats) -> Floats:
        """Mean over the classes of a measure of drawn positives, (draws, size) -> (draws,)."""
        total = np.zeros(len(positives))
        first = 0
        for table in self.tables:
            total += measure.of_outcomes(table, np.ascontiguousarray(positives[:, first : first + table.rows]))
            first += table.rows
        return total / len(self.tables)

    def effects(
        self, table: ClassTable, measures: Mapping[str, Measure], outcomes: Outcomes, means: Mapping[str, list[Floats]]
    ) -> dict[str, float]:
        """By how much the mean of raw predictions lies above that of their cells, from a few of the draws.

        A semi-norm or a mean of losses moves by far less than it varies.
        """
        if all(scores.exact for scores in self.tables):
            return {}
        found = {}
        for name, measure in measures.items():
            if not isinstance(measure, SemiNorm | MeanLoss):
                found[name] = float(
                    np.mean(
                        [
                            np.mean([measure.value(self._raw(table, label, drawn)) for label in self.labels]) - on_cells
                            for drawn, on_cells in zip(outcomes[:_PAIRS], means[name][0], strict=False)
                        ]
                    )
                )
        return found

    @staticmethod
    def _raw(table: ClassTable, label: int, outcome: NDArray[np.int32]) -> ScoreTable:
        return ScoreTable.from_events(table.prediction[:, label], outcome == label)


def ends(
    table: ClassTable, measures: Mapping[str, Prepared], values: Mapping[str, float], draws: int, seed: int
) -> dict[str, tuple[float, float]]:
    """The interval of each measure of this value: of a semi-norm N, from N(v* - v), v* a Poisson bootstrap of events.

    As of the measures of P(y = 1), see :func:`monitor.inference.interval`.
    """
    rng = np.random.default_rng([seed, _BOOTSTRAP])
    parts: dict[str, list[Floats]] = {name: [] for name in measures}
    for size in _chunks(draws, table.rows):
        weight = rng.poisson(1.0, (size, table.rows)).astype(np.float64) - 1.0
        for name, measure in measures.items():
            parts[name].append(measure.norms(weight))
    result = {}
    for name, measure in measures.items():
        # Weights of Poisson(1) - 1 have the variance 1.
        spread = float(np.linalg.norm(measure.shares()))
        result[name] = interval_of_norm(values[name], np.concatenate(parts[name]), spread)[:2]
    return result


def _chunks(draws: int, numbers: int) -> Iterator[int]:
    """Sizes of the parts in which draws of so many numbers each are made."""
    at_once = max(1, min(draws, _HELD // max(1, numbers)))
    for start in range(0, draws, at_once):
        yield min(at_once, draws - start)
