"""The common shock of periods: that of DerSimonian and Laird, without bias, with an interval that covers."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from monitor.errors import NotEnoughData
from monitor.scores import GridTable, grid
from monitor.scores.steps import Steps
from monitor.sequential.shock import common_shock
from tests.reference.naive_shock import variance_between

HORIZON_MS = 1000


def shocked(rng: np.random.Generator, periods: int, events: float, centre: float, deviation: float) -> Steps:
    """Periods of so many events each, on average, at 15 distinct predictions."""
    spread = np.linspace(-2, 2, 15)
    p, share = expit(centre + 1.2 * spread), np.exp(-(spread**2) / 2)
    count = rng.multinomial(rng.poisson(events, periods), share / share.sum())
    shock = deviation * rng.normal(size=(periods, 1))
    positives = rng.binomial(count, expit(logit(p) + shock))
    labels = np.stack([positives, count - positives], axis=-1)
    cell = grid.locate(p)
    sums = labels * (grid.to_units(p) - grid.anchors()[cell])[:, None]
    nothing = np.zeros((periods, p.size, 1), np.int64)
    values = np.concatenate([labels, nothing, sums, nothing], axis=-1).reshape(-1, 6)
    end_ms = HORIZON_MS * np.arange(1, periods + 1)
    return Steps(end_ms, p.size * np.arange(periods + 1), np.tile(cell, periods), values)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5000), st.floats(0.001, 0.999), st.integers(0, 1)), min_size=4, max_size=60))
def test_it_is_the_estimate_of_dersimonian_and_laird(events: list[tuple[int, float, int]]) -> None:
    """Of periods that hold several steps, which end at any time in them; corrected to second order."""
    assume(len({y for _, _, y in events}) == 2)
    assume(len({(end - 1) // HORIZON_MS for end, _, _ in events}) >= 2)
    tables, periods = dict[int, GridTable](), dict[int, list[tuple[float, int]]]()
    for end_ms, p, y in sorted(events):
        tables[end_ms] = tables.get(end_ms, GridTable.zero()) + GridTable.from_events([p], [y])
        periods.setdefault((end_ms - 1) // HORIZON_MS, []).append((p, y))
    shock = common_shock(Steps.of(tables.items()), HORIZON_MS)
    estimate, bend = variance_between(periods)
    square = shock.deviation**2
    assert shock.periods == len(periods)
    assert shock.lower <= shock.upper
    if estimate <= 0:
        assert shock.deviation == pytest.approx(0, abs=1e-3)
    elif 1 + 4 * bend * estimate > 0:
        assert square + bend * square**2 == pytest.approx(estimate, rel=1e-3)
    else:
        assert square == pytest.approx(2 * estimate)


@pytest.mark.parametrize(
    ("periods", "events", "centre", "deviation"),
    [
        (60, 500, 0.0, 0.0),
        (60, 500, 0.0, 0.1),
        (60, 500, 0.0, 0.3),
        (200, 20, 0.0, 0.3),
        (200, 20, 0.0, 0.6),
        (60, 3000, -4.6, 0.3),
        (200, 300, -4.6, 0.0),
        (200, 300, -4.6, 0.6),
        (200, 30, -4.6, 0.6),
    ],
)
def test_bias_and_coverage(periods: int, events: int, centre: float, deviation: float) -> None:
    """With three positives in ten periods in the last case."""
    rng = np.random.default_rng(0)
    runs = [common_shock(shocked(rng, periods, events, centre, deviation), HORIZON_MS) for _ in range(100)]
    root_mean_square = np.sqrt(np.mean([run.deviation**2 for run in runs]))
    covered = np.mean([run.lower <= deviation <= run.upper for run in runs])
    print(f"\n{root_mean_square:.3f} for {deviation}, covered {covered:.2f}")
    assert covered >= 0.9
    if deviation:
        assert root_mean_square == pytest.approx(deviation, rel=0.1)
    else:
        # The estimate of the variance is cut off at 0, so it is no more than its error.
        assert np.mean([run.deviation == 0.0 for run in runs]) > 0.35
        assert np.mean([run.lower == 0.0 for run in runs]) >= 0.93


def test_an_error_that_all_periods_have_is_no_shock() -> None:
    rng = np.random.default_rng(0)
    p = expit(1.5 * rng.normal(size=40_000))
    y = rng.random(p.size) < expit(logit(p) + 0.7)
    tables = [(at + 1, GridTable.from_events(p[at::40], y[at::40])) for at in range(40)]
    shock = common_shock(Steps.of(tables), 1)
    assert shock.deviation < 0.1
    assert shock.lower == 0.0


def test_too_little_is_said() -> None:
    one = GridTable.from_events([0.2, 0.7], [1, 0])
    with pytest.raises(NotEnoughData, match="needs 2 periods with outcomes, got 1"):
        common_shock(Steps.of([(10, one), (20, one), (2000, GridTable.from_events([0.5], [-1]))]), HORIZON_MS)
    with pytest.raises(NotEnoughData, match="both kinds, got 0 positive ones"):
        common_shock(Steps.of([(at, GridTable.from_events([0.1], [0])) for at in (10, 1010)]), HORIZON_MS)
