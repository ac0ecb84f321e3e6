"""A map that needs predictions and outcomes alone comes out the same from counts as from the events they count."""

import numpy as np
import pytest

from monitor.errors import NotEnoughData
from monitor.maps import METHODS, fit_map
from monitor.scores import GridTable
from monitor.scores.labelled import LabelledEvents

OF_PREDICTIONS = [
    name for name, method in METHODS.items() if method.binary and not (method.needs_features or method.needs_segments)
]


def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Predictions with ties, 0 and 1, whose lowest and highest all have one outcome."""
    rng = np.random.default_rng(4)
    p = np.round(rng.beta(0.6, 1.4, n), rng.integers(1, 5))
    y = (rng.random(n) < p**1.5).astype(np.int64)
    y[p < 0.01], y[p > 0.97] = 0, 1
    return p, y


@pytest.mark.parametrize("smoothing", [True, False])
@pytest.mark.parametrize("name", OF_PREDICTIONS)
def test_counted_events_fit_as_the_events(name: str, smoothing: bool) -> None:
    p, y = drawn(5_000)
    table = GridTable.from_events(p, y).to_scores()
    counted = LabelledEvents.counted(table)
    assert counted.counts is not None
    repeated = LabelledEvents.of(
        np.repeat(counted.prediction, counted.counts), np.repeat(counted.outcome, counted.counts)
    )
    assert len(counted) < counted.n == len(repeated) == p.size
    options = {key: smoothing for key in ("smoothing",) if key in METHODS[name].options}
    one, other = (fit_map(METHODS[name], events, options) for events in (counted, repeated))
    at = np.concatenate([np.linspace(0.0, 1.0, 1001), counted.prediction])
    assert np.allclose(one.apply(at), other.apply(at), rtol=1e-6, atol=1e-9)
    assert one.describe() == other.describe()


def test_too_few_are_counted_as_events() -> None:
    table = GridTable.from_events([0.5] * 9, [0, 1] * 4 + [0]).to_scores()
    with pytest.raises(NotEnoughData, match="9 labelled events, at least 10"):
        fit_map(METHODS["platt"], LabelledEvents.counted(table))
    same = GridTable.from_events([0.2, 0.5, 0.7] * 10, [1] * 30).to_scores()
    with pytest.raises(NotEnoughData, match="only 0 of 30 labelled events have the outcome 0"):
        fit_map(METHODS["platt"], LabelledEvents.counted(same))
