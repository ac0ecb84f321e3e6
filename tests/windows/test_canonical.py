"""The canonical measures of a window, from its sketch."""

import numpy as np
import pytest

from monitor.classes.sketch import sketched_interval, sketched_null, sketched_skce
from monitor.scores import ClassTable
from monitor.scores.sketch import SkceSketch, SketchPlan
from monitor.windows.contents import canonical_measures

PLAN = SketchPlan(3, 64)


def sketch_of(events: int, sharpness: float = 1.0) -> SkceSketch:
    rng = np.random.default_rng(5)
    truth = rng.dirichlet(np.ones(3), events)
    outcome = [rng.choice(3, p=row) for row in truth]
    told = truth**sharpness
    return SkceSketch.of(ClassTable.from_events(told / told.sum(axis=1, keepdims=True), outcome), PLAN)


def test_they_are_what_the_sketch_says() -> None:
    sketch = sketch_of(500)
    (found,) = canonical_measures(sketch, 500).values()
    null = sketched_null(sketch)
    assert (found.value, found.unit) == (sketched_skce(sketch), "ratio")
    assert (found.lower, found.upper) == sketched_interval(sketch)
    assert (found.null_mean, found.null_q95, found.p_value) == (0.0, null.q95, null.p_value)


def test_a_calibrated_model_is_within_chance_and_a_sharpened_one_is_not() -> None:
    calibrated = canonical_measures(sketch_of(2000), 2000)["skce"]
    sharpened = canonical_measures(sketch_of(2000, 2.0), 2000)["skce"]
    assert calibrated.p_value is not None
    assert sharpened.p_value is not None
    assert calibrated.p_value > 0.05
    assert sharpened.p_value < 1e-6
    assert sharpened.null_q95 is not None
    assert sharpened.value > 2 * sharpened.null_q95


@pytest.mark.parametrize(("n", "there"), [(99, True), (100, True), (101, True), (102, False), (200, False)])
def test_the_value_of_a_part_is_not_given_for_the_whole(n: int, there: bool) -> None:
    """All but a hundredth, which may just be coming in while the window is read."""
    assert bool(canonical_measures(sketch_of(100), n)) is there


def test_nothing_is_said_of_nothing() -> None:
    assert canonical_measures(None, 500) == {}
    assert canonical_measures(SkceSketch.zero(PLAN), 0) == {}
    assert canonical_measures(sketch_of(1), 1) == {}
