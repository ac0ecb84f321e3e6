"""How often tests see a fault, by number of events, prevalence and fault: the table of docs/which-measure.md.

``python -m tests.simulations.power`` prints it; ten minutes of processor time.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from monitor.inference import null_level
from monitor.inference.calibration_tests import calibration_test
from monitor.measures import MEASURES
from tests.simulations.scenarios import Scenario

LEVEL: Final = 0.05
VERDICT: Final = "the verdict's test"
TESTS: Final = ("kce_logit", "spiegelhalter", "kce", "smce", "ece", "tce")
EVENTS: Final = (500, 2_000, 10_000)
PREVALENCES: Final = {"50%": (0.0, 1.2), "10%": (-2.6, 1.2), "1%": (-5.0, 1.0)}
"""Share of positives -> mean and spread of the true logits."""
FAULTS: Final = {
    "none": {},
    "offset 0.25": {"offset": 0.25},
    "slope 1.2": {"slope": 1.2},
    "slope 1.5": {"slope": 1.5},
}


def power(scenario: Scenario, n: int, *, repeats: int, draws: int = 99, seed: int = 1) -> Mapping[str, float]:
    """Share of samples whose p-value is at most 5%, by test: that of the verdict, and those of single measures."""
    rng = np.random.default_rng([seed, n])
    measures = [MEASURES[name] for name in TESTS]
    rejected = dict.fromkeys((VERDICT, *TESTS), 0)
    for _ in range(repeats):
        table, _ = scenario.sample(rng, n, "raw")
        rejected[VERDICT] += calibration_test(table, draws=draws).p_value <= LEVEL
        for name, level in null_level(table, measures, draws=draws).items():
            rejected[name] += level.p_value <= LEVEL
    return {name: count / repeats for name, count in rejected.items()}


def main(repeats: int = 400) -> None:
    """Print the table, a row as soon as it is there."""
    sizes = " / ".join(f"{n:,}" for n in EVENTS)
    titles = (VERDICT, *(MEASURES[name].title for name in TESTS))
    print(f"| positives | fault; power at {sizes} events |", " | ".join(titles), "|")
    print("|---" * (2 + len(titles)) + "|")
    for prevalence, (mean, spread) in PREVALENCES.items():
        for fault, of in FAULTS.items():
            scenario = Scenario(fault, mean=mean, spread=spread, **of)
            found = [power(scenario, n, repeats=repeats) for n in EVENTS]
            cells = (" / ".join(f"{shares[test]:.2f}" for shares in found) for test in (VERDICT, *TESTS))
            print(f"| {prevalence} | {fault} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
