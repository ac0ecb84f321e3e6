"""What every recalibration method obeys. One that is added is tested here unasked."""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

import monitor.maps
from monitor.errors import CorruptMap, InputError, NotEnoughData
from monitor.maps import METHODS, MapParts, Method, RecalibrationMap, apply_map, check_options, choose_method, fit_map
from monitor.maps.artifact import from_bytes, to_bytes, to_json
from monitor.maps.base import Groups
from monitor.maps.identity import Identity
from monitor.scores.labelled import LabelledEvents

Floats = NDArray[np.float64]

EVENTS = 600
FEATURES = 4

every_method = pytest.mark.parametrize("name", METHODS)


@cache
def simulated(classes: int, n: int = EVENTS, seed: int = 1) -> LabelledEvents:
    """Predictions that are too sure, and off by group and by features."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, FEATURES))
    plan = rng.choice(["free", "paid"], n)
    weight = rng.choice([0.5, 1.0, 2.0], n)
    if classes == 2:
        z = 1.5 * x[:, 0]
        y = rng.random(n) < expit(0.7 * z + 0.5 * (plan == "paid") + 0.5 * x[:, 1])
        return LabelledEvents.of(expit(z), y, weight=weight, features=x, segments={"plan": plan})
    z = rng.normal(size=(n, classes)) + x[:, :1] * np.arange(classes)
    p, q = (np.exp(s * z) / np.exp(s * z).sum(axis=1, keepdims=True) for s in (1.5, 1.0))
    y = np.minimum((rng.random(n)[:, None] > q.cumsum(axis=1)).sum(axis=1), classes - 1)
    return LabelledEvents.of(p, y, weight=weight, features=x, segments={"plan": plan})


def kinds(method: Method) -> list[int]:
    """The numbers of classes that it is tried on."""
    return [classes for classes, suits in ((2, method.binary), (3, method.many_classes)) if suits]


@cache
def fitted(name: str, classes: int) -> RecalibrationMap:
    return fit_map(METHODS[name], simulated(classes))


def maps(name: str) -> Iterator[tuple[LabelledEvents, RecalibrationMap]]:
    """Its maps, each with later events."""
    for classes in kinds(METHODS[name]):
        yield simulated(classes, 80, 2), fitted(name, classes)


def applied(chosen: RecalibrationMap, events: LabelledEvents) -> Floats:
    return apply_map(chosen, events.prediction, features=events.features, segments=events.segments)


# --- The registry -----------------------------------------------------------------------------------------------------


def test_every_file_that_declares_a_method_is_registered_in_the_order_of_ranks() -> None:
    declared: list[Method] = []
    for file in pkgutil.iter_modules(monitor.maps.__path__):
        module = importlib.import_module(f"monitor.maps.{file.name}")
        declared += [*getattr(module, "METHODS", ())] if file.name != "artifact" else []
        declared += [module.METHOD] if hasattr(module, "METHOD") else []
    assert sorted(declared, key=lambda method: (method.rank, method.name)) == list(METHODS.values())
    assert [method.name for method in METHODS.values()] == list(METHODS)
    assert next(iter(METHODS)) == "identity"


@every_method
def test_a_method_says_what_it_is(name: str) -> None:
    method = METHODS[name]
    assert choose_method(name) is method
    assert method.title
    assert method.meaning.endswith(".")
    assert kinds(method)
    for option in method.options.values():
        assert option.meaning.endswith(".")
    defaults = check_options(method, {})
    assert check_options(method, {key: value for key, value in defaults.items() if value is not None}) == defaults
    json.dumps(defaults, allow_nan=False)


@every_method
def test_an_option_that_is_none_of_its_own_is_named(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} has no option 'colour'"):
        fit_map(METHODS[name], simulated(kinds(METHODS[name])[0]), {"colour": 1})


@pytest.mark.parametrize(
    ("method", "option", "value", "message"),
    [
        ("lore", "bins", True, "option bins of lore must be a whole number, got True"),
        ("lore", "bins", 15.0, r"option bins of lore must be a whole number, got 15\.0"),
        ("lore", "bins", 0, "option bins of lore must be at least 1, got 0"),
        ("group_wise_platt", "least", 10**400, "must be at most 9223372036854775807 in size, got one of 401 digits"),
        ("lore", "gamma", -(10**400), "must be a number that a float64 holds, got one of 401 digits"),
        ("lore", "gamma", float("nan"), "option gamma of lore must be a number, got nan"),
        ("lore", "gamma", float("inf"), "option gamma of lore must be at most 1e\\+12, got inf"),
        ("lore", "gamma", True, "option gamma of lore must be a number, got True"),
        ("lore", "space", "umap", "option space of lore must be one of pca, standardised, tsne, got 'umap'"),
        ("lore", "space", None, "option space of lore must not be null"),
    ],
)
def test_a_value_that_is_none_of_an_option_is_named(method: str, option: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_options(METHODS[method], {option: value})


# --- Fits -------------------------------------------------------------------------------------------------------------


@every_method
def test_a_map_says_what_it_is_for(name: str) -> None:
    method = METHODS[name]
    for events, chosen in maps(name):
        assert isinstance(chosen, RecalibrationMap)
        assert chosen.method == name
        assert chosen.classes == events.classes
        assert chosen.feature_count == (FEATURES if method.needs_features else None)
        assert chosen.segment_key == ("plan" if method.needs_segments else None)
        assert chosen.describe().strip()
        assert "\n" not in chosen.describe()


@every_method
def test_the_same_events_give_the_same_bytes(name: str) -> None:
    for classes in kinds(METHODS[name]):
        again = fit_map(METHODS[name], simulated(classes))
        assert to_bytes(again, {}) == to_bytes(fitted(name, classes), {})


@every_method
def test_events_in_another_order_give_the_same_map(name: str) -> None:
    for events, chosen in maps(name):
        told = simulated(events.classes)
        order = np.random.default_rng(3).permutation(len(told))
        assert told.features is not None
        shuffled = LabelledEvents.of(
            told.prediction[order],
            told.outcome[order],
            weight=told.weight[order],
            features=told.features[order],
            segments={key: value[order] for key, value in told.segments.items()},
        )
        found = applied(fit_map(METHODS[name], shuffled), events)
        np.testing.assert_allclose(found, applied(chosen, events), rtol=1e-4, atol=1e-5)


@every_method
def test_a_fit_leaves_its_events_as_they_are(name: str) -> None:
    for classes in kinds(METHODS[name]):
        events = simulated(classes, 300, 4)
        before = events.content_hash()
        fit_map(METHODS[name], events)
        assert events.content_hash() == before


@every_method
def test_no_events_are_not_enough(name: str) -> None:
    if name == "identity":
        return  # it looks at none
    for classes in kinds(METHODS[name]):
        with pytest.raises(NotEnoughData):
            fit_map(METHODS[name], simulated(classes).select(slice(0)))


@every_method
def test_events_that_lack_what_it_needs_are_refused(name: str) -> None:
    method = METHODS[name]
    told = simulated(kinds(method)[0])
    bare = LabelledEvents.of(told.prediction, told.outcome)
    for needed, what in ((method.needs_features, "features"), (method.needs_segments, "segments")):
        if needed:
            with pytest.raises(InputError, match=f"{name} needs {what}"):
                fit_map(method, bare)
    for classes in {2, 3} - set(kinds(method)):
        with pytest.raises(InputError, match=f"{name} is for predictions"):
            fit_map(method, simulated(classes))


# --- Maps -------------------------------------------------------------------------------------------------------------


@every_method
def test_what_comes_out_is_probabilities_in_the_shape_of_what_went_in(name: str) -> None:
    for events, chosen in maps(name):
        before = events.content_hash()
        found = applied(chosen, events)
        assert events.content_hash() == before
        assert found.dtype == np.float64
        assert found.shape == events.prediction.shape
        assert ((found >= 0.0) & (found <= 1.0)).all()
        if events.classes > 2:
            np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-9)
        nothing = applied(chosen, events.select(slice(0)))
        assert nothing.shape == events.prediction[:0].shape


@every_method
def test_extremes_and_strangers_have_an_answer(name: str) -> None:
    for events, chosen in maps(name):
        sure = np.array([0.0, 1.0, 0.5]) if events.classes == 2 else np.eye(3)
        found = apply_map(
            chosen,
            sure,
            features=1e9 * np.eye(3, FEATURES),
            segments={"plan": ["nobody has heard of it", "", "free"]},
        )
        assert ((found >= 0.0) & (found <= 1.0)).all()


@every_method
def test_an_event_gets_what_it_gets_in_a_batch(name: str) -> None:
    for events, chosen in maps(name):
        alone = [applied(chosen, events.select(slice(i, i + 1)))[0] for i in range(10)]
        np.testing.assert_allclose(alone, applied(chosen, events)[:10], rtol=1e-5, atol=1e-9)


@every_method
def test_threads_may_share_a_map(name: str) -> None:
    for events, chosen in maps(name):
        alone = applied(chosen, events)
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _, m=chosen, e=events: applied(m, e), range(16)):
                np.testing.assert_array_equal(found, alone)


@every_method
def test_a_map_that_came_back_says_the_same_to_the_last_bit(name: str) -> None:
    for events, chosen in maps(name):
        data = to_bytes(chosen, {"id": "m1"})
        back = from_bytes(data)
        assert back.about == {"id": "m1"}
        assert type(back.map) is type(chosen)
        assert back.map.describe() == chosen.describe()
        np.testing.assert_array_equal(applied(back.map, events), applied(chosen, events))
        assert to_bytes(back.map, back.about) == data
        json.dumps(to_json(data), allow_nan=False)


def spoiled(parts: MapParts) -> Iterator[tuple[str, MapParts]]:
    """The parts with one of them missing, of another kind, empty or not a number."""
    for key in parts.settings:
        rest = {name: value for name, value in parts.settings.items() if name != key}
        yield f"no setting {key}", MapParts(rest, parts.arrays)
        yield f"setting {key} an object", MapParts({**rest, key: {"x": object}}, parts.arrays)
    for key, array in parts.arrays.items():
        others: dict[str, Any] = {name: value for name, value in parts.arrays.items() if name != key}
        yield f"no array {key}", MapParts(parts.settings, others)
        yield f"array {key} in three dimensions", MapParts(parts.settings, {**others, key: array.reshape(1, 1, -1)})
        yield f"array {key} empty", MapParts(parts.settings, {**others, key: array[:0]})
        if array.dtype.kind == "f":
            yield f"array {key} of nan", MapParts(parts.settings, {**others, key: np.full_like(array, np.nan)})


@every_method
def test_parts_that_are_not_of_a_map_are_refused(name: str) -> None:
    for _, chosen in maps(name):
        for what, parts in spoiled(chosen.parts()):
            try:
                METHODS[name].load(parts)
            except CorruptMap:
                continue
            pytest.fail(f"{name} takes parts with {what}")


# --- Extremes ---------------------------------------------------------------------------------------------------------

EXTREMES = [1e308, -1e308, 5e-324, -5e-324, 0.0, 1.0, -1.0, 1e155, -1e155, 1e17]


@every_method
def test_parts_with_extreme_values_are_refused_or_give_probabilities(name: str) -> None:
    rng = np.random.default_rng(7)
    for events, chosen in maps(name):
        parts = chosen.parts()
        for _ in range(200):
            arrays = {
                key: extreme(values, rng) if rng.random() < 0.3 else values for key, values in parts.arrays.items()
            }
            settings = extreme_setting(json.loads(json.dumps(parts.settings)), rng)
            try:
                loaded = METHODS[name].load(MapParts(settings, arrays))
            except CorruptMap:
                continue
            result = applied(loaded, events)
            assert ((result >= 0.0) & (result <= 1.0)).all()
            if result.ndim == 2:
                np.testing.assert_allclose(result.sum(axis=1), 1.0, atol=1e-6)


def extreme(values: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """The array with an extreme value in one place or in all; as they are where its type cannot hold it."""
    changed, value = values.copy(), float(rng.choice(EXTREMES))
    limits = np.finfo(values.dtype) if values.dtype.kind == "f" else np.iinfo(values.dtype)
    if abs(value) < float(limits.max):
        changed[... if rng.random() < 0.5 else np.unravel_index(rng.integers(values.size), values.shape)] = value
    return changed


def extreme_setting(value: Any, rng: np.random.Generator) -> Any:
    """A setting in which one number in ten is extreme."""
    if isinstance(value, dict):
        return {key: extreme_setting(inner, rng) for key, inner in value.items()}
    if isinstance(value, list):
        return [extreme_setting(inner, rng) for inner in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(rng.choice(EXTREMES)) if is_number and rng.random() < 0.1 else value


def test_a_map_that_gives_no_probability_is_an_error_that_names_it() -> None:
    class Wrong(Identity):
        def apply(self, prediction: Floats, features: Floats | None = None, group: Groups | None = None) -> Floats:
            return prediction / 0.4

    assert apply_map(Wrong(2), [0.1, 0.4]).tolist() == [0.25, 1.0]
    with pytest.raises(CorruptMap, match=r"takes the prediction 0\.8 to 2\.0, which is no probability"):
        apply_map(Wrong(2), [0.1, 0.8, 0.9])
    with pytest.raises(CorruptMap, match=r"takes the prediction \[0\.8, 0\.2\] to \[2\.0, 0\.5\], which"):
        apply_map(Wrong(2), [[0.8, 0.2]])
