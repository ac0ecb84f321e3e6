from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit

from monitor.errors import CorruptMap, InputError, NotEnoughData
from monitor.maps import METHODS, MapParts, apply_map, fit_map
from monitor.maps.artifact import from_bytes, to_bytes
from monitor.maps.lore import METHOD, Lore, leave_one_out_losses
from monitor.scores.labelled import LabelledEvents

Floats = NDArray[np.float64]


def simulated(seed: int, n: int = 300) -> LabelledEvents:
    """Predictions that are too high where the second of three features is below 0, and too low elsewhere."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    p = expit(x[:, 0])
    return LabelledEvents.of(p, rng.random(n) < expit(logit(p) + np.sign(x[:, 1])), features=x)


def fit(events: LabelledEvents, **options: Any) -> Lore:
    found = fit_map(METHOD, events, options)
    assert isinstance(found, Lore)
    return found


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ("pca", "2 principal components of 3 features"),
        ("standardised", "3 standardised features"),
        ("tsne", "a t-SNE embedding of 3 features in 2 dimensions"),
    ],
)
def test_a_map_in_each_space_mends_and_comes_back(space: str, said: str) -> None:
    events, later = simulated(1, 400), simulated(2, 200)
    assert later.features is not None
    lore = fit(events, space=space, gamma=0.4, **({"dimensions": 2} if space == "pca" else {}))
    assert said in lore.describe()
    found = apply_map(lore, later.prediction, features=later.features)
    if space != "pca":  # two components of three equal ones may miss the second feature
        true = expit(logit(later.prediction) + np.sign(later.features[:, 1]))
        assert ((found - true) ** 2).mean() < 0.9 * ((later.prediction - true) ** 2).mean()
    back = from_bytes(to_bytes(lore, {})).map
    np.testing.assert_array_equal(apply_map(back, later.prediction, features=later.features), found)
    assert back.describe() == lore.describe()


def test_parts_of_no_embedding_are_refused() -> None:
    parts = fit(simulated(3, 120), space="tsne", gamma=0.4).parts()
    for name, value, message in [
        ("landmarks", np.zeros((120, 2)), r"landmarks must have the shape \(120, 3\)"),
        ("places", np.zeros((119, 2)), r"places must have the shape \(120, 2\)"),
        ("places", np.zeros((120, 3)), r"points must be float32 of the shape \(120, 3\)"),
        ("axes", np.zeros((3, 4)), "axes must be at most as many as the 3 features"),
    ]:
        with pytest.raises(CorruptMap, match=message):
            METHODS["lore"].load(changed(parts, name, value))


def test_too_little_says_what_is_there() -> None:
    events = simulated(26, 300)
    with pytest.raises(NotEnoughData, match="49 labelled events, at least 50"):
        fit(events.select(slice(49)))
    few = np.concatenate([np.flatnonzero(events.outcome == 0)[:96], np.flatnonzero(events.outcome == 1)[:4]])
    with pytest.raises(NotEnoughData, match="4 of 100 labelled events are outcomes of 1: at least 5"):
        fit(events.select(np.sort(few)))
    bare = LabelledEvents.of(events.prediction, events.outcome)
    with pytest.raises(InputError, match="lore needs features"):
        fit(bare)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0.0}, "gamma of lore must be at least 1e-06"),
        ({"gamma": np.inf}, "gamma of lore must be at most 1e\\+12"),
        ({"bins": 0}, "bins of lore"),
        ({"shrinkage": -1}, "shrinkage of lore"),
        ({"prior": -1}, "prior of lore"),
        ({"space": "umap"}, "space of lore must be one of pca, standardised, tsne"),
        ({"space": "standardised", "dimensions": 3}, "dimensions must be null for the space standardised"),
        ({"max_points": 5}, "max_points of lore must be at least 100"),
    ],
)
def test_wrong_options_are_named(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(simulated(27, 100), **options)


def test_features_of_another_length_are_refused() -> None:
    lore = fit(simulated(28, 100))
    with pytest.raises(InputError, match="shape \\(2, 3\\)"):
        apply_map(lore, [0.2, 0.3], features=np.zeros((2, 4)))
    with pytest.raises(InputError, match="needs 3 features an event, and there are none"):
        apply_map(lore, [0.2, 0.3])


def test_it_says_what_it_does() -> None:
    events = simulated(29, 1200)
    assert fit(events, gamma=0.4, dimensions=2).describe() == (
        "share of hits among events alike in 2 principal components of 3 features, within 15 bins of confidence; "
        "gamma 0.4 (as given), 1,200 events kept, shrunk towards the bin by 5 events"
    )
    assert "all events of a bin alike" in fit(events, gamma=1e6).describe()


def changed(parts: MapParts, name: str, value: Any) -> MapParts:
    if name in parts.settings:
        return MapParts({**parts.settings, name: value}, parts.arrays)
    return MapParts(parts.settings, {**parts.arrays, name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("space", "umap", "space must be one of"),
        ("gamma", 0.0, "gamma must be a number"),
        ("gamma_found", 1, "gamma_found must be true or false"),
        ("bins", 4, "must be of 4 bins"),
        ("prior", -1.0, "prior must be a number"),
        ("bin_squares", np.zeros(5), "above 0 in the same bins"),
        ("classes", 1, "classes must be"),
        ("points", np.zeros((120, 3)), "points must be float32"),
        ("points", np.zeros((120, 2), np.float32), "points must be float32 of the shape \\(120, 3\\)"),
        ("points", np.full((120, 3), 2e30, np.float32), "points must be within 1e\\+30"),
        ("hit", np.full(120, 0.5), "hit must be 0 or 1"),
        ("weight", np.zeros(120), "weight"),
        ("weight", np.ones(119), "weight as long"),
        ("first", np.arange(6), "first must list 5 bins"),
        ("first", np.array([0, 50, 40, 60, 70, 120]), "first must ascend"),
        ("axes", np.zeros((2, 3)), "axes must have the shape \\(3, 3\\)"),
        ("axes", np.zeros((3, 0)), "axes must be a matrix that is not empty"),
        ("feature_scale", np.zeros(3), "feature_scale must be finite and from"),
        ("feature_scale", np.ones(2), "equally long"),
        ("bin_mean", np.full(5, 1.5), "bin_mean must be finite and from 0 to 1"),
        ("bin_events", np.zeros(5), "above 0 in the same bins"),
        ("first", np.array([0, 0, 40, 60, 70, 120]), "only bins that had events"),
    ],
)
def test_parts_of_no_map_are_refused(name: str, value: Any, message: str) -> None:
    parts = fit(simulated(30, 120), gamma=0.4).parts()
    with pytest.raises(CorruptMap, match=message):
        METHODS["lore"].load(changed(parts, name, value))


def test_an_event_that_outweighs_its_bin_says_nothing_of_gamma() -> None:
    """Left out, it leaves a bin of no weight but rounding."""
    rng = np.random.default_rng(8)
    p = rng.random(400)
    weight = np.where(np.arange(400) % 100 == 0, 1e9, 1.0)
    events = LabelledEvents.of(p, rng.random(400) < p, features=rng.normal(size=(400, 3)), weight=weight)
    found = fit_map(METHODS["lore"], events)
    assert isinstance(found, Lore)
    losses = leave_one_out_losses(found.stored, found.bins, 5.0, 1.0, np.array([0.1, 0.4]))
    assert np.isfinite(losses).all()


def test_of_equal_events_of_other_weights_the_order_does_not_matter() -> None:
    rng = np.random.default_rng(9)
    p, x = np.tile(rng.random(150), 2), np.tile(rng.normal(size=(150, 3)), (2, 1))
    y, weight = np.tile(rng.random(150) < p[:150], 2), np.r_[np.ones(150), np.full(150, 3.0)]
    fits = [
        fit_map(
            METHODS["lore"],
            LabelledEvents.of(p[order], y[order], features=x[order], weight=weight[order]),
            {"max_points": 100, "gamma": 0.4, "space": "standardised"},
        )
        for order in (np.arange(300), np.arange(300)[::-1])
    ]
    kept = [fit.stored.weight.tolist() for fit in fits if isinstance(fit, Lore)]
    assert len(kept) == 2
    assert kept[0] == pytest.approx(kept[1])
