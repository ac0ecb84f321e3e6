"""Five simulated models: their predictions, their outcomes, and how both change.

The true logit z of each prediction is normal, the outcome is 1 with probability sigmoid(z), and the model predicts
sigmoid(slope * z + offset). So a model is calibrated exactly if its slope is 1 and its offset 0.

For one model this holds on average only. Half of its customers are new, independently of z, and half are loyal: with
q = sigmoid(z), the outcome is 1 with probability q + c q (1 - q) for the new ones and q - c q (1 - q) for the loyal
ones. So it is as calibrated as the others, and wrong for every customer; only the features distinguish them.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from monitor.arrays import Floats
from monitor.roots import brentq
from monitor.simulation.generator import draw_outcomes


class Drawn(NamedTuple):
    """Predictions and their outcomes.

    Attributes
    ----------
    prediction
        float64, shape (count,).
    outcome
        int8, shape (count,): 0 or 1.
    features
        float32, shape (count, D): years as a customer, and visits a month; D is 0 where events carry none.
    """

    prediction: Floats
    outcome: NDArray[np.int8]
    features: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Regime:
    """The behaviour of a model at one time.

    Attributes
    ----------
    mean, spread
        Mean and standard deviation of the true logits, which are normal.
    slope, offset
        The model predicts the logit slope * z + offset.
    contrast
        Difference between new and loyal customers, c above, in [0, 1]. None: customers are all alike, and events
        carry no features.
    """

    mean: float
    spread: float
    slope: float = 1.0
    offset: float = 0.0
    contrast: float | None = None

    def towards(self, other: "Regime", share: float) -> "Regime":
        """Interpolate between this regime (share 0) and the other (share 1)."""

        def mix(one: float, two: float) -> float:
            return one + share * (two - one)

        contrast = None
        if self.contrast is not None and other.contrast is not None:
            contrast = mix(self.contrast, other.contrast)
        mean, spread = mix(self.mean, other.mean), mix(self.spread, other.spread)
        return Regime(mean, spread, mix(self.slope, other.slope), mix(self.offset, other.offset), contrast)

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw predictions and their outcomes."""
        logit = rng.normal(self.mean, self.spread, count)
        chance = expit(logit)
        features = np.empty((count, 0), np.float32)
        if self.contrast is not None:
            is_new = rng.random(count) < 0.5
            features = _customers(is_new, logit, rng)
            chance = chance + self.contrast * np.where(is_new, 1.0, -1.0) * chance * (1.0 - chance)
        outcome = draw_outcomes(chance, rng).astype(np.int8)
        return Drawn(expit(self.slope * logit + self.offset), outcome, features)


def _customers(is_new: NDArray[np.bool_], logit: Floats, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw features, (n, 2): the years distinguish the kinds, the visits correlate with the prediction."""
    count = is_new.size
    years = np.where(is_new, rng.uniform(0.0, 2.0, count), rng.uniform(4.0, 8.0, count))
    visits = np.maximum(6.0 - 1.5 * logit + rng.normal(0.0, 2.0, count), 0.0)
    return np.column_stack([years, visits]).astype(np.float32)


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """One model and how it changes.

    Attributes
    ----------
    name
        Name in its events.
    story
        Description for people.
    before, after
        Its behaviour before and after its change.
    ramp_seconds
        Duration of the change, in simulated time.
    """

    name: str
    story: str
    before: Regime
    after: Regime
    ramp_seconds: float = 900.0

    def regime(self, seconds: float) -> Regime:
        """Its behaviour this long after its change began; negative before that."""
        share = min(max(seconds / self.ramp_seconds, 0.0), 1.0)
        return self.before.towards(self.after, share)


def mean_for(prevalence: float, spread: float) -> float:
    """The mean of the true logits for which this share of outcomes is 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    weights = weights / weights.sum()

    def excess(mean: float) -> float:
        return float(weights @ expit(mean + spread * nodes)) - prevalence

    return brentq(excess, -30.0, 30.0)


_RARE: Final = mean_for(0.01, 0.9)
_MISSED: Final = 0.9
"""Rise of the log odds of the rare event, which its model does not follow."""
_CONTRAST: Final = 0.7
"""Where half of the customers leave, 67.5% of the new ones do, and 32.5% of the loyal ones."""

MODELS: Final = (
    SimulatedModel(
        name="calibrated",
        story="stays calibrated",
        before=Regime(mean=0.0, spread=1.5),
        after=Regime(mean=0.0, spread=1.5),
    ),
    SimulatedModel(
        name="overconfident",
        story="becomes overconfident: its logits grow to 1.9 times the true ones",
        before=Regime(mean=0.0, spread=1.2),
        after=Regime(mean=0.0, spread=1.2, slope=1.9),
    ),
    SimulatedModel(
        name="prior-shift",
        story="prevalence falls from 50% to 10%; it knows, and stays calibrated",
        before=Regime(mean=0.0, spread=1.2),
        after=Regime(mean=mean_for(0.1, 1.2), spread=1.2),
    ),
    SimulatedModel(
        name="rare-event",
        story="predicts a 1% event, whose odds rise to 2.5 times what it says",
        before=Regime(mean=_RARE, spread=0.9),
        after=Regime(mean=_RARE + _MISSED, spread=0.9, offset=-_MISSED),
    ),
    SimulatedModel(
        name="local-error",
        story="right on the whole, but too low for new customers and too high for loyal ones",
        before=Regime(mean=-0.3, spread=1.2, contrast=_CONTRAST),
        after=Regime(mean=-0.3, spread=1.2, contrast=_CONTRAST),
    ),
)
