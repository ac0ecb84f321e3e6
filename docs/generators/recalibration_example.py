"""The recalibration that the documentation shows: a model that drifted, and its recalibration by LoRe."""

from functools import cache
from typing import Final

import numpy as np
from scipy.special import expit

import monitor
from monitor.results import Recalibration

_EVENTS: Final = 9_000
_SEED: Final = 11
_REGIONS: Final = ("north", "east", "south", "west")


@cache
def example() -> Recalibration:
    """LoRe, fitted on two thirds of the customers of a model and compared on the others.

    Customers are known by two features. Since the model was trained, those of one corner have become likelier to leave
    than it says and those of another less likely; and its log odds are too large by a third, for all.
    """
    rng = np.random.default_rng(_SEED)
    x = rng.normal(size=(_EVENTS, 2))
    log_odds = 1.3 * rng.normal(size=_EVENTS) - 0.4
    shift = 1.1 * np.tanh(1.5 * (x[:, 0] + x[:, 1]))
    outcome = rng.random(_EVENTS) < expit(log_odds + shift)
    region = np.array(_REGIONS)[(x[:, 0] > 0.0).astype(int) + 2 * (x[:, 1] > 0.0)]
    plan = np.where(rng.random(_EVENTS) < 0.3, "yearly", "monthly")
    table = {
        "prediction": expit(1.33 * log_odds),
        "outcome": outcome,
        "feature 0": x[:, 0],
        "feature 1": x[:, 1],
        "region": region,
        "plan": plan,
    }
    return monitor.recalibrate(
        monitor.read(table, model="churn"),
        features=["feature 0", "feature 1"],
        segments=["region", "plan"],
        methods="lore",
        held_out=1.0 / 3.0,
    )
