"""How often intervals of the difference of two models hold the true one, and how often they see one that is not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from monitor.measures import REPORT_MEASURES
from monitor.reports.evaluation.compare import compare_tables
from monitor.scores import ScoreTable
from monitor.sources.tables import EventTable
from tests.simulations.scenarios import SCENARIOS, Scenario
from tests.simulations.simulate import Outcome, has_a_law_value, truths


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models of one law of true logits, of the same events or of as many others."""

    first: Scenario
    second: Scenario
    paired: bool
    n: int
    repeats: int
    draws: int = 199
    seed: int = 17
    measures: tuple[str, ...] = tuple(REPORT_MEASURES)

    @property
    def name(self) -> str:
        return f"{self.second.name} against {self.first.name}, {'same' if self.paired else 'other'} events"

    @property
    def alike(self) -> bool:
        """Whether there is no difference to be seen."""
        return self.first == self.second


_BALANCED, _RARE, _, _SLOPE, _, _RARE_SLOPE = SCENARIOS
_NEARLY: Final = Scenario("slope 1.1", slope=1.1)
PAIRS: Final = (
    # Nearly calibrated models of the same events: where the plain bootstrap covers a third.
    (_BALANCED, _NEARLY, True),
    (_BALANCED, _SLOPE, True),
    (_SLOPE, Scenario("slope 0.67", slope=0.67), True),
    (_RARE, _RARE_SLOPE, True),
    (_BALANCED, _BALANCED, False),
    (_BALANCED, _SLOPE, False),
    (_RARE, _RARE, False),
)


def simulate_differences(pair: Pair) -> Mapping[str, Outcome]:
    """Each measure, by name; ``rejected`` counts the intervals that 0 lies outside of."""
    chosen = {name: REPORT_MEASURES[name] for name in pair.measures}
    of_law = [
        {name: measure.value(scenario.law(pair.n)) for name, measure in chosen.items() if has_a_law_value(measure)}
        for scenario in (pair.first, pair.second)
    ]
    covered, rejected = dict.fromkeys(chosen, 0), dict.fromkeys(chosen, 0)
    for repeat in range(pair.repeats):
        rng = np.random.default_rng([pair.seed, repeat])
        events, true = [], []
        z = y = None
        for scenario, known in zip((pair.first, pair.second), of_law, strict=True):
            if z is None or y is None or not pair.paired:
                z = rng.normal(scenario.mean, scenario.spread, pair.n)
                y = (rng.random(pair.n) < scenario.predictions(z)[1]).astype(np.int8)
            p, q = scenario.predictions(z)
            events.append(EventTable(p, y))
            at = np.unique(p, return_index=True)[1]
            true.append(truths(scenario.law, ScoreTable.from_events(p, y), q[at], known, rng, measures=tuple(chosen)))
        found = compare_tables(*events, measures=chosen, draws=pair.draws, seed=repeat).differences
        for name, each in found.items():
            if each.lower is None or each.upper is None:
                raise AssertionError(f"{name} has no interval of a difference")
            covered[name] += each.lower <= true[1][name] - true[0][name] <= each.upper
            rejected[name] += each.significant
    return {name: Outcome(pair.repeats, covered[name], rejected[name]) for name in chosen}
