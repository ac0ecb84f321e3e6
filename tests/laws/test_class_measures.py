"""What every measure of many classes obeys. One that is added is tested here unasked."""

import importlib
import pkgutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import monitor.classes
from monitor.classes import CLASS_MEASURES, ClassMeasure
from monitor.classes.class_loops import categorical_draws
from monitor.errors import NotEnoughData
from monitor.scores import ClassTable
from tests.reference.naive_classes import simulated

every_measure = pytest.mark.parametrize("measure", CLASS_MEASURES.values(), ids=CLASS_MEASURES.keys())

every_drawn_measure = pytest.mark.parametrize(
    "measure", [each for each in CLASS_MEASURES.values() if each.prepare is not None], ids=lambda each: each.name
)


def test_every_file_that_declares_measures_is_found_and_exports_them() -> None:
    declared: list[ClassMeasure] = []
    for file in pkgutil.iter_modules(monitor.classes.__path__):
        module = importlib.import_module(f"monitor.classes.{file.name}")
        declared += [module.MEASURE] if hasattr(module, "MEASURE") else []
        declared += getattr(module, "MEASURES", ())
    assert {measure.name for measure in declared} == set(CLASS_MEASURES)
    assert list(CLASS_MEASURES.values()) == sorted(CLASS_MEASURES.values(), key=lambda each: (each.rank, each.name))
    for name, measure in CLASS_MEASURES.items():
        assert name == measure.name
        assert measure.title
        assert measure.help.endswith(".")
        assert (measure.prepare is None) != (measure.findings is None)  # one way to uncertainty


@every_measure
@given(seed=st.integers(0, 99), classes=st.integers(2, 5))
def test_a_value_is_in_its_range_and_knows_no_order(measure: ClassMeasure, seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    p, y = simulated(seed, 40, classes, 1.5)
    value = measure.value(ClassTable.from_events(p, y))
    order = rng.permutation(40)
    assert measure.value(ClassTable.from_events(p[order], y[order])) == pytest.approx(value, abs=1e-12)
    assert -2.0 <= value <= 2.0 if measure.name == "skce" else 0.0 <= value <= 1.0


@every_measure
def test_certain_and_right_is_0(measure: ClassMeasure) -> None:
    assert measure.value(ClassTable.from_events(np.tile(np.eye(3), (10, 1)), [0, 1, 2] * 10)) == 0.0


@every_measure
def test_certain_and_wrong_is_the_worst(measure: ClassMeasure) -> None:
    """All events in one place, where no binning can differ: what is sure never comes."""
    value = measure.value(ClassTable.from_events([[1.0, 0.0]] * 30, [1] * 30))
    assert value == pytest.approx(2.0 if measure.name == "skce" else 1.0)


@every_measure
def test_too_little_is_said(measure: ClassMeasure) -> None:
    with pytest.raises(NotEnoughData, match="at least"):
        measure.value(ClassTable.from_events(np.empty((0, 3)), []))


@every_drawn_measure
def test_many_draws_at_once_are_one_by_one(measure: ClassMeasure) -> None:
    assert measure.prepare is not None
    for seed, classes in ((1, 2), (2, 3), (3, 6)):
        table = ClassTable.from_events(*simulated(seed, 80, classes))
        rng = np.random.default_rng(seed)
        outcomes = categorical_draws(rng, np.cumsum(table.prediction, axis=1), 5)
        np.testing.assert_allclose(
            measure.prepare(table).draws(outcomes),
            [measure.value(ClassTable(table.prediction, drawn.astype(np.int64))) for drawn in outcomes],
            rtol=1e-12,
            atol=1e-15,
        )


@every_drawn_measure
@given(seed=st.integers(0, 20), factor=st.floats(-3.0, 3.0))
def test_a_norm_is_the_value_and_a_semi_norm(measure: ClassMeasure, seed: int, factor: float) -> None:
    assert measure.prepare is not None
    table = ClassTable.from_events(*simulated(seed, 40, 3, 1.5))
    one, other = np.ones(40), np.cos(np.arange(40.0))
    value, scaled, moved, by = measure.prepare(table).norms(np.stack([one, factor * one, one + other, other]))
    assert value == pytest.approx(measure.value(table), rel=1e-9, abs=1e-12)
    assert scaled == pytest.approx(abs(factor) * value, rel=1e-9, abs=1e-12)
    assert moved <= value + by + 1e-12


@pytest.mark.parametrize("measure", [each for each in CLASS_MEASURES.values() if each.findings is not None])
def test_findings_are_of_the_value(measure: ClassMeasure) -> None:
    assert measure.findings is not None
    table = ClassTable.from_events(*simulated(1, 200, 3, 2.0))
    found = measure.findings(table)
    assert found.value == measure.value(table)
    assert found.lower <= found.value <= found.upper
    assert (found.value > found.null_q95) == (found.p_value < 0.05)
    assert 0.0 <= found.p_value <= 1.0
    assert found.method
