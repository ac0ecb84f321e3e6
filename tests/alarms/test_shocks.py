"""The common shock of versions in the service: estimated from settled panes, once a period, and warned of once."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from structlog.testing import capture_logs

from monitor.alarms import shocks
from monitor.alarms.shocks import Shocks
from monitor.clock import ManualClock
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.scores import GridTable
from monitor.scores.steps import Steps
from monitor.sequential.shock import CommonShock, common_shock
from monitor.store.base import ModelClock
from monitor.store.closing import Cells, Closing, Panes
from monitor.store.model_evidence import ModelEvidence, Shock, VersionEvidence
from monitor.windows.panes import ClosedPanes

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
PANE_MS = 15 * MINUTE_MS
START_MS = 500_000 * HOUR_MS
KEPT_MS = {MINUTE_MS: HOUR_MS, PANE_MS: 40 * HOUR_MS, 3 * HOUR_MS: 400 * HOUR_MS}
SEVEN = SeriesKey("churn", "7", ALL)
EVIDENCE = ModelEvidence({"7": VersionEvidence(START_MS, {})})


class World:
    """Panes of a model with a horizon of an hour, whose logits are off by the same in each hour."""

    def __init__(self, deviation: float) -> None:
        policy = ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=0)
        self.panes = ClosedPanes(KEPT_MS, lambda _: policy)
        self.clock = ManualClock(START_MS)
        self.shocks = Shocks(self.panes, list(KEPT_MS), lambda _: 0.05, self.clock)
        self.deviation = deviation
        self.tables: list[tuple[int, GridTable]] = []
        self._rng = np.random.default_rng(5)
        self._offset = 0.0

    def close(self, panes: int) -> None:
        """Settle so many more panes of a quarter of an hour."""
        for _ in range(panes):
            if len(self.tables) % 4 == 0:
                self._offset = self._rng.normal(0.0, self.deviation)
            from_ms = START_MS + len(self.tables) * PANE_MS
            to_ms = from_ms + PANE_MS
            logit = self._rng.normal(0.0, 1.5, 400)
            p, truth = 1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(-(logit + self._offset)))
            table = GridTable.from_events(p, self._rng.random(400) < truth)
            self.tables.append((to_ms, table))
            of = np.zeros(table.cell.size, np.int64)
            cells = Cells(of, of + from_ms, table.cell, table.values)
            closing = Closing("churn", from_ms, to_ms, PANE_MS, Panes((SEVEN,), cells))
            self.panes.advance(0, "churn", ModelClock(to_ms, to_ms, to_ms), [closing])
            self.panes.settle("churn")

    def shock(self) -> Shock | None:
        return self.shocks.add("churn", EVIDENCE).versions["7"].shock

    def expected(self, first: int, end: int) -> tuple[float, float, float, int]:
        """Of the panes from one to another, from the library."""
        found = common_shock(Steps.of(self.tables[first:end]), HOUR_MS)
        return found.deviation, found.lower, found.upper, found.periods


def test_it_is_that_of_the_whole_periods_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(0.3)
    world.close(7)
    assert world.shock() is None  # one period alone
    world.close(1)
    assert world.shock() == Shock(*world.expected(0, 8), tolerance=0.05)
    computed = Mock(wraps=common_shock)
    monkeypatch.setattr(shocks, "common_shock", computed)
    world.close(3)
    # The period is not over.
    assert world.shock() == Shock(*world.expected(0, 8), tolerance=0.05)
    computed.assert_not_called()
    world.close(189)
    # Panes of a quarter of an hour are kept for forty hours; wider ones do not fit into a period.
    assert world.shock() == Shock(*world.expected(40, 200), tolerance=0.05)
    assert world.shock() is world.shock()
    computed.assert_called_once()


def test_a_shock_that_the_tolerance_does_not_cover_is_logged_once() -> None:
    world = World(0.3)
    with capture_logs() as logs:
        for _ in range(30):
            world.close(4)
            shock = world.shock()
    assert shock is not None
    assert shock.lower > 0.15
    assert not shock.covered
    (entry,) = logs
    assert (entry["log_level"], entry["model"], entry["version"]) == ("warning", "churn", "7")
    assert "within_horizon" in entry["detail"]
    assert "drift" in shock.sentence
    # The tolerance that it recommends would do.
    enough = float(shock.sentence.split("tolerance to ")[1].split(",")[0])
    assert 0.0 <= enough - 2 * shock.deviation <= 0.01
    assert shock._replace(tolerance=enough).covered
    # A version that stopped and came back is another one.
    world.shocks.add("churn", ModelEvidence())
    with capture_logs() as logs:
        world.shock()
    assert len(logs) == 1


def test_estimates_take_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(0.3)

    def slow(*of: Any) -> CommonShock:
        world.clock.advance(2.0)
        return common_shock(*of)

    monkeypatch.setattr(shocks, "common_shock", slow)
    world.close(8)
    before = world.shock()
    assert before is not None
    world.close(4)
    # The first one took twice what there is for estimates.
    assert world.shock() == before
    world.clock.advance(7.0)
    assert world.shock() == before
    world.clock.advance(2.0)
    assert world.shock() == Shock(*world.expected(0, 12), tolerance=0.05)


def test_without_a_shock_nothing_is_said() -> None:
    world = World(0.0)
    with capture_logs() as logs:
        world.close(160)
        shock = world.shock()
    assert shock is not None
    assert shock.covered
    assert shock.sentence.endswith("which its tolerance of 0.05 may cover.")
    assert logs == []
