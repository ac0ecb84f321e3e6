"""Events for the tests of maps: of known laws, and at random."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

from monitor.scores.labelled import LabelledEvents

Floats = NDArray[np.float64]


def binary_events(
    n: int, *, slope: float = 1.0, offset: float = 0.0, seed: int = 1, weighted: bool = False, groups: int = 0
) -> LabelledEvents:
    """Predictions of logits z ~ N(0, 1.5^2), outcomes of logits offset + slope z, in groups offset by a half each."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 1.5, n)
    group = rng.integers(0, max(1, groups), n)
    y = rng.random(n) < expit(offset + slope * z + 0.5 * group)
    weight = rng.choice([1.0, 2.0, 5.0], n) if weighted else None
    segments = {"region": [f"r{value}" for value in group]} if groups else None
    return LabelledEvents.of(expit(z), y, weight=weight, segments=segments)


def class_events(
    n: int, *, classes: int = 4, slope: float = 1.0, offsets: Any = 0.0, seed: int = 1, weighted: bool = False
) -> LabelledEvents:
    """Predictions softmax(L), L ~ N(0, 1.5^2), outcomes of softmax(slope log p + offsets)."""
    rng = np.random.default_rng(seed)
    p = softmax_of(rng.normal(0.0, 1.5, (n, classes)))
    truth = softmax_of(slope * np.log(p) + offsets)
    y = np.minimum((rng.random(n)[:, None] > truth.cumsum(axis=1)).sum(axis=1), classes - 1)
    return LabelledEvents.of(p, y, weight=rng.choice([1.0, 2.0, 5.0], n) if weighted else None)


def softmax_of(eta: Floats) -> Floats:
    odds = np.exp(eta - eta.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def repeated(events: LabelledEvents, times: NDArray[np.int64]) -> tuple[LabelledEvents, LabelledEvents]:
    """The same events weighted by whole numbers, and written out as often."""
    segments = dict(events.segments)
    once = LabelledEvents.of(events.prediction, events.outcome, weight=times, segments=segments)
    rows = np.repeat(np.arange(len(events)), times)
    many = {key: value[rows] for key, value in segments.items()}
    return once, LabelledEvents.of(events.prediction[rows], events.outcome[rows], segments=many)


@st.composite
def any_binary(draw: st.DrawFn, *, least: int = 20) -> LabelledEvents:
    """Anything a stream may send: equal predictions, 0 and 1, contradictions, weights. Both outcomes are there."""
    n = draw(st.integers(least, least + 40))
    score = st.one_of(st.sampled_from([0.0, 1.0, 0.5, 1e-300, 1.0 - 1e-16]), st.floats(0.0, 1.0))
    p = draw(st.lists(score, min_size=n, max_size=n))
    y = draw(st.lists(st.integers(0, 1), min_size=n - 2, max_size=n - 2))
    w = draw(st.lists(st.sampled_from([1e-3, 1.0, 2.5, 1e3]), min_size=n, max_size=n))
    return LabelledEvents.of(p, [0, 1, *y], weight=w)


@st.composite
def any_classes(draw: st.DrawFn, *, classes: int = 3, least: int = 30) -> LabelledEvents:
    n = draw(st.integers(least, least + 30))
    row = st.lists(st.sampled_from([0.0, 1e-12, 0.1, 0.5, 1.0]), min_size=classes, max_size=classes)
    p = np.array(draw(st.lists(row.filter(any), min_size=n, max_size=n)))
    y = draw(st.lists(st.integers(0, classes - 1), min_size=n - 2, max_size=n - 2))
    w = draw(st.lists(st.sampled_from([1e-3, 1.0, 2.5, 1e3]), min_size=n, max_size=n))
    return LabelledEvents.of(p / p.sum(axis=1, keepdims=True), [0, 1, *y], weight=w)
