"""What bets that outcomes changed cost an event, beside those against calibration."""

from collections.abc import Callable
from time import process_time

import numpy as np
import pytest

from monitor.scores import GridTable
from monitor.sequential.alternatives import Profile
from monitor.sequential.calibration import log_bets
from monitor.sequential.change import ChangeBets
from monitor.simulation.generator import HOUR_MS, Law
from tests.alarms_benchmark.streams import EVENTS_PER_HOUR, parts, steps_of


@pytest.mark.benchmark
@pytest.mark.parametrize("events_a_pane", [10, 50, 150])
def test_bets_that_outcomes_changed(events_a_pane: int) -> None:
    part = next(parts(Law(), "balanced", 1))
    steps = steps_of(part.time_ms, part.prediction, part.outcome, HOUR_MS * events_a_pane // EVENTS_PER_HOUR)
    profile = Profile.of(GridTable.from_events(part.prediction, part.outcome))
    events = part.prediction.size

    pairs = [
        (_seconds(lambda: ChangeBets(0, 1).bet(steps)), _seconds(lambda: log_bets(steps, profile))) for _ in range(9)
    ]
    ours, peer = 1e9 * np.median(pairs[1:], axis=0) / events
    print(
        f"\npanes of {events_a_pane} events: {ours:.0f} ns an event of 34 alternatives; D1, 36 of them: {peer:.0f} ns"
    )


def _seconds(run: Callable[[], object]) -> float:
    begin = process_time()
    run()
    return process_time() - begin
