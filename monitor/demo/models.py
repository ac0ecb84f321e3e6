"""Four models: what each predicts, what is true, and how that changes.

Of each prediction, the true logit z is normal, the outcome is 1 with probability sigmoid(z), and the model says
sigmoid(slope * z + offset). So a model is calibrated exactly if its slope is 1 and its offset 0, whatever the z.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Regime:
    """How a model behaves at one time.

    Attributes
    ----------
    mean, spread
        Of the true logits, which are normal.
    slope, offset
        What the model makes of a true logit.
    """

    mean: float
    spread: float
    slope: float = 1.0
    offset: float = 0.0

    def towards(self, other: "Regime", share: float) -> "Regime":
        """The regime that share of the way, from 0 to 1, from this one to the other."""
        return Regime(
            mean=self.mean + share * (other.mean - self.mean),
            spread=self.spread + share * (other.spread - self.spread),
            slope=self.slope + share * (other.slope - self.slope),
            offset=self.offset + share * (other.offset - self.offset),
        )

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int8]]:
        """Predictions and what comes of them.

        Returns
        -------
        prediction
            float64, shape (count,).
        outcome
            int8, shape (count,): 0 or 1.
        """
        logit = rng.normal(self.mean, self.spread, count)
        outcome = (rng.random(count) < expit(logit)).astype(np.int8)
        return expit(self.slope * logit + self.offset), outcome


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """One model and its story.

    Attributes
    ----------
    name
        As in its events.
    story
        What becomes of it, for people.
    before, after
        How it behaves before its change and once that is complete.
    ramp_seconds
        How long the change takes, in simulated time.
    """

    name: str
    story: str
    before: Regime
    after: Regime
    ramp_seconds: float = 900.0

    def regime(self, seconds: float) -> Regime:
        """How it behaves that long after its change began; before that the time is negative."""
        share = min(max(seconds / self.ramp_seconds, 0.0), 1.0)
        return self.before.towards(self.after, share)


def mean_for(prevalence: float, spread: float) -> float:
    """Mean of the true logits at which that share of outcomes is 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)
    weights = weights / weights.sum()

    def excess(mean: float) -> float:
        return float(weights @ expit(mean + spread * nodes)) - prevalence

    return float(brentq(excess, -30.0, 30.0))


_RARE: Final = mean_for(0.01, 0.9)
_MISSED: Final = 0.9
"""By how much the odds of the rare event rise, in logit units, while its model goes on as before."""

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
)
