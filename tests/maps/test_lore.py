import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, logit

from monitor.local.neighbour_loops import laplace_sums
from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps import lore as module
from monitor.maps.lore import GAMMAS, METHOD, WHOLE_BIN, Lore, bin_indices, coordinates, leave_one_out_losses
from monitor.scores.labelled import LabelledEvents
from tests.long import examples, longer
from tests.reference import naive_lore

Floats = NDArray[np.float64]


def simulated(seed: int, n: int = 300, d: int = 3, *, weighted: bool = False) -> LabelledEvents:
    """Predictions that are too high where the second feature is below 0, and too low elsewhere."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    p = expit(x[:, 0])
    y = rng.random(n) < expit(logit(p) + np.sign(x[:, 1 % d]))
    return LabelledEvents.of(p, y, features=x, weight=rng.uniform(0.2, 3.0, n) if weighted else None)


def fit(events: LabelledEvents, **options: Any) -> Lore:
    found = fit_map(METHOD, events, options)
    assert isinstance(found, Lore)
    return found


def naive_data(lore: Lore, events: LabelledEvents) -> naive_lore.Data:
    assert events.features is not None
    phi = coordinates(lore.space, events.features).astype(np.float64)
    return events.prediction, events.outcome.astype(np.float64), phi, events.weight


# --- The formula ------------------------------------------------------------------------------------------------------


@examples(5, 15)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.05, 0.4, 3.0]),
    st.integers(1, 15),
    st.sampled_from([0.0, 1.0, 5.0]),
    st.tuples(st.booleans(), st.sampled_from(["pca", "standardised"]), st.sampled_from([0.0, 1.0, 20.0])),
)
def test_it_is_the_papers_formula(
    seed: int, gamma: float, bins: int, shrinkage: float, others: tuple[bool, str, float]
) -> None:
    weighted, space, prior = others
    events, asked = simulated(seed, 120, weighted=weighted), simulated(seed + 1, 10)
    lore = fit(events, gamma=gamma, bins=bins, shrinkage=shrinkage, space=space, prior=prior)
    assert asked.features is not None
    at = coordinates(lore.space, asked.features).astype(np.float64)
    data = naive_data(lore, events)
    wanted = [
        naive_lore.recalibrated(p, x, data, gamma=gamma, bins=bins, shrinkage=shrinkage, prior=prior)
        for p, x in zip(asked.prediction, at, strict=True)
    ]
    found = apply_map(lore, asked.prediction, features=asked.features)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shrinkage", "prior"), [(0.0, 0.0), (5.0, 0.0), (5.0, 1.0)])
def test_losses_are_those_of_leaving_each_event_out(weighted: bool, shrinkage: float, prior: float) -> None:
    events = simulated(5, 80, weighted=weighted)
    lore = fit(events, bins=4, shrinkage=shrinkage)
    data = naive_data(lore, events)
    gammas = np.array([0.05, 0.4, 6.4])
    found = leave_one_out_losses(lore.stored, lore.bins, shrinkage, prior, gammas)
    wanted = [naive_lore.leave_one_out(data, gamma=gamma, bins=4, shrinkage=shrinkage, prior=prior) for gamma in gammas]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_gamma_is_that_of_the_least_loss() -> None:
    events = simulated(6, 2000)
    lore = fit(events)
    losses = leave_one_out_losses(lore.stored, lore.bins, 5.0, 1.0, np.array(GAMMAS))
    assert lore.gamma == GAMMAS[int(np.argmin(losses))]
    assert losses.min() < losses[-1] - 0.02  # what the bin alone says is worse here
    assert lore.gamma_found
    assert not fit(events, gamma=0.4).gamma_found


def test_where_features_say_nothing_it_takes_all_of_a_bin() -> None:
    rng = np.random.default_rng(7)
    p = rng.uniform(0.2, 0.8, 3000)
    events = LabelledEvents.of(p, rng.random(3000) < 0.5, features=rng.normal(size=(3000, 5)))
    lore = fit(events)
    assert lore.gamma >= 1.0
    whole = apply_map(fit(events, gamma=WHOLE_BIN), p, features=np.zeros((3000, 5)))
    assert np.abs(apply_map(lore, p, features=np.zeros((3000, 5))) - whole).max() < 0.03


# --- Its limits -------------------------------------------------------------------------------------------------------


@examples(5, 15)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 5.0, 100.0]), st.integers(1, 15), st.booleans())
def test_of_an_infinite_gamma_it_is_histogram_binning(seed: int, shrinkage: float, bins: int, weighted: bool) -> None:
    events, asked = simulated(seed, 150, weighted=weighted), simulated(seed + 1, 50)
    lore = fit(events, gamma=1e12, bins=bins, shrinkage=shrinkage, prior=0)
    found = apply_map(lore, asked.prediction, features=asked.features)
    place, of = (np.minimum((v * bins).astype(int), bins - 1) for v in (events.prediction, asked.prediction))
    for b in range(bins):
        inside = place == b
        if not inside.any():
            np.testing.assert_array_equal(found[of == b], asked.prediction[of == b])
        else:
            share = np.average(events.outcome[inside], weights=events.weight[inside])
            np.testing.assert_allclose(found[of == b], share, rtol=1e-9, atol=5e-8)


@pytest.mark.parametrize("prior", [0.0, 1.0, 10.0])
def test_of_an_infinite_gamma_it_is_the_method_histogram(prior: float) -> None:
    events, asked = simulated(31, 900), simulated(32, 300)
    lore = fit(events, gamma=1e12, bins=15, prior=prior)
    binned = fit_map(METHODS["histogram"], events, {"bins": 15, "shrinkage": prior})
    np.testing.assert_allclose(
        apply_map(lore, asked.prediction, features=asked.features),
        apply_map(binned, asked.prediction),
        rtol=1e-9,
        atol=5e-8,
    )


def test_a_bin_of_few_events_does_not_become_certain() -> None:
    rng = np.random.default_rng(33)
    p = np.concatenate([rng.uniform(0.1, 0.9, 300), [0.98, 0.98]])
    y = np.concatenate([rng.random(300) < 0.5, [True, True]])
    events = LabelledEvents.of(p, y, features=rng.normal(size=(302, 3)))
    asked = np.zeros((1, 3))
    assert apply_map(fit(events, bins=20), [0.97], features=asked)[0] == pytest.approx((2.0 + 0.98) / 3.0)
    assert apply_map(fit(events, bins=20, prior=0), [0.97], features=asked)[0] == pytest.approx(1.0, abs=5e-8)


@examples(5, 15)
@given(st.integers(0, 10**6), st.booleans())
def test_of_a_vanishing_gamma_it_is_the_nearest_neighbour_in_the_bin(seed: int, weighted: bool) -> None:
    events, asked = simulated(seed, 150, weighted=weighted), simulated(seed + 1, 50)
    lore = fit(events, gamma=1e-6, bins=5, shrinkage=0, prior=0)
    found = apply_map(lore, asked.prediction, features=asked.features)
    assert events.features is not None
    assert asked.features is not None
    phi, at = coordinates(lore.space, events.features), coordinates(lore.space, asked.features)
    place, of = bin_indices(lore.bins.count, events.prediction), bin_indices(lore.bins.count, asked.prediction)
    for i in range(len(asked)):
        distance = np.where(place == of[i], np.abs(phi - at[i]).sum(axis=1), np.inf)
        first, second = np.partition(distance, 1)[:2]
        if np.isfinite(second) and second - first > 2e-5:  # else both count
            assert found[i] == pytest.approx(float(events.outcome[np.argmin(distance)]), abs=1e-7)


def test_an_empty_bin_leaves_predictions_as_they_are() -> None:
    events = simulated(8, 500)
    low = events.select(events.prediction < 0.5)
    lore = fit(low, gamma=0.4)
    asked = np.array([0.2, 0.75, 1.0])
    found = apply_map(lore, asked, features=np.zeros((3, 3)))
    assert found[1:].tolist() == [0.75, 1.0]
    assert found[0] != 0.2


# --- What it does not depend on ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"max_points": 150}, {"space": "standardised", "gamma": 0.4}])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_events_does_not_matter(options: Mapping[str, Any], weighted: bool) -> None:
    events, asked = simulated(9, 400, weighted=weighted), simulated(10, 60)
    order = np.random.default_rng(1).permutation(len(events))
    assert events.features is not None
    other = LabelledEvents.of(
        events.prediction[order],
        events.outcome[order],
        weight=events.weight[order],
        features=events.features[order],
        time_ms=np.arange(len(events)),
    )
    one, two = fit(events, **options), fit(other, **options)
    assert one.gamma == two.gamma
    found = [apply_map(m, asked.prediction, features=asked.features) for m in (one, two)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


@pytest.mark.parametrize("space", ["pca", "standardised"])
def test_a_weight_counts_as_so_many_events(space: str) -> None:
    """But for what is added to them: one event of weight 3 tells no more than one, and three events do."""
    events, asked = simulated(11, 200), simulated(12, 60)
    assert events.features is not None
    times = np.random.default_rng(11).integers(1, 5, 200)
    rows = np.repeat(np.arange(200), times)
    weighted = LabelledEvents.of(events.prediction, events.outcome, features=events.features, weight=times)
    repeated = LabelledEvents.of(events.prediction[rows], events.outcome[rows], features=events.features[rows])
    found = [
        apply_map(
            fit(e, space=space, gamma=0.4, bins=4, shrinkage=0, prior=0), asked.prediction, features=asked.features
        )
        for e in (weighted, repeated)
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


def test_weights_of_another_unit_are_the_same_weights() -> None:
    events, asked = simulated(13, 200, weighted=True), simulated(14, 60)
    other = LabelledEvents.of(
        events.prediction, events.outcome, features=events.features, weight=1000.0 * events.weight
    )
    found = [apply_map(fit(e), asked.prediction, features=asked.features) for e in (events, other)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_a_batch_is_as_good_as_one_by_one() -> None:
    lore, asked = fit(simulated(15, 600)), simulated(16, 30)
    assert asked.features is not None
    together = apply_map(lore, asked.prediction, features=asked.features)
    alone = [
        apply_map(lore, asked.prediction[i : i + 1], features=asked.features[i : i + 1])[0] for i in range(len(asked))
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-5)


# --- Equal rows -------------------------------------------------------------------------------------------------------


def discrete(seed: int, n: int, values: int = 4, fault: float = 0.0) -> LabelledEvents:
    """Three features of few values, of which predictions are a function: many rows are equal in all they hold."""
    rng = np.random.default_rng(seed)
    x = rng.integers(values, size=(n, 3)).astype(np.float64)
    z = x @ [0.4, 0.2, 0.1] - 1.0
    return LabelledEvents.of(expit(z), rng.random(n) < expit(z + fault * np.sign(x[:, 2] - 1.5)), features=x)


def shuffled(events: LabelledEvents, rows: NDArray[np.int64]) -> LabelledEvents:
    assert events.features is not None
    return LabelledEvents.of(events.prediction[rows], events.outcome[rows], features=events.features[rows])


@examples(4, 10)
@given(st.integers(0, 10**6), st.sampled_from([150, 400, 50_000]))
def test_equal_rows_may_come_in_any_order(seed: int, kept: int) -> None:
    events = discrete(seed, 600)
    other = shuffled(events, np.random.default_rng(seed).permutation(len(events)))
    one, two = (fit(of, max_points=kept).parts() for of in (events, other))
    assert one.settings == two.settings
    for name, array in one.arrays.items():
        # Sums over all events are taken in their order, and differ in the last bits.
        np.testing.assert_allclose(array, two.arrays[name], rtol=1e-6, atol=1e-6)


@examples(4, 10)
@given(st.integers(0, 10**6), st.integers(1, 2))
def test_of_equal_rows_a_part_is_kept(seed: int, times: int) -> None:
    """Of each group of equal rows about as much as of all; also where every row is there twice."""
    events = discrete(seed, 3000 // times, values=2)
    events = shuffled(events, np.repeat(np.arange(len(events)), times))
    stored = fit(events, max_points=1000, bins=1, gamma=0.4).stored

    def counts(points: Any, hit: Floats) -> NDArray[np.int64]:
        return np.unique(np.column_stack([np.round(points, 3), hit]), axis=0, return_counts=True)[1]

    everyone = fit(events, bins=1, gamma=0.4).stored
    all_of_them, kept = counts(everyone.points.T, everyone.hit), counts(stored.points.T, stored.hit)
    assert kept.size == all_of_them.size == 16
    deviation = np.sqrt(all_of_them * (1 / 3) * (2 / 3))
    assert (np.abs(kept - all_of_them / 3) < 5.0 * deviation).all()


@pytest.mark.parametrize("seed", range(3))
def test_events_that_are_not_kept_do_not_make_gamma_small(seed: int) -> None:
    """If equal rows were kept together, those of one outcome would miss those of the other, and all seem certain."""
    events, later = discrete(seed, 4000, values=8), discrete(100 + seed, 4000, values=8)
    lore = fit(events, max_points=2800)
    assert lore.gamma >= 0.2

    def log_loss(p: Floats) -> float:
        return float(-np.log(np.where(later.outcome == 1, p, 1.0 - p)).mean())

    after = apply_map(lore, later.prediction, features=later.features)
    assert log_loss(after) < log_loss(later.prediction) + 0.01


@pytest.mark.longer
def test_gamma_does_not_depend_on_where_a_feature_has_its_zero() -> None:
    """Hashes of the rows change with it, and who is like whom does not."""
    events = discrete(4, 5000, values=6, fault=0.2)
    assert events.features is not None
    shifted = [
        LabelledEvents.of(events.prediction, events.outcome, features=events.features + shift)
        for shift in range(longer(3, 10))
    ]
    assert len({fit(other, bins=1).gamma for other in shifted}) == 1


@pytest.mark.parametrize("seed", range(3))
def test_every_row_twice_is_twice_the_events(seed: int) -> None:
    """Gamma may be smaller, as with so many events, by a step or two of its grid."""
    events = discrete(seed, 6000, fault=0.5)
    twice = shuffled(events, np.repeat(np.arange(len(events)), 2))
    one, two = fit(events).gamma, fit(twice).gamma
    assert 0.5 * one <= two <= one


# --- What it keeps ----------------------------------------------------------------------------------------------------


def test_it_does_not_matter_how_many_threads_share_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    events, asked = simulated(5, 3_000), simulated(6, 101)
    lore = fit(events, gamma=0.4, bins=3)
    alone = apply_map(lore, asked.prediction, features=asked.features)
    parts: list[int] = []

    def counted(points: NDArray[np.float32], *others: Any) -> NDArray[np.float64]:
        parts.append(len(points))
        return laplace_sums(points, *others)

    monkeypatch.setattr(module, "laplace_sums", counted)
    monkeypatch.setattr(module, "_PAIRS_PER_THREAD", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert apply_map(lore, asked.prediction, features=asked.features).tolist() == alone.tolist()
    assert len(parts) == 9
    assert sum(parts) == 101


def test_no_more_events_are_kept_than_asked_for_and_each_bin_keeps_some() -> None:
    rng = np.random.default_rng(17)
    p = np.concatenate([rng.uniform(0.0, 0.05, 5000), [0.99, 0.5]])
    y = np.concatenate([rng.random(5000) < 0.3, [True, False]])
    events = LabelledEvents.of(p, y, features=rng.normal(size=(5002, 4)))
    lore = fit(events, max_points=200)
    assert 190 <= lore.stored.hit.size <= 203
    assert ((np.diff(lore.stored.first) > 0) == (lore.bins.events > 0)).all()
    assert lore.bins.events.sum() == pytest.approx(5002)  # shares are those of all
    assert fit(events).stored.hit.size == 5002


def test_features_are_kept_as_coordinates_alone() -> None:
    rng = np.random.default_rng(18)
    x = rng.normal(size=(300, 8)) + 1000.0
    events = LabelledEvents.of(rng.random(300), rng.random(300) < 0.5, features=x)
    parts = fit(events, dimensions=3).parts()
    assert parts.arrays["points"].shape == (300, 3)
    kept = np.concatenate([array.ravel() for name, array in parts.arrays.items() if name != "feature_mean"])
    assert np.abs(kept).max() < 900.0


def test_far_and_huge_features_are_no_trouble() -> None:
    lore = fit(simulated(19, 300))
    far = np.array([[1e150, -1e150, 1e150], [1e9, 0.0, 0.0], [0.0, 0.0, 0.0]])
    found = apply_map(lore, np.array([0.3, 0.3, 0.3]), features=far)
    assert ((found > 0.0) & (found < 1.0)).all()


def test_it_mends_what_the_features_show() -> None:
    events, later = simulated(20, 20_000), simulated(21, 5_000)
    assert later.features is not None
    true = expit(logit(later.prediction) + np.sign(later.features[:, 1]))
    lore = fit(events)
    found = apply_map(lore, later.prediction, features=later.features)
    bins = apply_map(fit(events, gamma=WHOLE_BIN), later.prediction, features=later.features)
    off = [float(((q - true) ** 2).mean()) for q in (later.prediction, bins, found)]
    assert off[2] < 0.25 * off[1] < 0.5 * off[0] + off[1]


# --- Many classes -----------------------------------------------------------------------------------------------------


def classes(seed: int, n: int, k: int) -> LabelledEvents:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    p = rng.dirichlet(np.ones(k), n)
    y = np.where(rng.random(n) < expit(2.0 * x[:, 0]), np.argmax(p, axis=1), np.argmin(p, axis=1))
    return LabelledEvents.of(p, y, features=x)


def test_of_many_classes_the_most_probable_is_mended_and_the_others_keep_their_proportions() -> None:
    events, asked = classes(22, 1000, 4), classes(23, 40, 4)
    lore = fit(events, gamma=0.4, bins=3, shrinkage=2, prior=1)
    found = apply_map(lore, asked.prediction, features=asked.features)
    assert asked.features is not None
    assert events.features is not None
    top = np.argmax(asked.prediction, axis=1)
    hit = (np.argmax(events.prediction, axis=1) == events.outcome).astype(np.float64)
    phi = coordinates(lore.space, events.features).astype(np.float64)
    at = coordinates(lore.space, asked.features).astype(np.float64)
    data = (events.prediction.max(axis=1), hit, phi, events.weight)
    for i in range(len(asked)):
        p = asked.prediction[i]
        q = naive_lore.recalibrated(p[top[i]], at[i], data, gamma=0.4, bins=3, shrinkage=2, prior=1)
        wanted = p * (1.0 - q) / (1.0 - p[top[i]])
        wanted[top[i]] = q
        np.testing.assert_allclose(found[i], wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


def test_a_certain_prediction_shares_what_it_loses_equally() -> None:
    events = classes(24, 500, 4)
    certain = np.eye(4)[[2, 2]]
    lore = fit(events, gamma=1e12, bins=1, prior=0)
    found = apply_map(lore, certain, features=np.zeros((2, 4)))
    assert found[0, 2] == pytest.approx(lore.bins.mean[0])
    np.testing.assert_allclose(found[0, [0, 1, 3]], (1.0 - lore.bins.mean[0]) / 3)


def test_two_classes_are_those_of_their_second() -> None:
    events = simulated(25, 300)
    both = LabelledEvents.of(
        np.stack([1.0 - events.prediction, events.prediction], axis=1), events.outcome, features=events.features
    )
    assert events.features is not None
    one, two = fit(events), fit(both)
    found = apply_map(two, both.prediction, features=events.features)
    np.testing.assert_allclose(found[:, 1], apply_map(one, events.prediction, features=events.features), rtol=1e-9)
    np.testing.assert_array_equal(apply_map(one, both.prediction, features=events.features), found)
