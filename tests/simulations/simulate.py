"""How often intervals cover and tests reject, over many samples of one law.

``make simulate`` prints the table, measure by scenario.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.inference import intervals, null_level
from monitor.inference.null_level import of_outcomes
from monitor.measures import REPORT_MEASURES, Measure
from monitor.scores import ScoreTable
from tests.simulations.scenarios import SCENARIOS, Form, Scenario

Floats = NDArray[np.float64]

SIZES: Final = (500, 5_000, 50_000)
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
    return measure.norms is not None or measure.witness is not None or measure.losses is not None


def truths(
    scenario: Scenario, table: ScoreTable, rate: Floats, of_law: Mapping[str, float], rng: np.random.Generator
) -> Mapping[str, float]:
    """What the interval of each measure of the table is of."""
    result = dict(of_law)
    # As many equal events as vary alike: what is counted in standard deviations grows with their number.
    alike = table.total**2 / float(table.positive_squares.sum() + table.negative_squares.sum())
    law = scenario.law(alike)
    others = [
        measure
        for measure in REPORT_MEASURES.values()
        if not has_a_law_value(measure) and not (measure.needs_whole_counts and table.weighted)
    ]
    if others:
        positives = rng.binomial(table.counts.astype(np.int64), rate, (_TRUE_DRAWS, table.rows)).astype(np.float64)
        result |= {measure.name: float(of_outcomes(table, measure, positives).mean()) for measure in others}
    for name in of_law:
        measure = REPORT_MEASURES[name]
        if measure.unit == "sigma":
            result[name] = measure.value(law)
        if measure.offset is not None:
            # What comes from the predictions alone is that of the sample's own.
            result[name] += measure.offset(table) - measure.offset(law)
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
    """Each measure of the reports, by name."""
    rng = np.random.default_rng([setting.seed, setting.n, FORMS.index(setting.form)])
    law = setting.scenario.law(setting.n)
    of_law = {name: measure.value(law) for name, measure in REPORT_MEASURES.items() if has_a_law_value(measure)}
    covered = dict.fromkeys(REPORT_MEASURES, 0)
    rejected = dict.fromkeys(REPORT_MEASURES, 0)
    for _ in range(setting.repeats):
        table, rate = setting.scenario.sample(rng, setting.n, setting.form)
        chosen = [each for each in REPORT_MEASURES.values() if not (each.needs_whole_counts and table.weighted)]
        values = {measure.name: measure.value(table) for measure in chosen}
        levels = null_level(table, chosen, draws=setting.draws, values=values)
        found = intervals(table, chosen, draws=setting.draws, values=values)
        truth = truths(setting.scenario, table, rate, of_law, rng)
        for measure in chosen:
            name = measure.name
            covered[name] += found[name].lower <= truth[name] <= found[name].upper
            rejected[name] += levels[name].p_value <= LEVEL
    return {
        name: Outcome(setting.repeats, covered[name], rejected[name])
        for name, measure in REPORT_MEASURES.items()
        if not (measure.needs_whole_counts and setting.form == "weighted")
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Coverage of 95%% intervals and size of 5%% tests, by simulation.")
    parser.add_argument("--repeats", type=int, default=400, help="samples of each scenario (default: %(default)s)")
    parser.add_argument("--draws", type=int, default=199, help="resamples of each sample (default: %(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="events (default: %(default)s)")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS), help="kinds of tables")
    parser.add_argument("--workers", type=int, default=None, help="processes (default: one for each processor)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    settings = [
        Setting(scenario, n, form, given.repeats, given.draws, given.seed)
        for n, form, scenario in product(given.sizes, given.forms, SCENARIOS)
    ]
    with ProcessPoolExecutor(given.workers) as pool:
        for setting, outcomes in zip(settings, pool.map(simulate, settings), strict=True):
            print(f"\n{setting.scenario.name}, n = {setting.n:,}, {setting.form}, {setting.repeats} samples")
            print(f"  {'measure':<18}{'coverage':>18}{'rejected':>18}")
            for name, outcome in outcomes.items():
                shares = (outcome.coverage, outcome.rejection)
                texts = [f"{share:.3f} +- {outcome.error(share):.3f}" for share in shares]
                # A test of a model that is off should reject, and rejects as often as it can.
                off = [abs(outcome.coverage - 1.0 + LEVEL) > TOLERANCE + outcome.error(outcome.coverage)]
                if setting.scenario.calibrated:
                    off.append(abs(outcome.rejection - LEVEL) > TOLERANCE + outcome.error(outcome.rejection))
                print(f"  {name:<18}{texts[0]:>18}{texts[1]:>18}{'  beyond .03' if any(off) else ''}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
