import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.local import Embedding
from monitor.local import features as room

Floats = NDArray[np.float64]


def clouds(seed: int, n: int, d: int = 6) -> tuple[Floats, NDArray[np.int64]]:
    """Three clouds of features, and which one each event is of."""
    rng = np.random.default_rng(seed)
    which = rng.integers(0, 3, n)
    return 8.0 * np.eye(3, d)[which] + rng.normal(size=(n, d)), which


@pytest.fixture(scope="module")
def frozen() -> Embedding:
    return Embedding.fit(clouds(1, 200)[0])


def test_it_keeps_clouds_apart_also_of_events_that_it_never_saw(frozen: Embedding) -> None:
    x, which = clouds(1, 200)
    later, of = clouds(2, 300)
    centres = np.stack([frozen.apply(x)[which == c].mean(axis=0) for c in range(3)])
    distance = np.abs(frozen.apply(later)[:, None] - centres).sum(axis=2)
    assert (np.argmin(distance, axis=1) == of).mean() > 0.99


def test_a_landmark_stays_about_where_it_is(frozen: Embedding) -> None:
    found = frozen.apply(clouds(1, 200)[0])
    assert np.median(np.abs(found - frozen.places).sum(axis=1)) < 0.1
    np.testing.assert_allclose(frozen.places.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(frozen.places.std(axis=0), 1.0)


def test_a_place_is_the_mean_of_the_nearest_landmarks(frozen: Embedding) -> None:
    x, _ = clouds(3, 5)
    components = frozen.components.apply(x)
    for i, found in enumerate(frozen.apply(x)):
        r = np.sqrt(((frozen.landmarks - components[i]) ** 2).sum(axis=1))
        nearest = np.argsort(r)[:10]
        weight = np.exp(-((2.0 * r[nearest] / r[nearest[-1]]) ** 2))
        np.testing.assert_allclose(found, weight @ frozen.places[nearest] / weight.sum(), rtol=1e-9)


def test_the_same_features_give_the_same_embedding(frozen: Embedding) -> None:
    np.testing.assert_array_equal(Embedding.fit(clouds(1, 200)[0]).places, frozen.places)


def test_far_events_and_equal_ones_have_a_place(frozen: Embedding) -> None:
    x = np.concatenate([np.full((1, 6), 1e12), clouds(1, 200)[0][:1]])
    assert np.isfinite(frozen.apply(x)).all()
    assert np.isfinite(frozen.apply(np.zeros((0, 6)))).all()
    equal = Embedding.fit(np.concatenate([clouds(1, 80)[0], np.ones((30, 6))]))
    assert np.isfinite(equal.apply(np.ones((2, 6)))).all()


def test_one_feature_and_three_dimensions_will_do() -> None:
    x = np.random.default_rng(4).normal(size=(100, 1))
    assert Embedding.fit(x).apply(x).shape == (100, 2)
    assert Embedding.fit(clouds(5, 100)[0], 3).dimensions == 3


def test_bad_input_is_refused(frozen: Embedding, monkeypatch: pytest.MonkeyPatch) -> None:
    x, _ = clouds(6, 100)
    with pytest.raises(NotEnoughData, match="99 events, t-SNE needs at least 100"):
        Embedding.fit(x[:99])
    with pytest.raises(InputError, match="dimensions of t-SNE must be 2 or 3, got 5"):
        Embedding.fit(x, 5)
    with pytest.raises(InputError, match="6 features, got 5"):
        frozen.apply(x[:, :5])
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)  # as where it is not installed
    with pytest.raises(InputError, match="pip install 'calibration-monitor\\[tsne\\]'"):
        Embedding.fit(x)


def test_no_more_landmarks_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_LANDMARKS", 101)
    assert Embedding.fit(clouds(7, 300)[0]).landmarks.shape[0] == 101
