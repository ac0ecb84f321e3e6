"""D1 keeps its budget in time, at a high one so that it is measurable, and sees changes as early as it should."""

import numpy as np
import pytest
from scipy.special import expit, logit

from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.evidence import YEAR_MS, Evidence
from tests.sequential.streams import logistic, steps_of

HOUR_MS = 3_600_000
EVENTS_AN_HOUR = 8600


def hours(events: float) -> int:
    return round(events / EVENTS_AN_HOUR * HOUR_MS)


@pytest.mark.parametrize(
    ("tolerance", "centre", "error"),
    [
        (0.0, 0.0, "none"),
        (0.0, -3.0, "none"),
        (0.05, 0.0, "upper edge"),
        (0.05, 0.0, "lower edge"),
        (0.05, 0.0, "both"),
    ],
)
def test_false_alarms_are_at_most_the_budget(tolerance: float, centre: float, error: str) -> None:
    """One is allowed in every 40 panes. The rate of events changes by a factor of 4 now and then."""
    rng = np.random.default_rng(0)
    p, _ = logistic(rng, 600_000, centre=centre)
    edges = {"none": 0.0 * p, "upper edge": p**0, "lower edge": -(p**0), "both": np.sign(p - 0.5)}
    y = (rng.random(p.size) < expit(logit(p) + tolerance * edges[error])).astype(np.float64)
    threshold = hours(2000) / YEAR_MS
    alarms, pane = 0, 0
    evidence, detector = Evidence(0), CalibrationBets(tolerance)
    for at, size in zip(range(0, p.size, 12_000), [20, 80] * 25, strict=True):
        part = slice(at, at + 12_000)
        steps = steps_of(p[part], y[part], size, hours(50), pane * hours(50))
        alarms += len(evidence.update({"whole": {"": detector.bet(steps)}}, threshold))
        pane += steps.end_ms.size
    bound = pane * hours(50) / YEAR_MS / threshold
    print(f"\n{alarms} false alarms, the bound is {bound:.0f}")
    assert 0.3 * bound <= alarms <= bound


@pytest.mark.parametrize(
    ("false_alarms", "threshold", "largest"),
    [("one in the time of 100,000 events", hours(1e5) / YEAR_MS, 1600), ("one a year", 1.0, 2800)],
)
def test_logits_1_3_times_too_small_are_seen_early(false_alarms: str, threshold: float, largest: int) -> None:
    """Median delay over 120 streams, in events, with the tolerance of .05 logits."""
    rng = np.random.default_rng(0)
    calibrated, pane = 5000, 50
    delays = []
    for _ in range(120):
        before, after = logistic(rng, calibrated), logistic(rng, 8000, slope=1.3)
        p, y = (np.concatenate(column) for column in zip(before, after, strict=True))
        steps = steps_of(p, y, pane, hours(pane))
        alarms = Evidence(0).update({"whole": {"": CalibrationBets().bet(steps)}}, threshold)
        delays += [next((alarm.end_ms / hours(pane) * pane for alarm in alarms if alarm.end_ms > hours(5000)), np.inf)]
    print(f"\nmedian delay {np.median(delays) - calibrated:.0f} events at {false_alarms}")
    assert np.median(delays) - calibrated <= largest
