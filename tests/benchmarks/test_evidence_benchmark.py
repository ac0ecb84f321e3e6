"""What evidence costs for each event, beside a naive loop over events in the same run."""

import math
import time
from collections.abc import Callable

import numpy as np
import pytest

from monitor.scores import grid
from monitor.sequential.alternatives import Profile, centred_shifts, common_shifts
from monitor.sequential.calibration import TOLERANCE, CalibrationBets, log_bets
from monitor.sequential.calibration_lines import lines
from monitor.sequential.evidence import Evidence
from tests.benchmarks.budgets import note
from tests.reference.naive_sequential import best_stake, bet
from tests.sequential.streams import logistic, steps_of

pytestmark = pytest.mark.benchmark

PANE_MS = 600_000
EVENTS = 600_000
NAIVE_EVENTS = 500


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The least processor time of some runs, after one that compiles and warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def naive_log_bets(p: list[float], y: list[int], centre: float, region: list[int]) -> list[float]:
    """The sum of each alternative's log bets, one event and alternative after the other."""
    total = [0.0] * 36
    for prediction, outcome, place in zip(p, y, region, strict=True):
        z = math.log(prediction / (1.0 - prediction))
        shifts = [0.1, 0.2, 0.4, 0.8, -0.1, -0.2, -0.4, -0.8]
        shifts += [(slope - 1.0) * z for slope in (0.6, 0.77, 0.87, 1.15, 1.3, 1.7)]
        shifts += [(slope - 1.0) * (z - centre) for slope in (0.6, 0.77, 0.87, 1.15, 1.3, 1.7)]
        bumps = [0.0] * 16
        bumps[2 * place : 2 * place + 2] = [0.5, -0.5]
        for k, shift in enumerate(shifts + bumps):
            stake = best_stake(prediction, shift, TOLERANCE)
            total[k] += math.log(bet(prediction, outcome, stake, shift, TOLERANCE))
    return total


def test_bets_against_calibration_and_their_evidence() -> None:
    rng = np.random.default_rng(0)
    p, y = logistic(rng, EVENTS)
    few = slice(0, NAIVE_EVENTS)
    profile = Profile(0.25, Profile.default().region_starts)
    region = profile.regions()[grid.locate(p[few])].tolist()
    arguments = (p[few].tolist(), y[few].astype(int).tolist(), profile.centre, region)
    naive = seconds(lambda: naive_log_bets(*arguments), 1) / NAIVE_EVENTS
    ours = log_bets(steps_of(p[few], y[few], NAIVE_EVENTS, PANE_MS), profile).sum(axis=0)
    np.testing.assert_allclose(ours, naive_log_bets(*arguments), atol=0.15, rtol=0.01)
    measured = []
    print()
    for pane in (50, 100, 150):
        steps = steps_of(p, y, pane, PANE_MS)
        detector = CalibrationBets()
        detector.bet(steps)  # past its first predictions
        bets = detector.bet(steps)
        bet_time = seconds(lambda: detector.bet(steps)) / EVENTS  # noqa: B023 - called at once
        process_time = seconds(lambda: Evidence(0).update({"whole": {"": bets}}, math.inf)) / EVENTS  # noqa: B023
        both = bet_time + process_time
        measured.append(f"{both * 1e9:.0f} at {pane} events a pane")
        print(
            f"panes of {pane} events: bets {bet_time * 1e9:.1f} ns and evidence {process_time * 1e9:.1f} ns an event; "
            f"the naive loop takes {naive / both:,.0f} times as long"
        )
        assert naive / both > 100
    note("evidence", f"calibration alone: {', '.join(measured)}")


def test_tables_of_a_mean_logit() -> None:
    """What a model costs once whose mean logit no other model has."""
    own = seconds(lambda: lines(centred_shifts(1.0), TOLERANCE))
    common = seconds(lambda: lines(common_shifts(), TOLERANCE))
    print(f"\ntables of slopes about a mean logit {own * 1e3:.1f} ms, of what all models share {common * 1e3:.1f} ms")
    assert own < common
