"""What evidence that prevalence does not move costs, and that of a map that serves, beside naive loops."""

import time

import numpy as np
import pytest
from scipy.special import expit, logit

from monitor.arrays import Floats
from monitor.scores import grid
from monitor.sequential.alternatives import BUMPS, SLOPES, middle_logits
from monitor.sequential.prevalence import PrevalenceBets
from monitor.sequential.serving_map import SHARES, ServingMapBets
from tests.benchmarks.budgets import note
from tests.benchmarks.test_evidence_benchmark import seconds
from tests.reference.naive_prevalence import Event, block_bets
from tests.reference.naive_serving_map import largest_loss, log_bet
from tests.sequential.streams import logistic, steps_of

pytestmark = pytest.mark.benchmark

EVENTS = 300_000
PREPARED = 20
"""Panes from which a detector learns where the predictions are."""


@pytest.mark.parametrize("centre", [0.0, -3.6, -5.5])
def test_bets_that_prevalence_does_not_move(centre: float) -> None:
    p, y = logistic(np.random.default_rng(0), EVENTS, centre=centre)
    measured = []
    for pane in (50, 100, 150):
        steps = steps_of(p, y, pane, 1000)
        prepared = PrevalenceBets()
        prepared.bet(steps.part(0, PREPARED))
        state, rest = prepared.state(), steps.part(PREPARED, steps.end_ms.size)
        took = seconds(lambda: PrevalenceBets.from_state(state).bet(rest)) / (EVENTS - PREPARED * pane)  # noqa: B023
        measured.append(f"{took * 1e9:.0f} at {pane}")

    # Over all outcomes of blocks of 12 events, as far as a loop gets.
    few = 24
    z = middle_logits()[grid.locate(p[:few])]
    events = [Event(logit, at % 8, int(outcome)) for at, (logit, outcome) in enumerate(zip(z, y, strict=False))]
    start = time.process_time()
    for block in (events[:12], events[12:]):
        block_bets(block, 0.1, SLOPES, BUMPS, np.linspace(-2, 2, 8).tolist())
    loop = (time.process_time() - start) / few
    print(f"\nprevalence {y.mean():.3f}: {', '.join(measured)} events a pane, in ns an event")
    print(f"  the naive loop, blocks of 12, takes {loop / took:,.0f} times as long")
    if centre == 0.0:
        note("evidence", f"robust to prevalence: {', '.join(measured)} events a pane")
    assert loop / took > 100


def test_bets_that_a_map_does_harm() -> None:
    def recalibrate(p: Floats) -> Floats:
        return np.asarray(expit(0.8 * logit(np.clip(p, 1e-12, 1 - 1e-12))))

    p, y = logistic(np.random.default_rng(0), EVENTS)
    steps, detector = steps_of(p, y, 100, 1000), ServingMapBets(recalibrate)
    took = seconds(lambda: detector.bet(steps)) / EVENTS
    table = seconds(lambda: ServingMapBets(recalibrate))
    few = list(zip(p[:1000].tolist(), recalibrate(p[:1000]).tolist(), y[:1000].astype(int).tolist(), strict=True))
    naive = seconds(lambda: [log_bet(share, largest_loss(few), few) for share in SHARES], 1) / len(few)
    print(f"\nmap: {took * 1e9:.1f} ns an event, its table {table * 1e3:.1f} ms")
    print(f"  the naive loop takes {naive / took:,.0f} times as long")
    note("evidence", f"map: {took * 1e9:.0f} at 100")
    assert naive / took > 100
