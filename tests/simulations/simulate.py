"""How often intervals cover and tests reject, over many samples of one law."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.inference import intervals, null_level
from monitor.measures import REPORT_MEASURES, Limit, MeanLoss, Measure, SemiNorm
from monitor.scores import ScoreTable
from tests.simulations.scenarios import Form, Scenario

Floats = NDArray[np.float64]

FORMS: Final[tuple[Form, ...]] = ("raw", "grid", "weighted")
LEVEL: Final = 0.05
TOLERANCE: Final = 0.03

_TRUE_DRAWS: Final = 200
"""Draws at the true rates, which give the mean of a measure in windows of one size."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is simulated how often."""

    scenario: Scenario
    n: int
    form: Form
    repeats: int
    draws: int = 199
    seed: int = 1
    measures: tuple[str, ...] = tuple(REPORT_MEASURES)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened to one measure: counts of ``repeats``."""

    repeats: int
    covered: int
    rejected: int

    @property
    def coverage(self) -> float:
        return self.covered / self.repeats

    @property
    def rejection(self) -> float:
        return self.rejected / self.repeats

    def error(self, share: float) -> float:
        """Standard error of a share, as if it were the nominal one where that is larger."""
        return sqrt(max(share * (1.0 - share), LEVEL * (1.0 - LEVEL)) / self.repeats)


def has_a_law_value(measure: Measure) -> bool:
    """Whether the law has a value that samples come near to; otherwise their mean is what the interval is of."""
    return isinstance(measure, SemiNorm | Limit | MeanLoss)


def truths(
    law_of: Callable[[float], ScoreTable],
    table: ScoreTable,
    rate: Floats,
    of_law: Mapping[str, float],
    rng: np.random.Generator,
    *,
    measures: Sequence[str] = tuple(REPORT_MEASURES),
) -> Mapping[str, float]:
    """What the interval of each measure of the table is of.

    Parameters
    ----------
    law_of
        The law, as a table of so many events.
    table, rate
        The sample, and the rate at which the events of each row come true.
    of_law
        The measures of the law that have a value there.
    rng
        For the draws whose mean is that of the others.
    measures
        Which ones.
    """
    result = dict(of_law)
    # As many equal events as vary alike: what is counted in standard deviations grows with their number.
    alike = table.total**2 / float(table.positive_squares.sum() + table.negative_squares.sum())
    law = law_of(alike)
    others = [
        REPORT_MEASURES[name]
        for name in measures
        if not has_a_law_value(REPORT_MEASURES[name])
        and not (REPORT_MEASURES[name].needs_whole_counts and table.weighted)
    ]
    if others:
        positives = rng.binomial(table.counts.astype(np.int64), rate, (_TRUE_DRAWS, table.rows)).astype(np.float64)
        result |= {measure.name: float(measure.of_outcomes(table, positives).mean()) for measure in others}
    for name in of_law:
        measure = REPORT_MEASURES[name]
        if measure.unit == "sigma":
            result[name] = measure.value(law)
        # The offset is that of the sample's own predictions.
        result[name] += measure.smallest(table) - measure.smallest(law)
    # The largest gap is that of bins that hold events.
    bins = np.unique(np.minimum(table.score[table.counts > 0.0] * 10.0, 9.0).astype(int))
    held = np.isin(np.minimum(law.score * 10.0, 9.0).astype(int), bins)
    result["mce"] = REPORT_MEASURES["mce"].value(_part(law, held))
    return result


def _part(table: ScoreTable, rows: NDArray[np.bool_]) -> ScoreTable:
    """Some rows of a table without weights."""
    return ScoreTable(
        score=table.score[rows],
        positives=table.positives[rows],
        negatives=table.negatives[rows],
        positive_sum=table.positive_sum[rows],
        negative_sum=table.negative_sum[rows],
        lower=table.lower[rows],
        upper=table.upper[rows],
    )


def simulate(setting: Setting) -> Mapping[str, Outcome]:
    """Each measure of the setting, by name."""
    rng = np.random.default_rng([setting.seed, setting.n, FORMS.index(setting.form)])
    law = setting.scenario.law(setting.n)
    weighted = setting.form == "weighted"
    chosen = {
        name: REPORT_MEASURES[name]
        for name in setting.measures
        if not (REPORT_MEASURES[name].needs_whole_counts and weighted)
    }
    of_law = {name: measure.value(law) for name, measure in chosen.items() if has_a_law_value(measure)}
    covered = dict.fromkeys(chosen, 0)
    rejected = dict.fromkeys(chosen, 0)
    for _ in range(setting.repeats):
        table, rate = setting.scenario.sample(rng, setting.n, setting.form)
        values = {name: measure.value(table) for name, measure in chosen.items()}
        levels = null_level(table, chosen.values(), draws=setting.draws, values=values)
        found = intervals(table, chosen.values(), draws=setting.draws, values=values)
        truth = truths(setting.scenario.law, table, rate, of_law, rng, measures=tuple(chosen))
        for name in chosen:
            covered[name] += found[name].lower <= truth[name] <= found[name].upper
            rejected[name] += levels[name].p_value <= LEVEL
    return {name: Outcome(setting.repeats, covered[name], rejected[name]) for name in chosen}
