"""Brier score, log loss, Spiegelhalter's z and the CORP decomposition."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as peers_log_loss

from monitor.errors import InputError, NotEnoughData
from monitor.measures import MEASURES, brier, corp_curve, corp_decomposition, log_loss, spiegelhalter, spiegelhalter_z
from monitor.measures.proper_scores import Score
from monitor.scores import GridTable, ScoreTable
from tests.reference.naive_scores import brier_by_loop, isotonic_by_min_max, log_loss_by_loop, spiegelhalter_by_loop
from tests.reference.peers import decomposition_of_model_diagnostics

Floats = NDArray[np.float64]

weighted_events = st.lists(
    st.tuples(st.integers(0, 20).map(lambda i: i / 20), st.integers(0, 1), st.sampled_from([0.5, 1.0, 3.0])),
    min_size=1,
    max_size=30,
)


def simulated(seed: int, n: int, *, slope: float = 1.0, mean: float = 0.0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    z = rng.normal(mean, 1.3, n)
    return expit(slope * z), (rng.random(n) < expit(z)).astype(np.float64)


@given(weighted_events)
def test_scores_are_those_of_single_events(events: list[tuple[float, int, float]]) -> None:
    p, y, w = (np.array(each, np.float64) for each in zip(*events, strict=True))
    table = ScoreTable.from_events(p, y, w)
    assert brier(table) == pytest.approx(brier_by_loop(p, y, w), rel=1e-12)
    assert log_loss(table) == pytest.approx(log_loss_by_loop(p, y, w), rel=1e-12)
    if ((p > 0.0) & (p < 1.0) & (p != 0.5)).any():
        assert spiegelhalter_z(table) == pytest.approx(spiegelhalter_by_loop(p, y, w), rel=1e-9, abs=1e-12)
    assert spiegelhalter(table) == abs(spiegelhalter_z(table))


def test_scores_are_those_of_scikit_learn() -> None:
    p, y = simulated(1, 2000)
    w = np.random.default_rng(2).exponential(1.0, p.size)
    table = ScoreTable.from_events(p, y, w)
    assert brier(table) == pytest.approx(brier_score_loss(y, p, sample_weight=w), rel=1e-12)
    assert log_loss(table) == pytest.approx(peers_log_loss(y, p, sample_weight=w), rel=1e-12)


@pytest.mark.parametrize("mean", [0.0, -4.0])
def test_a_window_has_the_scores_of_its_predictions(mean: float) -> None:
    """Not only within the bound, which is of the worst that could be."""
    p, y = simulated(3, 20_000, mean=mean)
    raw, cells = ScoreTable.from_events(p, y), GridTable.from_events(p, y).to_scores()
    assert brier(cells) == pytest.approx(brier(raw), rel=1e-5)
    assert log_loss(cells) == pytest.approx(log_loss(raw), rel=1e-5)
    assert spiegelhalter_z(cells) == pytest.approx(spiegelhalter_z(raw), abs=1e-3)


def test_what_was_said_to_be_impossible_has_an_infinite_log_loss() -> None:
    assert log_loss(ScoreTable.from_events([0.0, 0.5], [1, 0])) == math.inf
    assert log_loss(ScoreTable.from_events([1.0, 0.5], [0, 0])) == math.inf
    assert log_loss(ScoreTable.from_events([0.0, 1.0], [0, 1])) == 0.0
    assert corp_decomposition(ScoreTable.from_events([0.0, 0.5], [1, 0]), "log_loss").miscalibration == math.inf


@pytest.mark.parametrize("p", [1e-13, 4e-13, 1e-300, 1.0 - 1e-13, np.nextafter(1.0, 0.0)])
def test_a_window_takes_what_rounds_to_0_or_1_for_neither_impossible_nor_the_least_there_is(p: float) -> None:
    """Such predictions are 0 or 1 in whole units, and all that a window knows is that they lie within half of one."""
    y = np.array([p < 0.5, p > 0.5, 0], np.int64)
    prediction = np.array([p, p, 0.3])
    window, raw = GridTable.from_events(prediction, y).to_scores(), log_loss(ScoreTable.from_events(prediction, y))
    value = log_loss(window)
    assert 25.0 < 3.0 * value < 35.0
    assert abs(value - raw) <= MEASURES["log_loss"].error_bound(window, value) < math.inf
    if 1e-13 <= p <= 1.0 - 1e-13:
        assert value == pytest.approx(raw, abs=0.7)


def test_the_sign_of_z_tells_too_sure_from_too_timid() -> None:
    assert spiegelhalter_z(ScoreTable.from_events(*simulated(4, 5000, slope=1.5))) > 5.0
    assert spiegelhalter_z(ScoreTable.from_events(*simulated(4, 5000, slope=0.7))) < -5.0
    assert spiegelhalter_z(ScoreTable.from_events([0.5] * 9, [1] * 9)) == 0.0
    assert spiegelhalter_z(ScoreTable.from_events([0.0, 0.5], [1, 1])) == math.inf


def test_z_of_a_calibrated_model_is_standard_normal_also_of_weights() -> None:
    runs, refused = 800, np.zeros(2)
    for run in range(runs):
        p, y = simulated(run, 300, mean=-1.0)
        weight = np.random.default_rng(run).exponential(1.0, p.size)
        refused += [
            spiegelhalter(ScoreTable.from_events(p, y)) > 1.96,
            spiegelhalter(ScoreTable.from_events(p, y, weight)) > 1.96,
        ]
    assert (np.abs(refused / runs - 0.05) <= 0.03).all(), refused / runs


@given(weighted_events)
def test_the_curve_is_isotonic_regression(events: list[tuple[float, int, float]]) -> None:
    p, y, w = (np.array(each, np.float64) for each in zip(*events, strict=True))
    table = ScoreTable.from_events(p, y, w)
    curve = corp_curve(table)
    np.testing.assert_allclose(curve[np.searchsorted(table.score, p)], isotonic_by_min_max(p, y, w), atol=1e-12)
    np.testing.assert_allclose(curve, IsotonicRegression().fit(p, y, sample_weight=w).predict(table.score), atol=1e-9)
    assert (np.diff(curve) >= 0.0).all()


@pytest.mark.parametrize("score", ["brier", "log_loss"])
@given(events=weighted_events)
def test_the_parts_add_up_and_recalibration_leaves_no_miscalibration(
    score: Score, events: list[tuple[float, int, float]]
) -> None:
    p, y, w = (np.array(each, np.float64) for each in zip(*events, strict=True))
    p = np.clip(p, 0.01, 0.99)
    table = ScoreTable.from_events(p, y, w)
    parts = corp_decomposition(table, score)
    assert min(parts.miscalibration, parts.discrimination, parts.uncertainty) >= 0.0
    assert parts.miscalibration - parts.discrimination + parts.uncertainty == pytest.approx(parts.score, abs=1e-12)
    assert parts.score == (brier if score == "brier" else log_loss)(table)
    again = corp_decomposition(ScoreTable.from_events(corp_curve(table)[np.searchsorted(table.score, p)], y, w), score)
    assert again.miscalibration == pytest.approx(0.0, abs=1e-12)
    assert again.discrimination == pytest.approx(parts.discrimination, abs=1e-12)


@pytest.mark.parametrize("score", ["brier", "log_loss"])
def test_the_parts_are_those_of_model_diagnostics(score: Score) -> None:
    p, y = simulated(5, 1000, slope=1.4)
    p = np.round(p, 2).clip(0.01, 0.99)  # with ties
    parts = corp_decomposition(ScoreTable.from_events(p, y), score)
    for part, expected in decomposition_of_model_diagnostics(p, y, score).items():
        assert getattr(parts, part) == pytest.approx(expected, abs=1e-10)


def test_refusals() -> None:
    with pytest.raises(InputError, match="score must be one of 'brier', 'log_loss', got 'crps'"):
        corp_decomposition(ScoreTable.from_events([0.5], [1]), "crps")  # type: ignore[call-overload]
    empty = ScoreTable.from_events([], [])
    for of in (brier, log_loss, spiegelhalter, corp_curve, corp_decomposition):
        with pytest.raises(NotEnoughData, match="needs at least 1 event, got 0"):
            of(empty)
