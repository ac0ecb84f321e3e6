"""Laws of predictions and outcomes of which everything is known, the measures' true values too."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from monitor.scores import GridTable, ScoreTable, grid

Floats = NDArray[np.float64]
Form = Literal["raw", "grid", "weighted"]

_POINTS: Final = 20_000
"""Predictions that stand for the whole law: quantiles of its logits."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """True logits ~ Normal(mean, spread); the model says slope times them plus offset."""

    name: str
    mean: float = 0.0
    spread: float = 1.2
    slope: float = 1.0
    offset: float = 0.0

    @property
    def calibrated(self) -> bool:
        return self.slope == 1.0 and self.offset == 0.0

    def predictions(self, z: Floats) -> tuple[Floats, Floats]:
        """Predictions, and the rates at which they come true."""
        return expit(self.slope * z + self.offset), expit(z)

    def law(self, n: float) -> ScoreTable:
        """A table of n events in which everything is as it is on average."""
        z = self.mean + self.spread * stats.norm.ppf((np.arange(_POINTS) + 0.5) / _POINTS)
        p, q = self.predictions(z)
        each = n / _POINTS
        return ScoreTable(
            score=p,
            positives=each * q,
            negatives=each * (1.0 - q),
            positive_sum=each * q * p,
            negative_sum=each * (1.0 - q) * p,
            lower=p,
            upper=p,
        )

    def sample(self, rng: np.random.Generator, n: int, form: Form) -> tuple[ScoreTable, Floats]:
        """A table of n events, and the rate at which the events of each row come true."""
        p, q = self.predictions(rng.normal(self.mean, self.spread, n))
        y = rng.random(n) < q
        if form == "grid":
            cell = grid.locate(p)
            count = np.bincount(cell)
            rate = np.bincount(cell, q)[count > 0] / count[count > 0]
            return GridTable.from_events(p, y).to_scores(), rate
        weight = rng.exponential(1.0, n) if form == "weighted" else None
        first = np.unique(p, return_index=True)[1]
        return ScoreTable.from_events(p, y, weight), q[first]


SCENARIOS: Final = (
    Scenario("balanced"),
    Scenario("rare", mean=-5.0, spread=1.0),
    Scenario("shifted", offset=0.5),
    Scenario("slope 1.5", slope=1.5),
    Scenario("rare shifted", mean=-5.0, spread=1.0, offset=0.5),
    Scenario("rare slope 1.5", mean=-5.0, spread=1.0, slope=1.5),
)
"""The first two are calibrated: half of the events come true, and 1% of them."""
