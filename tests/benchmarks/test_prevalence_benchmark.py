"""What evidence costs an event, in panes of 100, beside naive loops over the same events."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from monitor.scores import grid
from monitor.sequential.alternatives import BUMPS, SLOPES, middle_logits
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.detector import Bets
from monitor.sequential.prevalence import PrevalenceBets
from monitor.sequential.steps import Steps
from tests.reference.naive_prevalence import Event, block_bets
from tests.sequential.streams import logistic, steps_of

pytestmark = pytest.mark.benchmark

EVENTS = 300_000
PANE = 100
PREPARED = 20
"""Panes from which a detector learns where the predictions are."""


def nanoseconds(work: Callable[[], object], events: int, repeats: int = 5) -> float:
    """Of processor time an event: the least of some runs, after one that compiles."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times) / events * 1e9


def bets_on_the_rest(detector: type[CalibrationBets] | type[PrevalenceBets], steps: Steps) -> Callable[[], Bets]:
    first = detector()
    first.bet(steps.part(0, PREPARED))
    state, rest = first.state(), steps.part(PREPARED, steps.end_ms.size)
    return lambda: detector.from_state(state).bet(rest)


@pytest.mark.parametrize("centre", [0.0, -3.6, -5.5])
def test_evidence_that_prevalence_does_not_move(centre: float) -> None:
    p, y = logistic(np.random.default_rng(0), EVENTS, centre=centre)
    steps = steps_of(p, y, PANE, 1000)
    took = nanoseconds(bets_on_the_rest(PrevalenceBets, steps), EVENTS - PREPARED * PANE)
    calibration = nanoseconds(bets_on_the_rest(CalibrationBets, steps), EVENTS - PREPARED * PANE)

    # Over all outcomes of blocks of 12 events, as far as a loop gets.
    few = 24
    z = middle_logits()[grid.locate(p[:few])]
    events = [Event(logit, at % 8, int(outcome)) for at, (logit, outcome) in enumerate(zip(z, y, strict=False))]
    start = time.process_time()
    for block in (events[:12], events[12:]):
        block_bets(block, 0.1, SLOPES, BUMPS, np.linspace(-2, 2, 8).tolist())
    loop = (time.process_time() - start) / few * 1e9

    print(f"\nprevalence {y.mean():.3f}: {took:.0f} ns an event in panes of {PANE}")
    print(f"  against calibration (36 alternatives)  {calibration:9.0f} ns")
    print(f"  naive loop, blocks of 12               {loop:9.0f} ns, {loop / took:,.0f} times as long")
    assert took < loop
