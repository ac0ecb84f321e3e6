"""What holds of every method of this folder that needs no features, whatever it is."""

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from monitor.errors import CorruptMap, InputError, NotEnoughData
from monitor.maps import METHODS, MapParts, RecalibrationMap, apply_map, fit_map
from monitor.maps.artifact import from_bytes, to_bytes
from monitor.scores.labelled import LabelledEvents
from tests.long import examples
from tests.maps.drawn import any_binary, any_classes, binary_events, class_events, repeated

Floats = NDArray[np.float64]

BINARY: Final = ["offset", "temperature", "mmce_temperature", "platt", "beta", "isotonic", "histogram"]
CLASSES: Final = [
    "offset",
    "temperature",
    "mmce_temperature",
    "vector_scaling",
    "matrix_scaling",
    "platt_classwise",
    "beta_classwise",
    "isotonic_classwise",
    "histogram_classwise",
]
RISING: Final = ["offset", "temperature", "mmce_temperature", "platt", "beta", "isotonic"]
BY_LOG_LOSS: Final = ["offset", "temperature", "platt", "beta"]
BY_GROUP: Final = sorted(name for name in METHODS if name.startswith("group_wise_"))

COUNTED: Final[dict[str, dict[str, Any]]] = {
    "isotonic": {"ends": "fitted"},
    "isotonic_classwise": {"ends": "fitted"},
    "histogram": {"shrinkage": 0.0},
    "histogram_classwise": {"shrinkage": 0.0},
    "vector_scaling": {"ridge": 0.01},
    "matrix_scaling": {"ridge": 0.01},
}
"""Options without which the number of events counts, and not their weight alone."""


def fit(name: str, events: LabelledEvents, **options: Any) -> RecalibrationMap:
    return fit_map(METHODS[name], events, options)


def applied(chosen: RecalibrationMap, events: LabelledEvents) -> Floats:
    return apply_map(chosen, events.prediction, segments=events.segments)


def log_loss(p: Floats, events: LabelledEvents) -> float:
    """Mean log loss, predictions no nearer to 0 and 1 than any logit map leaves them."""
    of = p if p.ndim == 2 else np.column_stack([1.0 - p, p])
    came = np.maximum(of[np.arange(len(events)), events.outcome], 4e-8)
    return float(-np.average(np.log(came), weights=events.weight))


def require_probabilities(q: Floats, p: Floats, within: float = 1e-12) -> None:
    assert q.shape == p.shape
    assert q.dtype == np.float64
    assert ((q >= 0.0) & (q <= 1.0)).all()
    if q.ndim == 2:
        np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=0.0, atol=within)


@pytest.mark.parametrize("name", BINARY)
@given(any_binary(), st.lists(st.floats(0.0, 1.0), min_size=1))
@examples(15, 40)
def test_any_events_give_probabilities_everywhere(name: str, events: LabelledEvents, p: list[float]) -> None:
    found = fit(name, events)
    everywhere = np.r_[p, 0.0, 1.0, 0.5]
    require_probabilities(apply_map(found, everywhere), everywhere)
    assert "nan" not in found.describe()


@pytest.mark.parametrize("name", CLASSES)
@given(any_classes())
@examples(8, 25)
def test_any_events_of_classes_give_probabilities_everywhere(name: str, events: LabelledEvents) -> None:
    try:
        found = fit(name, events)
    except NotEnoughData:
        assert np.bincount(events.outcome, minlength=3).min() < 20
        return
    corners = np.vstack([events.prediction, np.eye(3), np.full((1, 3), 1.0 / 3.0)])
    # Rows of maps by class are divided by their sums unless those are 1 within a millionth.
    within = 1e-6 if name.endswith("_classwise") else 1e-12
    require_probabilities(apply_map(found, corners), corners, within)
    assert "nan" not in found.describe()


@pytest.mark.parametrize("name", RISING)
@given(any_binary())
@examples(15, 40)
def test_the_order_of_predictions_stays(name: str, events: LabelledEvents) -> None:
    p = np.unique(np.r_[events.prediction, np.linspace(0.0, 1.0, 101)])
    # Steps between neighbours of the same value go up and down by the last bit.
    assert (np.diff(apply_map(fit(name, events), p)) >= -1e-15).all()


@pytest.mark.parametrize("name", BY_LOG_LOSS)
@given(any_binary())
@examples(20, 60)
def test_log_loss_on_the_fit_data_is_never_above_that_of_no_map(name: str, events: LabelledEvents) -> None:
    after, before = (log_loss(p, events) for p in (applied(fit(name, events), events), events.prediction))
    assert after <= before + 1e-6


@pytest.mark.parametrize("name", ["offset", "temperature", "vector_scaling", "matrix_scaling"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_log_loss_of_classes_on_the_fit_data_falls(name: str, seed: int) -> None:
    events = class_events(2_000, slope=0.5, offsets=[0.5, 0.0, 0.0, -0.5], seed=seed, weighted=True)
    assert log_loss(applied(fit(name, events), events), events) < log_loss(events.prediction, events)


@pytest.mark.parametrize("shape", ["linear", "steps"])
@given(any_binary())
@examples(20, 60)
def test_isotonic_regression_has_the_least_brier_score_of_rising_maps(shape: str, events: LabelledEvents) -> None:
    def brier(p: Floats) -> float:
        return float(np.average((events.outcome - p) ** 2, weights=events.weight))

    least = brier(applied(fit("isotonic", events, ends="fitted", shape=shape), events))
    assert least <= brier(events.prediction) + 1e-12
    for name in RISING:
        assert least <= brier(applied(fit(name, events), events)) + 1e-12


@pytest.mark.parametrize("name", [*BINARY, *CLASSES[3:]])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_calibrated_model_hardly_moves(name: str, weighted: bool) -> None:
    n = 40_000
    events = binary_events(n, weighted=weighted) if name in BINARY else class_events(n, weighted=weighted)
    moved = np.abs(applied(fit(name, events), events) - events.prediction)
    # Bins of a fifteenth move predictions by a sixtieth in the mean, whatever the model.
    assert np.mean(moved) < (0.025 if "histogram" in name else 0.015)


@pytest.mark.parametrize("name", [*BINARY, *CLASSES[3:], *BY_GROUP])
def test_a_weight_of_two_is_two_events(name: str) -> None:
    inner = name.removeprefix("group_wise_")
    events = binary_events(800, slope=0.6, offset=0.3, groups=2) if inner in BINARY else class_events(800, slope=0.6)
    if name in BY_GROUP and not events.segments:
        events = LabelledEvents.of(events.prediction, events.outcome, segments={"region": ["a", "b"] * 400})
    times = np.random.default_rng(5).integers(1, 4, len(events))
    once, many = repeated(events, times)
    options = COUNTED.get(inner, {})
    np.testing.assert_allclose(
        applied(fit(name, once, **options), events), applied(fit(name, many, **options), events), rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("name", [*BINARY, *CLASSES[3:], *BY_GROUP])
def test_the_order_of_events_does_not_matter(name: str) -> None:
    inner = name.removeprefix("group_wise_")
    events = (
        binary_events(600, slope=0.6, weighted=True, groups=2)
        if inner in BINARY
        else class_events(600, slope=0.6, weighted=True)
    )
    segments = dict(events.segments) or {"region": np.array(["a", "b"] * 300)}
    turned = np.random.default_rng(6).permutation(600)
    maps = [
        fit(
            name,
            LabelledEvents.of(
                events.prediction[rows],
                events.outcome[rows],
                weight=events.weight[rows],
                segments={key: value[rows] for key, value in segments.items()},
            ),
        )
        for rows in (np.arange(600), turned)
    ]
    first, second = (apply_map(one, events.prediction, segments=segments) for one in maps)
    # The least kernel error is where it is to eight digits: it is flat there.
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", [*BINARY, *CLASSES, *BY_GROUP])
def test_a_map_comes_back_from_its_bytes(name: str) -> None:
    for events in (binary_events(900, slope=0.6, groups=3), class_events(900, slope=0.6)):
        method = METHODS[name]
        if not (method.binary if events.is_binary else method.many_classes):
            continue
        known = LabelledEvents.of(events.prediction, events.outcome, segments={"region": ["x", "y", ""] * 300})
        found = fit(name, known)
        read = from_bytes(to_bytes(found, {"model": "churn"})).map
        assert type(read) is type(found)
        assert read.describe() == found.describe()
        np.testing.assert_array_equal(applied(read, known), applied(found, known))


@pytest.mark.parametrize("name", [*BINARY, *CLASSES, *BY_GROUP])
def test_a_fit_is_the_same_every_time(name: str) -> None:
    inner = name.removeprefix("group_wise_")
    events = binary_events(600, slope=0.6, groups=2) if inner in BINARY else class_events(600, slope=0.6)
    known = LabelledEvents.of(events.prediction, events.outcome, segments={"region": ["x", "y"] * 300})
    assert to_bytes(fit(name, known), {}) == to_bytes(fit(name, known), {})


@pytest.mark.parametrize("name", BINARY)
def test_one_outcome_alone_is_too_little(name: str) -> None:
    with pytest.raises(NotEnoughData, match="only 0 of 50 labelled events have the outcome 1, at least 1"):
        fit(name, LabelledEvents.of(np.linspace(0.1, 0.9, 50), np.zeros(50)))


@pytest.mark.parametrize("name", CLASSES)
def test_one_class_alone_is_too_little(name: str) -> None:
    p = class_events(200).prediction
    with pytest.raises(NotEnoughData, match="at least 1"):
        fit(name, LabelledEvents.of(p, np.full(200, 2)))


@pytest.mark.parametrize("name", [*BINARY, *CLASSES])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_few_events_are_too_little(name: str, n: int) -> None:
    events = binary_events(n) if name in BINARY else class_events(n)
    with pytest.raises(NotEnoughData, match=f"{n} labelled events, at least"):
        fit(name, events)


@pytest.mark.parametrize("name", [*BINARY, *CLASSES, *BY_GROUP])
def test_parts_that_miss_something_or_hold_nonsense_are_no_map(name: str) -> None:
    method = METHODS[name]
    events = binary_events(600, slope=0.6) if method.binary else class_events(600, slope=0.6)
    known = LabelledEvents.of(events.prediction, events.outcome, segments={"region": ["x", "y"] * 300})
    parts = fit(name, known).parts()
    method.load(parts)
    for key in parts.settings:
        without = {other: value for other, value in parts.settings.items() if other != key}
        with pytest.raises(CorruptMap, match=key):
            method.load(MapParts(without, parts.arrays))
        for nonsense in (None, True, -1e300, float("nan"), "nonsense", [1], {"a": 1}):
            if (key, nonsense) == ("segment_key", "nonsense"):
                continue  # any text may be a key
            with pytest.raises(CorruptMap):
                method.load(MapParts({**parts.settings, key: nonsense}, parts.arrays))
    for key, array in parts.arrays.items():
        short = key.rpartition(".")[2]
        with pytest.raises(CorruptMap, match=short):
            method.load(MapParts(parts.settings, {k: v for k, v in parts.arrays.items() if k != key}))
        damaged = array.copy()
        damaged.flat[0] = -1e9
        for broken in (damaged, np.full_like(array, np.nan), np.vstack([array, array]), array[:0], array.astype("U")):
            with pytest.raises(CorruptMap):
                method.load(MapParts(parts.settings, {**parts.arrays, key: broken}))


@pytest.mark.parametrize("name", BINARY)
def test_two_columns_follow_the_second(name: str) -> None:
    events = binary_events(500, slope=0.6)
    found, p = fit(name, events), events.prediction
    q = apply_map(found, p)
    np.testing.assert_allclose(
        apply_map(found, np.column_stack([1.0 - p, p])), np.column_stack([1.0 - q, q]), atol=1e-9
    )


@pytest.mark.parametrize("name", CLASSES)
def test_a_map_of_two_classes_takes_the_second_alone(name: str) -> None:
    events = class_events(500, classes=2, slope=0.6)
    found, p = fit(name, events), events.prediction
    np.testing.assert_allclose(apply_map(found, p[:, 1]), apply_map(found, p)[:, 1], atol=1e-9)


@pytest.mark.parametrize("name", [*BINARY, *CLASSES])
def test_predictions_of_another_shape_are_refused(name: str) -> None:
    events = binary_events(500) if name in BINARY else class_events(500)
    with pytest.raises(InputError, match="shape"):
        apply_map(fit(name, events), np.full((3, 7), 1.0 / 7.0))
