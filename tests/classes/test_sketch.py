"""The Fourier sketch adds, retracts and comes close to the exact value; its null level needs nothing else."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.classes.sketch import biased_skce, sketched_interval, sketched_null, sketched_skce
from monitor.errors import IncompatibleTables, InputError, NotEnoughData
from monitor.scores.sketch import MAX_EVENTS, SkceSketch, SketchPlan
from monitor.scores.sketch_loops import PAIRS, TOTALS, UNIT
from tests.long import examples, short_of
from tests.reference.naive_classes import (
    Floats,
    exponential,
    null_variance,
    simulated,
    skce_biased,
    skce_unbiased,
    sketch_sums,
)

PLAN = SketchPlan(3, features=32)

plans = st.builds(
    SketchPlan,
    classes=st.integers(2, 7),
    features=st.sampled_from([2, 16, 64]),
    lengthscale=st.sampled_from([0.1, 1.0]),
    seed=st.integers(0, 3),
)


def sketch(seed: int, n: int, plan: SketchPlan = PLAN, sharpness: float = 1.0) -> SkceSketch:
    return SkceSketch.zero(plan).add(*simulated(seed, n, plan.classes, sharpness))


# --- A value that adds ------------------------------------------------------------------------------------------------


@examples(10, 30)
@given(plan=plans, seed=st.integers(0, 99), cuts=st.lists(st.integers(0, 40), min_size=2, max_size=4))
def test_parts_add_up_in_any_order_to_the_bit(plan: SketchPlan, seed: int, cuts: list[int]) -> None:
    p, y = simulated(seed, 40, plan.classes)
    bounds = [0, *sorted(cuts), 40]
    zero = SkceSketch.zero(plan)
    whole = zero.add(p, y)
    parts = [zero.add(p[a:b], y[a:b]) for a, b in pairwise(bounds)]
    total = zero
    for part in reversed(parts):
        total = part + total
    np.testing.assert_array_equal(total.sums, whole.sums)
    np.testing.assert_array_equal((whole + zero).sums, whole.sums)
    assert whole.events == 40


@given(plan=plans, seed=st.integers(0, 99))
def test_bytes_bring_the_sketch_back(plan: SketchPlan, seed: int) -> None:
    there = sketch(seed, 5, plan)
    back = SkceSketch.from_bytes(there.to_bytes())
    assert back.plan == plan
    np.testing.assert_array_equal(back.sums, there.sums)


def test_frequencies_are_those_of_the_plan_alone() -> None:
    """Were they to change, sketches of before and after would add to nonsense: then SKETCH_VERSION has to change."""
    tables = SketchPlan(3, features=8).tables
    assert tables.shape == (4 + 2 * PAIRS, 3)
    np.testing.assert_array_equal(tables, SketchPlan(3, features=8).tables)
    assert not np.array_equal(tables, SketchPlan(3, features=8, seed=1).tables)
    np.testing.assert_array_equal(
        tables[[0, 3, 4, -1]],
        [
            [-0.4133768081665039, 0.3644895553588867, 0.04888725280761719],
            [-0.27089786529541016, 5.743029594421387, -5.472131729125977],
            [0.29209136962890625, -0.14886474609375, -0.14322662353515625],
            [1.0, -1.0, 0.0],
        ],
    )


def test_only_sketches_of_one_plan_add() -> None:
    for other in (
        replace(PLAN, classes=4),
        replace(PLAN, features=16),
        replace(PLAN, lengthscale=0.5),
        replace(PLAN, seed=1),
    ):
        with pytest.raises(IncompatibleTables, match=r"sketches with equal plans add, got SketchPlan\(classes=3"):
            sketch(0, 3) + SkceSketch.zero(other)


def test_bytes_that_are_no_sketch_are_refused() -> None:
    data = sketch(0, 3).to_bytes()
    for wrong, message in (
        (b"", "not an SKCE sketch"),
        (b"no sketch at all, but long enough for a header", "not an SKCE sketch"),
        (data[:-8], "must have"),
        (data[:4] + b"\x02\x00" + data[6:], "has version 2, this program reads version 1"),
    ):
        with pytest.raises(IncompatibleTables, match=message):
            SkceSketch.from_bytes(wrong)


def test_sums_that_might_overflow_are_refused() -> None:
    sums = np.zeros(PLAN.size, np.int64)
    sums[-TOTALS] = MAX_EVENTS
    full = SkceSketch(PLAN, sums)
    with pytest.raises(IncompatibleTables, match=f"more than {MAX_EVENTS} events together"):
        full + sketch(0, 1)
    sums[-TOTALS] = -1
    with pytest.raises(IncompatibleTables, match=r"from 0 to \d+ events, got -1"):
        SkceSketch(PLAN, sums)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 1}, "classes must be at least 2, got 1"),
        ({"classes": 3, "features": 5}, "features must be an even number of at least 2, got 5"),
        ({"classes": 3, "lengthscale": 0.0}, "lengthscale must be a finite number above 0, got 0"),
        ({"classes": 3, "seed": -1}, "seed must be a whole number from 0"),
    ],
)
def test_options_out_of_their_range_are_named(options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SketchPlan(**options)


def test_what_does_not_fit_the_plan_is_refused() -> None:
    with pytest.raises(InputError, match="must have 3 classes as the plan says, got 4"):
        SkceSketch.zero(PLAN).add(*simulated(0, 3, 4))
    with pytest.raises(InputError, match=r"sums must be int64 of shape \(291,\), got int64 of shape \(3,\)"):
        SkceSketch(PLAN, np.zeros(3, np.int64))


def test_too_few_events_have_no_value() -> None:
    with pytest.raises(NotEnoughData, match="at least 2 events, got 1"):
        sketched_skce(sketch(0, 1))
    with pytest.raises(NotEnoughData, match="at least 1 event, got 0"):
        biased_skce(SkceSketch.zero(PLAN))
    with pytest.raises(NotEnoughData, match="at least 2 events, got 1"):
        sketched_null(sketch(0, 1))


# --- Its value --------------------------------------------------------------------------------------------------------


def test_the_sums_are_those_of_the_definition() -> None:
    p, y = simulated(3, 25, 3)
    sums = SkceSketch.zero(PLAN).add(p, y).sums
    expected = np.concatenate(sketch_sums(list(PLAN.tables[: PLAN.features // 2]), p, y))
    np.testing.assert_allclose(sums[: expected.size] / UNIT, expected, atol=25 / UNIT)
    residual = -p
    residual[np.arange(25), y] += 1.0
    assert sums[-TOTALS] == 25
    assert sums[-2] / UNIT == pytest.approx((residual**2).sum(), abs=1e-8)
    assert sums[-1] / UNIT == pytest.approx((1.0 - (p**2).sum(axis=1)).sum(), abs=1e-8)


def test_the_value_is_the_exact_one_of_the_sketchs_own_kernel() -> None:
    """So the estimate is unbiased, and its test valid, whatever the number of frequencies."""
    p, y = simulated(4, 30, 3, sharpness=2.0)
    plan = SketchPlan(3, features=6)
    frequency = plan.tables[:3]
    found = SkceSketch.zero(plan).add(p, y)

    def kernel(a: Floats, b: Floats) -> float:
        return float(np.cos(frequency @ (a - b)).mean())

    assert sketched_skce(found) == pytest.approx(skce_unbiased(kernel, p, y), abs=1e-9)
    assert biased_skce(found) == pytest.approx(skce_biased(kernel, p, y), abs=1e-9)


@pytest.mark.parametrize("classes", short_of([3, 2, 10, 50], 1))
@pytest.mark.parametrize(("lengthscale", "share"), [(1.0, 0.2), (0.3, 0.7)])
def test_256_features_come_close_to_the_exact_value(classes: int, lengthscale: float, share: float) -> None:
    """Within a share of the standard deviation that chance alone gives the exact value."""
    kernel = exponential(lengthscale)
    plan = SketchPlan(classes, lengthscale=lengthscale)
    for seed, sharpness in ((1, 1.0), (2, 2.0)):
        p, y = simulated(seed, 80, classes, sharpness)
        exact = skce_unbiased(kernel, p, y)
        noise = np.sqrt(null_variance(kernel, p))
        assert abs(sketched_skce(SkceSketch.zero(plan).add(p, y)) - exact) < share * noise + 0.1 * abs(exact)


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("lengthscale", [1.0, 0.3])
def test_the_null_deviation_comes_close_to_the_exact_one(classes: int, lengthscale: float) -> None:
    p, y = simulated(5, 200, classes)
    found = sketched_null(SkceSketch.zero(SketchPlan(classes, lengthscale=lengthscale)).add(p, y))
    assert found.deviation == pytest.approx(np.sqrt(null_variance(exponential(lengthscale), p)), rel=0.1)


def test_certain_predictions_have_no_null_deviation() -> None:
    right = SkceSketch.zero(PLAN).add(np.eye(3), [0, 1, 2])
    assert sketched_skce(right) == 0.0
    assert sketched_null(right).p_value == 1.0
    assert sketched_interval(right) == (0.0, 0.0)
    wrong = SkceSketch.zero(PLAN).add(np.eye(3)[[0, 0]], [1, 1])
    assert sketched_skce(wrong) == pytest.approx(2.0)
    assert sketched_null(wrong).p_value == 0.0


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_test_has_its_size_and_power(classes: int) -> None:
    calibrated = [sketched_null(sketch(seed, 250, SketchPlan(classes))) for seed in range(300)]
    p_values = np.array([each.p_value for each in calibrated])
    assert 0.02 <= (p_values <= 0.05).mean() <= 0.08
    assert 0.4 <= p_values.mean() <= 0.6
    overconfident = [sketch(seed, 2000, SketchPlan(classes), 2.0) for seed in range(10)]
    assert all(sketched_null(each).p_value < 0.05 for each in overconfident)
    # The 95% point is where the p-value is .05.
    assert all(
        (sketched_skce(each) > sketched_null(each).q95) == (sketched_null(each).p_value < 0.05)
        for each in overconfident
    )


@pytest.mark.parametrize("sharpness", [1.0, 2.0])
def test_the_interval_covers_the_error(sharpness: float) -> None:
    plan = SketchPlan(3)
    # Of predictions without end the squared error is its expectation, which the unbiased estimate of many comes near.
    truth = 0.0 if sharpness == 1.0 else sketched_skce(sketch(999, 200_000, plan, sharpness))
    intervals = [sketched_interval(sketch(seed, 400, plan, sharpness)) for seed in range(150)]
    assert np.mean([low <= truth <= high for low, high in intervals]) >= 0.92
    assert all(0.0 <= low <= high for low, high in intervals)
