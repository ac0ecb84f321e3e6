"""What fitting and applying maps costs, beside scikit-learn's calibrators on the same events, in one run."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.calibration import _SigmoidCalibration, _TemperatureScaling
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from monitor.maps import METHODS, apply_map, fit_map
from monitor.scores.labelled import LabelledEvents
from tests.maps.drawn import binary_events, class_events

pytestmark = pytest.mark.benchmark

Floats = NDArray[np.float64]

EVENTS = 200_000
CLASS_EVENTS = 20_000


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of some runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def compare(
    name: str,
    events: LabelledEvents,
    peer: Callable[[], Any],
    predict: Callable[[Any], Floats],
    *,
    options: dict[str, Any] | None = None,
    agree: float = 1e-6,
) -> None:
    """Print both times and their ratio; both must make the same predictions."""
    method = METHODS[name]
    found, theirs = fit_map(method, events, options), peer()
    np.testing.assert_allclose(apply_map(found, events.prediction), predict(theirs), atol=agree)
    fitting, their_fitting = seconds(lambda: fit_map(method, events, options)), seconds(peer)
    applying = seconds(lambda: apply_map(found, events.prediction))
    their_applying = seconds(lambda: predict(theirs))
    print(
        f"\n{name}, {len(events):,} events: fit {1e3 * fitting:.1f} ms, {their_fitting / fitting:.2f} times as fast as "
        f"scikit-learn; apply {1e3 * applying:.1f} ms, {their_applying / applying:.2f} times as fast"
    )


def test_platt_beside_the_sigmoid_calibration() -> None:
    events = binary_events(EVENTS, slope=0.6, offset=0.4, weighted=True)
    p, y, w = events.prediction, events.outcome, events.weight
    compare(
        "platt",
        events,
        lambda: _SigmoidCalibration().fit(logit(p), y, w),
        lambda fitted: fitted.predict(logit(p)),
        options={"smoothing": True},
        agree=1e-4,
    )


def test_isotonic_regression_beside_its_peer() -> None:
    events = binary_events(EVENTS, slope=0.6, offset=0.4, weighted=True)
    p, y, w = events.prediction, events.outcome, events.weight
    compare(
        "isotonic",
        events,
        lambda: IsotonicRegression(out_of_bounds="clip").fit(p, y, w),
        lambda fitted: fitted.predict(p),
        options={"ends": "fitted"},
    )


def test_beta_calibration_beside_the_authors_recipe() -> None:
    events = binary_events(EVENTS, slope=0.6, offset=0.4, weighted=True)
    p, y, w = events.prediction, events.outcome, events.weight

    def columns() -> Floats:
        return np.column_stack([np.log(p), -np.log(1.0 - p)])

    compare(
        "beta",
        events,
        lambda: LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(columns(), y, w),
        lambda fitted: fitted.predict_proba(columns())[:, 1],
        agree=1e-4,
    )


@pytest.mark.parametrize("classes", [3, 20])
def test_temperature_of_classes_beside_its_peer(classes: int) -> None:
    events = class_events(CLASS_EVENTS, classes=classes, slope=0.6, weighted=True)
    p, y, w = events.prediction, events.outcome, events.weight
    compare(
        "temperature",
        events,
        lambda: _TemperatureScaling().fit(p, y, sample_weight=w),
        lambda fitted: fitted.predict(p),
    )


def test_matrix_scaling_beside_multinomial_regression() -> None:
    events = class_events(CLASS_EVENTS, classes=5, slope=0.6, weighted=True)
    p, y, w = events.prediction, events.outcome, events.weight
    compare(
        "matrix_scaling",
        events,
        lambda: LogisticRegression(C=np.inf, tol=1e-8, max_iter=5000).fit(np.log(p), y, w),
        lambda fitted: fitted.predict_proba(np.log(p)),
        options={"ridge": 0.0},
        agree=1e-4,
    )


def test_what_every_method_costs() -> None:
    print()
    rng = np.random.default_rng(3)
    segments = {"region": rng.choice(["a", "b", "c", "d"], EVENTS)}
    binary, vectors = binary_events(EVENTS, slope=0.6), class_events(CLASS_EVENTS, classes=10, slope=0.6)
    samples = [
        LabelledEvents.of(binary.prediction, binary.outcome, segments=segments),
        LabelledEvents.of(vectors.prediction, vectors.outcome, segments={"region": segments["region"][:CLASS_EVENTS]}),
    ]
    for name, method in METHODS.items():
        if method.needs_features:
            continue
        for events in samples:
            if not (method.binary if events.is_binary else method.many_classes):
                continue
            start = time.perf_counter()
            found = fit_map(method, events)
            fitting = time.perf_counter() - start
            start = time.perf_counter()
            after = apply_map(found, events.prediction, segments=events.segments)
            applying = time.perf_counter() - start
            assert after.shape == events.prediction.shape
            print(
                f"{name:<28} {events.classes:>3} classes, {len(events):>7,} events: "
                f"fit {1e3 * fitting:9.1f} ms, apply {1e9 * applying / len(events):8.0f} ns an event"
            )
