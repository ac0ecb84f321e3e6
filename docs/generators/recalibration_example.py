"""The refit that the documentation shows: a model that drifted, and its recalibration by LoRe."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import expit

from monitor.local import Standardised
from monitor.maps import LabelledEvents, apply_map, choose_method, fit_map
from monitor.measures import smce
from monitor.reports.figures.recalibration import refit_figures
from monitor.scores import ScoreTable

Floats = NDArray[np.float64]

_EVENTS: Final = 9_000
_SEED: Final = 11
_REGIONS: Final = ("north", "east", "south", "west")


@cache
def example() -> Mapping[str, Figure]:
    """The pictures of its refit, by the names that :func:`refit_figures` gives them.

    Customers are known by two features. Since the model was trained, those of one corner have become likelier to leave
    than it says and those of another less likely; and its log odds are too large by a third, for all.
    """
    rng = np.random.default_rng(_SEED)
    x = rng.normal(size=(_EVENTS, 2))
    log_odds = 1.3 * rng.normal(size=_EVENTS) - 0.4
    shift = 1.1 * np.tanh(1.5 * (x[:, 0] + x[:, 1]))
    outcome = (rng.random(_EVENTS) < expit(log_odds + shift)).astype(np.float64)
    region = np.array(_REGIONS)[(x[:, 0] > 0.0).astype(int) + 2 * (x[:, 1] > 0.0)]
    plan = np.where(rng.random(_EVENTS) < 0.3, "yearly", "monthly")
    events = LabelledEvents.of(expit(1.33 * log_odds), outcome, features=x, segments={"region": region, "plan": plan})
    fitted_on, held_out = events.select(slice(0, 6_000)), events.select(slice(6_000, None))
    lore = fit_map(choose_method("lore"), fitted_on)
    recalibrated = apply_map(lore, held_out.prediction, features=held_out.features)
    predictions = {"none": held_out.prediction, "challenger": recalibrated}
    return refit_figures(
        held_out,
        predictions,
        Standardised.fit(x[:6_000]).apply(x[6_000:]),
        segments=_segments(held_out, predictions),
        methods={"challenger": "LoRe"},
    )


def _segments(held_out: LabelledEvents, predictions: Mapping[str, Floats]) -> list[dict[str, Any]]:
    """As a comparison has them, with what the picture needs."""
    entries = []
    for key, values in held_out.segments.items():
        for value in np.unique(values).tolist():
            inside = values == value
            entry: dict[str, Any] = {"segment": f"{key}={value}", "n": int(inside.sum())}
            for name, p in predictions.items():
                entry[name] = {"smce": smce(ScoreTable.from_events(p[inside], held_out.outcome[inside]))}
            entries.append(entry)
    return entries
