"""What each event adds to a measure of whole vectors: the functional that attains it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.classes import CLASS_MEASURES, ClassMeasure
from monitor.scores import ClassTable
from tests.reference.naive_classes import simulated

every_drawn_measure = pytest.mark.parametrize(
    "measure", [each for each in CLASS_MEASURES.values() if each.prepare is not None], ids=lambda each: each.name
)


@every_drawn_measure
@given(seed=st.integers(0, 20), classes=st.integers(2, 5))
def test_shares_add_up_to_the_measure_and_never_beyond_a_norm(measure: ClassMeasure, seed: int, classes: int) -> None:
    assert measure.prepare is not None
    table = ClassTable.from_events(*simulated(seed, 60, classes, 1.5))
    prepared = measure.prepare(table)
    shares = prepared.shares()
    assert shares.shape == (60,)
    assert shares.sum() == pytest.approx(measure.value(table), rel=1e-9, abs=1e-12)
    weight = np.random.default_rng(seed).normal(size=(30, 60))
    assert (weight @ shares <= prepared.norms(weight) + 1e-12).all()


@every_drawn_measure
def test_of_residuals_that_are_0_there_are_no_shares(measure: ClassMeasure) -> None:
    assert measure.prepare is not None
    table = ClassTable.from_events(np.eye(3)[np.arange(60) % 3], np.arange(60) % 3)
    assert not measure.prepare(table).shares().any()
