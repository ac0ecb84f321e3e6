"""What a refit decides by chance: promotions that are not deserved.

``python -m tests.simulations.test_guard_simulation`` prints the long form, on which the docstrings of
``monitor/recalibration/guard.py`` rest. The tests are its short form, seeded: what holds once holds always.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from monitor.local import Standardised, local_calibration_error
from monitor.recalibration.guard import MIN_E_VALUE, weigh

pytestmark = pytest.mark.simulation

Floats = NDArray[np.float64]
Logits = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Duel:
    """What serves, and the challenger, as functions of the true logit z ~ Normal(mean, 1.2)."""

    name: str
    serving: Logits
    challenger: Logits
    mean: float = 0.0
    strata: bool = False

    def promoted(self, n: int, repeats: int) -> float:
        """Share of samples of n held-out events in which the e-value reaches 20."""
        count = 0
        for repeat in range(repeats):
            rng = np.random.default_rng([repeat, n])
            z = rng.normal(self.mean, 1.2, n)
            w = np.ones(n)
            if self.strata:
                # As many of the middle as of both ends, of which there are a third as many in the stream.
                ends = np.arange(n) % 2 == 0
                z = self.mean + np.where(ends, 1.2 + np.abs(z - self.mean), np.clip(z - self.mean, -1.2, 1.2))
                w = np.where(ends, 0.5, 1.5)
            y = (rng.random(n) < expit(z)).astype(np.int64)
            count += weigh(expit(self.serving(z)), expit(self.challenger(z)), y, w).reaches(MIN_E_VALUE)
        return count / repeats


def tied(z: Floats, w: Floats, bump: float) -> float:
    """The offset on the other side at which the expected Brier score is that of the offset ``bump``."""
    q = expit(z)
    goal = float(w @ (expit(z + bump) - q) ** 2)
    low, high = -10.0, 0.0
    for _ in range(80):
        middle = (low + high) / 2.0
        low, high = (middle, high) if float(w @ (expit(z + middle) - q) ** 2) > goal else (low, middle)
    return low


TIED = (
    Duel("tied", lambda z: z + 0.3, lambda z: z - 0.3),
    Duel("tied, weighted", lambda z: z + 0.3, lambda z: z - 0.3, strata=True),
    Duel("tied, far off", lambda z: z + 2.0, lambda z: z - 2.0),
)
WORSE = (
    Duel("worse slope", lambda z: z, lambda z: 1.3 * z),
    Duel("worse offset, rare", lambda z: z, lambda z: z + 0.7, mean=-4.6),
    Duel("slightly worse", lambda z: z + 0.3, lambda z: z - 0.4),
)
BETTER = (
    Duel("slope 1.5 repaired", lambda z: 1.5 * z, lambda z: z),
    Duel("offset .4 repaired", lambda z: z + 0.4, lambda z: z),
    Duel("rare offset .9 repaired", lambda z: z + 0.9, lambda z: z, mean=-4.6),
    Duel("slope 1.5 repaired, weighted", lambda z: 1.5 * z, lambda z: z, strata=True),
)


@dataclass(frozen=True)
class Field:
    """Maps whose errors differ from place to place; x has three standard normal features, and the true logit
    is 1.2 x[0] plus a mean."""

    name: str
    serving: Callable[[Floats, Floats], Floats]
    challenger: Callable[[Floats, Floats], Floats]
    mean: float = 0.0

    def refused(self, n: int, repeats: int, tolerances: Sequence[float]) -> list[float]:
        """Share of samples in which the challenger's excess lies beyond that of what serves, by tolerance."""
        apart = []
        for repeat in range(repeats):
            rng = np.random.default_rng([repeat, n])
            x = rng.normal(size=(n, 3))
            z = self.mean + 1.2 * x[:, 0]
            y = rng.random(n) < expit(z)
            phi = Standardised.fit(x).apply(x)
            excess, variance = [], 0.0
            for logits in (self.serving, self.challenger):
                found = local_calibration_error(expit(logits(z, x)), y, phi, draws=99, max_points=400, seed=repeat)
                assert found.level is not None
                assert found.mlce_excess is not None
                excess.append(found.mlce_excess)
                variance += float(found.level.mlce.law.var())
            apart.append((excess[1] - excess[0]) / variance**0.5)
        return [float(np.mean(np.asarray(apart) > tolerance)) for tolerance in tolerances]


def in_a_tenth(offset: float) -> Callable[[Floats, Floats], Floats]:
    return lambda z, x: z + offset * (x[:, 1] > 1.28)


EVERYWHERE = (
    Field("slope 1.3 to 1.02", lambda z, x: 1.3 * z, lambda z, x: 1.02 * z),
    Field("slope 1.15 to 1.02", lambda z, x: 1.15 * z, lambda z, x: 1.02 * z),
    Field("rare, offset .5 to .03", lambda z, x: z + 0.5, lambda z, x: z + 0.03, mean=-3.0),
)
SOMEWHERE_WORSE = (
    Field("slope 1.3 to 1, 1 off in a tenth", lambda z, x: 1.3 * z, in_a_tenth(1.0)),
    Field("slope 1.5 to 1, 1 off in a tenth", lambda z, x: 1.5 * z, in_a_tenth(1.0)),
    Field("offset .4 to 0, -1.5 off in a tenth", lambda z, x: z + 0.4, in_a_tenth(-1.5)),
)


@pytest.mark.parametrize("duel", TIED, ids=lambda each: each.name)
def test_a_tied_challenger_is_rarely_promoted(duel: Duel) -> None:
    assert duel.promoted(1000, 300) <= 0.05
    assert duel.promoted(4000, 100) <= 0.05


def test_a_tied_challenger_of_rare_events_is_rarely_promoted() -> None:
    z = np.random.default_rng(1).normal(-4.6, 1.2, 200_000)
    back = tied(z, np.full(z.size, 1.0 / z.size), 0.5)
    assert Duel("", lambda z: z + 0.5, lambda z: z + back, mean=-4.6).promoted(4000, 200) <= 0.05


@pytest.mark.parametrize("duel", WORSE, ids=lambda each: each.name)
def test_a_worse_challenger_is_never_promoted(duel: Duel) -> None:
    assert duel.promoted(1000, 200) <= 0.005
    assert duel.promoted(4000, 100) == 0.0


@pytest.mark.parametrize("duel", BETTER, ids=lambda each: each.name)
def test_a_better_challenger_is_promoted(duel: Duel) -> None:
    assert duel.promoted(6000, 50) >= 0.8


def test_one_that_is_better_everywhere_is_rarely_refused_for_its_local_errors() -> None:
    assert EVERYWHERE[0].refused(2000, 20, [1.0])[0] <= 0.1


def test_one_that_is_far_worse_in_a_tenth_is_refused_more_often_than_not() -> None:
    assert SOMEWHERE_WORSE[2].refused(4000, 15, [1.0])[0] >= 0.5


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the long form."""
    parser = argparse.ArgumentParser(description="How often a refit decides wrongly, by simulation.")
    parser.add_argument("--repeats", type=int, default=400, help="samples of each case (default: %(default)s)")
    given = parser.parse_args(arguments)
    print("evidence: share of challengers with E >= 20")
    for duel in (*TIED, *WORSE, *BETTER):
        shares = [duel.promoted(n, given.repeats) for n in (1000, 6000)]
        print(f"  {duel.name:<32} n = 1,000: {shares[0]:.3f}   n = 6,000: {shares[1]:.3f}", flush=True)
    print("local errors: share refused with a tolerance of 0, 1 and 2 standard deviations")
    for field in (*EVERYWHERE, *SOMEWHERE_WORSE):
        for n in (2000, 6000):
            refused = field.refused(n, max(2, given.repeats // 4), [0.0, 1.0, 2.0])
            print(f"  {field.name:<40} n = {n:,}: {'  '.join(f'{share:.2f}' for share in refused)}", flush=True)


if __name__ == "__main__":
    main()
