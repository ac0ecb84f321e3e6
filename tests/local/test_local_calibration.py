from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.local import LocalCalibration, Standardised, group_calibration_error, local_calibration_error
from monitor.local.calibration import BINS_OF_FEW, DEFAULT_BINS
from monitor.measures import ece
from monitor.scores import ScoreTable
from tests.long import examples
from tests.reference import naive_local

Floats = NDArray[np.float64]


def opposite_errors(n: int, size: float, seed: int = 1) -> tuple[Floats, Floats, Floats]:
    """Predictions too high by ``size`` for half of the events, too low for the other half; features tell them apart."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    p = rng.uniform(0.3, 0.7, n)
    y = (rng.random(n) < p - size * np.sign(x[:, 0])).astype(np.float64)
    return p, y, x


@st.composite
def events(draw: st.DrawFn) -> tuple[Floats, Floats, Floats]:
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    p = np.round(rng.random(n), draw(st.integers(1, 6)))
    return p, rng.integers(0, 2, n).astype(np.float64), np.round(rng.normal(size=(n, draw(st.integers(1, 4)))), 1)


@examples(20, 60)
@given(data=events(), gamma=st.floats(0.05, 20.0), bins=st.integers(1, 6))
def test_every_point_is_the_papers_loop(data: tuple[Floats, Floats, Floats], gamma: float, bins: int) -> None:
    p, y, phi = data
    found = local_calibration_error(p, y, phi, gamma=gamma, bins=bins, least_neighbours=1.0)
    naive = [naive_local.local_error(x, data, gamma, bins) for x in range(p.size)]
    np.testing.assert_allclose(found.error, [error for error, _ in naive], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.n_eff, [n_eff for _, n_eff in naive], rtol=1e-9)
    assert found.points.tolist() == list(range(p.size))
    assert found.mlce == pytest.approx(max(abs(error) for error, _ in naive), abs=1e-12)
    assert found.mean_lce == pytest.approx(np.mean([abs(error) for error, _ in naive]), abs=1e-12)
    assert found.lce[found.worst] == found.mlce
    assert 0.0 <= found.mean_lce <= found.mlce <= 1.0
    assert ((found.n_eff >= 1.0 - 1e-12) & (found.n_eff <= p.size + 1e-9)).all()


@examples(12, 40)
@given(data=events(), bins=st.integers(1, 6))
def test_between_the_event_itself_and_its_bin(data: tuple[Floats, Floats, Floats], bins: int) -> None:
    """Gamma leads from the one to the other (paper, section 3.1 and lemma 1)."""
    p, y, phi = data
    wide = local_calibration_error(p, y, phi, gamma=np.inf, bins=bins, least_neighbours=1.0)
    gaps = naive_local.bin_gaps(p, y, bins)
    np.testing.assert_allclose(wide.lce, gaps, atol=1e-12)
    assert wide.mlce == pytest.approx(gaps.max())
    assert wide.mean_lce == pytest.approx(ece(ScoreTable.from_events(p, y), n_bins=bins))
    apart = phi + 100.0 * np.arange(p.size)[:, None]  # no two events of equal features
    narrow = local_calibration_error(p, y, apart, gamma=1e-6, bins=bins, least_neighbours=1.0)
    np.testing.assert_allclose(narrow.lce, np.abs(p - y), atol=1e-9)
    np.testing.assert_allclose(narrow.n_eff, 1.0)


@examples(10, 30)
@given(data=events(), groups=st.integers(1, 4))
def test_groups_have_the_gaps_of_their_bins(data: tuple[Floats, Floats, Floats], groups: int) -> None:
    p, y, _ = data
    group = np.array(list("abcd"))[np.arange(p.size) % groups]
    found = group_calibration_error(p, y, group, bins=4, least_neighbours=1.0)
    for name in np.unique(group):
        inside = group == name
        np.testing.assert_allclose(found.lce[inside], naive_local.bin_gaps(p[inside], y[inside], 4), atol=1e-12)
    place = np.searchsorted([0.25, 0.5, 0.75], p, side="right")
    np.testing.assert_allclose(
        found.n_eff, [((group == g) & (place == b)).sum() for g, b in zip(group, place, strict=True)]
    )


def test_opposite_errors_that_the_bins_do_not_see() -> None:
    p, y, x = opposite_errors(5000, 0.2)
    found = local_calibration_error(p, y, Standardised.fit(x).apply(x), draws=99, seed=2)
    bins = local_calibration_error(p, y, x, gamma=np.inf, draws=99, seed=2)
    assert ece(ScoreTable.from_events(p, y)) < 0.03
    assert found.level is not None
    assert bins.level is not None
    assert bins.level.mean_lce.p_value > 0.05
    assert found.level.mlce.p_value == found.level.mean_lce.p_value == 0.01
    assert found.mlce_excess is not None
    assert found.mlce_excess > 0.07
    assert found.mean_lce_excess is not None
    assert found.mean_lce_excess > 0.05
    # Where the first feature is above 0, predictions are too high.
    far = np.abs(x[:, 0]) > 0.7
    assert (np.sign(found.error) == np.sign(x[:, 0]))[far & found.valid].mean() > 0.99
    assert found.prediction[found.worst] == pytest.approx(p[found.worst], abs=1 / DEFAULT_BINS)


def test_groups_of_opposite_errors() -> None:
    p, y, x = opposite_errors(5000, 0.2)
    found = group_calibration_error(p, y, np.where(x[:, 0] > 0, "high", "low"), draws=99)
    np.testing.assert_allclose(found.error, 0.2 * np.sign(x[:, 0]), atol=0.08)
    assert found.mean_lce_excess is not None
    assert found.mean_lce_excess > 0.15


def test_the_excess_of_a_calibrated_model_is_around_0_although_its_errors_are_not() -> None:
    excess, raw = [], []
    for seed in range(20):
        p, y, x = opposite_errors(800, 0.0, seed)
        found = local_calibration_error(p, y, x, draws=39, least_neighbours=20.0)
        excess.append([found.mlce_excess, found.mean_lce_excess])
        raw.append([found.mlce, found.mean_lce])
    assert np.mean(raw, axis=0).min() > 0.03
    assert (np.abs(np.mean(np.array(excess, np.float64), axis=0)) < 0.2 * np.mean(raw, axis=0)).all()


def test_lonely_points_do_not_count() -> None:
    """A small gamma gives the true probabilities errors near 1 (paper, Figure 1), unless neighbours are asked for."""
    p, y, x = opposite_errors(3000, 0.0)
    lonely = local_calibration_error(p, y, x, gamma=0.01, least_neighbours=1.0)
    assert lonely.mlce > 0.6
    found = local_calibration_error(p, y, x, gamma=0.15)
    assert 0.0 < found.valid_share < 1.0
    assert found.mlce < 0.3
    with pytest.raises(NotEnoughData, match=r"no event has 50 effective neighbours, the most is .*a larger gamma"):
        local_calibration_error(p, y, x, gamma=0.01)


def test_the_largest_of_many_classes() -> None:
    rng = np.random.default_rng(4)
    p = rng.dirichlet([1.0, 1.0, 1.0], 500)
    y = rng.integers(0, 3, 500)
    x = rng.normal(size=(500, 2))
    options: dict[str, Any] = {"draws": 19, "seed": 5}
    found = local_calibration_error(p, y, x, **options)
    binary = local_calibration_error(p.max(axis=1), p.argmax(axis=1) == y, x, **options)
    np.testing.assert_allclose(found.error, binary.error)
    assert found.level is not None
    assert binary.level is not None
    assert found.level.mlce.mean == pytest.approx(binary.level.mlce.mean)


def test_of_many_events_a_sample_of_points_is_looked_at() -> None:
    p, y, x = opposite_errors(5000, 0.2)
    everywhere = local_calibration_error(p, y, x, max_points=None)
    sampled = local_calibration_error(p, y, x, max_points=300)
    assert sampled.points.size == 300
    assert (np.diff(sampled.points) > 0).all()
    np.testing.assert_allclose(sampled.error, everywhere.error[sampled.points], rtol=1e-9)
    assert sampled.mean_lce == pytest.approx(everywhere.mean_lce, rel=0.1)
    assert sampled.mlce <= everywhere.mlce


def test_the_numbers_follow_from_the_data_and_from_the_seed() -> None:
    p, y, x = opposite_errors(1200, 0.1)

    def levels(found: LocalCalibration) -> tuple[list[int], float, float]:
        assert found.level is not None
        return found.points.tolist(), found.level.mlce.mean, found.level.mean_lce.q95

    options: dict[str, Any] = {"max_points": 100, "draws": 19}
    same = [levels(local_calibration_error(p, y, x, **options)) for _ in range(2)]
    assert same[0] == same[1]
    seeded = [levels(local_calibration_error(p, y, x, seed=seed, **options)) for seed in (3, 3, 4)]
    assert seeded[0] == seeded[1] != seeded[2]
    assert same[0] != levels(local_calibration_error(p, y, x + 1e-9, **options))


def test_few_events_have_fewer_bins() -> None:
    p, y, x = opposite_errors(1000, 0.1)
    assert local_calibration_error(p, y, x).bins == DEFAULT_BINS
    assert local_calibration_error(p[:999], y[:999], x[:999]).bins == BINS_OF_FEW


def test_a_level_is_there_when_it_was_drawn() -> None:
    p, y, x = opposite_errors(300, 0.1)
    found = local_calibration_error(p, y, x)
    assert found.level is None
    assert found.mlce_excess is None
    assert found.mean_lce_excess is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0.0}, r"gamma must be above 0, got 0\.0"),
        ({"gamma": float("nan")}, "gamma must be above 0, got nan"),
        ({"bins": 0}, "bins must be a whole number of at least 1, got 0"),
        ({"bins": 2.5}, r"bins must be a whole number of at least 1, got 2\.5"),
        ({"max_points": 0}, "max_points must be a whole number of at least 1, got 0"),
        ({"least_neighbours": 0.0}, r"least_neighbours must be a finite number above 0, got 0\.0"),
        ({"draws": 3}, "draws must be 0 or at least 19, got 3"),
        ({"phi": np.zeros((3, 2))}, "there must be coordinates for each prediction, got 3 for 2"),
        ({"phi": np.zeros(2)}, r"features must have the shape \(events, features\), got \(2,\)"),
        ({"prediction": [0.5, 1.5]}, r"prediction must be in \[0, 1\], got 1\.5 at index 1"),
        ({"outcome": [0.0, 2.0]}, "outcome must be 0 or 1, got 2 at index 1"),
        ({"outcome": [0.0]}, r"equally long, got shapes \(2,\) and \(1,\)"),
        ({"outcome": ["a", "b"]}, "must be numbers"),
        ({"prediction": [[0.5, 0.4], [0.5, 0.5]]}, r"must add up to 1 over the classes, got 0\.9 in row 0"),
    ],
)
def test_a_wrong_value_is_named(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"prediction": [0.2, 0.4], "outcome": [0.0, 1.0], "phi": np.zeros((2, 2))} | options
    with pytest.raises(InputError, match=message):
        local_calibration_error(given.pop("prediction"), given.pop("outcome"), given.pop("phi"), **given)


def test_nothing_is_not_enough() -> None:
    with pytest.raises(NotEnoughData, match="at least 1 event, got 0"):
        local_calibration_error([], [], np.empty((0, 2)))


def test_groups_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(InputError, match="group must have one dimension"):
        group_calibration_error([0.5], [1.0], [["a"]])
    with pytest.raises(InputError, match=r"group must hold values that can be sorted: .*; name them by strings"):
        group_calibration_error([0.5, 0.5], [1.0, 0.0], np.array(["a", None], object))


def test_a_weight_counts_as_so_many_events_but_makes_no_more_neighbours() -> None:
    p, y, phi = opposite_errors(300, 0.2)
    times = np.random.default_rng(5).integers(1, 4, p.size)
    weighted = local_calibration_error(p, y, phi, weight=0.1 * times, least_neighbours=1.0)
    rows = np.repeat(np.arange(p.size), times)
    repeated = local_calibration_error(p[rows], y[rows], phi[rows], bins=weighted.bins, least_neighbours=1.0)
    np.testing.assert_allclose(weighted.error[rows], repeated.error, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weighted.prediction[rows], repeated.prediction)
    assert weighted.mlce == pytest.approx(repeated.mlce)
    assert weighted.mean_lce == pytest.approx(repeated.mean_lce)
    assert (weighted.n_eff < repeated.n_eff[np.searchsorted(rows, np.arange(p.size))]).all()
    drawn_level = local_calibration_error(p, y, phi, weight=times, least_neighbours=1.0, draws=39).level
    assert drawn_level is not None
    assert drawn_level.mean_lce.mean < weighted.mlce


def test_weights_that_are_all_alike_change_nothing() -> None:
    p, y, phi = opposite_errors(300, 0.2)
    plain = local_calibration_error(p, y, phi, draws=39, seed=1)
    weighted = local_calibration_error(p, y, phi, weight=np.full(p.size, 7.0), draws=39, seed=1)
    np.testing.assert_allclose(weighted.error, plain.error, rtol=1e-9)
    np.testing.assert_allclose(weighted.n_eff, plain.n_eff)
    assert weighted.mean_lce_excess == pytest.approx(plain.mean_lce_excess)
    group = (phi[:, 0] > 0).astype(int)
    one, two = (group_calibration_error(p, y, group, weight=w) for w in (None, np.full(p.size, 7.0)))
    assert one.mlce == pytest.approx(two.mlce)
