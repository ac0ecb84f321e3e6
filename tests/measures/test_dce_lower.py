"""The lower distance to calibration against its primal programme, and the bracket against enumeration."""

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from monitor.errors import NotEnoughData
from monitor.measures import MEASURES, dce_lower, distance_bracket, intce, smce
from monitor.scores import GridTable, ScoreTable
from tests.long import examples
from tests.reference import naive_measures as naive

MODULE = importlib.import_module("monitor.measures.lower_distance")  # whose name in the package is the function's

Floats = NDArray[np.float64]

EXCESS = 8e-6
"""By how much the value may be too large."""


@st.composite
def events(draw: st.DrawFn, most: int) -> tuple[Floats, Floats]:
    """Predictions with ties, and outcomes that need have nothing to do with them."""
    score = st.floats(0.0, 1.0, allow_subnormal=False) | st.integers(0, 6).map(lambda i: i / 6)
    pairs = draw(st.lists(st.tuples(score, st.integers(0, 1)), min_size=1, max_size=most))
    p, y = zip(*pairs, strict=True)
    return np.array(p), np.array(y, np.float64)


def simulated(n: int, slope: float, seed: int = 1) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    q = rng.beta(2.0, 5.0, n)
    return 1.0 / (1.0 + ((1.0 - q) / q) ** slope), (rng.random(n) < q).astype(np.float64)


@examples(12, 40)
@given(events(most=12))
def test_it_is_the_primal_programme(data: tuple[Floats, Floats]) -> None:
    at_least, at_most = naive.lower_distance_by_linear_programme(*data)
    assert at_least - 1e-7 <= dce_lower(ScoreTable.from_events(*data)) <= at_most + EXCESS


@pytest.mark.parametrize("seed", range(3))
def test_points_at_a_fine_lattice_are_the_primal_programme(seed: int) -> None:
    """With as many points as the primal needs to be exact to a thousandth."""
    rng = np.random.default_rng(seed)
    p = rng.random(10)
    y = (rng.random(10) < 0.5).astype(np.float64)
    at_least, at_most = naive.lower_distance_by_linear_programme(p, y, points=513)
    value = dce_lower(ScoreTable.from_events(p, y))
    # Points and programme are those of the dual, but for the lattice: the paper's strong duality.
    assert value == pytest.approx(at_most, abs=EXCESS)
    assert value >= at_least - 1e-7


def test_two_points_by_hand() -> None:
    """p = .4 never comes true, p = .6 always does.

    At .4 three negatives are calibrated by two positives, which come from .6; there it is the other way round. So two
    fifths of the events move by .2.
    """
    assert dce_lower(ScoreTable.from_events([0.4, 0.6], [0, 1])) == pytest.approx(0.4 * 0.2, abs=EXCESS)


@examples(15, 60)
@given(events(most=25))
def test_smce_is_within_a_factor_of_two(data: tuple[Floats, Floats]) -> None:
    """Theorem 7.3; and below intCE."""
    table = ScoreTable.from_events(*data)
    value = dce_lower(table)
    assert smce(table) / 2.0 - 1e-7 <= value <= 2.0 * smce(table) + EXCESS
    assert value <= intce(table) + EXCESS
    assert value <= float(np.abs(table.residual).sum()) / table.total + EXCESS


@examples(10, 30)
@given(events(most=7))
def test_the_bracket_holds_the_distance_whatever_is_known_of_the_events(data: tuple[Floats, Floats]) -> None:
    """If nothing tells equal predictions apart, if everything tells all events apart, or if something does."""
    p, y = data
    bracket = distance_bracket(ScoreTable.from_events(p, y))
    assert 0.0 <= bracket.lower <= bracket.upper <= intce(ScoreTable.from_events(p, y)) + 1e-12
    by_score = [np.flatnonzero(p == x).tolist() for x in np.unique(p)]
    by_event = [[i] for i in range(p.size)]
    by_outcome = [
        group for x in np.unique(p) for k in (0, 1) if (group := np.flatnonzero((p == x) & (y == k)).tolist())
    ]
    for groups in (by_score, by_event, by_outcome):
        distance = naive.distance_to_calibration_by_enumeration(p, y, groups)
        assert bracket.lower - 1e-9 <= distance <= bracket.upper + 1e-9


def test_twice_smce_does_not_bound_the_distance() -> None:
    """Where an event's prediction is all there is to know of it, as at p = .4 and .6 above, only the lower one."""
    p, y = np.array([0.4, 0.6]), np.array([0.0, 1.0])
    table = ScoreTable.from_events(p, y)
    distance = naive.distance_to_calibration_by_enumeration(p, y, [[0], [1]])
    assert distance > 2.0 * smce(table)
    assert dce_lower(table) == pytest.approx(2.0 * smce(table), abs=EXCESS)
    assert distance_bracket(table).upper == pytest.approx(distance, rel=1e-12)


def test_many_rows_are_split_between_points() -> None:
    """Of 3,000 scores 256 are points; what that costs is within what the error bound says, and far below."""
    for slope in (1.0, 1.3):
        p, y = simulated(3000, slope)
        table = ScoreTable.from_events(p, y)
        value = dce_lower(table)
        bound = MEASURES["dce_lower"].error_bound(table, value)
        assert 0.0 < bound < 1e-3
        everywhere = np.union1d(np.arange(257) / 256.0, table.score)
        _, negatives, positives = MODULE._split(table, everywhere)
        unsplit = MODULE._optimum(everywhere, negatives / table.total, positives / table.total)
        assert unsplit - bound <= value <= unsplit + EXCESS
        assert value == pytest.approx(unsplit, abs=2e-5)


@pytest.mark.parametrize("slope", [1.0, 1.5])
@pytest.mark.parametrize("prior", [0.0, -5.0])
def test_the_bracket_of_a_window_holds_that_of_its_predictions(slope: float, prior: float) -> None:
    rng = np.random.default_rng(5)
    z = rng.normal(prior, 1.2, 20_000)
    y = rng.random(z.size) < 1.0 / (1.0 + np.exp(-z))
    p = 1.0 / (1.0 + np.exp(-slope * z))
    raw = distance_bracket(ScoreTable.from_events(p, y))
    window = distance_bracket(GridTable.from_events(p, y.astype(np.int64)).to_scores())
    # The same distance lies in both.
    assert window.lower <= raw.upper
    assert raw.lower <= window.upper
    assert window.lower <= raw.lower + EXCESS
    assert window.upper - window.lower < 1.0 * raw.upper + 0.002


def test_points_lie_where_the_events_do() -> None:
    """Rare outcomes: nearly all events, and what is wrong with them, lie below the first point of the lattice."""
    rng = np.random.default_rng(6)
    p = rng.beta(1.0, 2000.0, 50_000)
    y = rng.random(p.size) < np.minimum(1.0, 3.0 * p)
    table = ScoreTable.from_events(p, y)
    assert p.mean() < 1.0 / 256.0
    assert dce_lower(table) == pytest.approx(float(y.mean() - p.mean()), rel=0.05)
    value = dce_lower(table)
    assert MEASURES["dce_lower"].error_bound(table, value) < 0.05 * value


def test_an_empty_table_is_not_enough() -> None:
    empty = ScoreTable.from_events([], [])
    with pytest.raises(NotEnoughData, match="the lower distance to calibration needs at least 1 event"):
        dce_lower(empty)
    with pytest.raises(NotEnoughData, match="the distance to calibration needs at least 1 event"):
        distance_bracket(empty)


def test_weights_count_as_repetitions() -> None:
    p, y, times = np.array([0.1, 0.4, 0.4, 0.8]), np.array([1, 0, 1, 0]), np.array([3, 1, 2, 5])
    weighted = ScoreTable.from_events(p, y, times)
    repeated = ScoreTable.from_events(np.repeat(p, times), np.repeat(y, times))
    assert dce_lower(weighted) == pytest.approx(dce_lower(repeated), abs=1e-9)
    assert distance_bracket(weighted).upper == pytest.approx(distance_bracket(repeated).upper, rel=1e-12)
