"""Many classes seen as two, and the MMCE, which is one of these views."""

import numpy as np
import pytest

from monitor.classes import classwise, mmce, of_each_class, top_label
from monitor.errors import InputError, NotEnoughData
from monitor.measures import MEASURES, Measure
from monitor.scores import ClassTable, ScoreTable
from tests.reference.naive_classes import simulated


@pytest.mark.parametrize("measure", [each for each in MEASURES.values() if each.appears_in == "windows"])
def test_every_binary_measure_goes_over(measure: Measure) -> None:
    p, y = simulated(1, 300, 3, 1.5)
    table = ClassTable.from_events(p, y)
    top = p.argmax(axis=1)
    binary = ScoreTable.from_events(table.prediction[np.arange(300), top], top == y)
    assert top_label(table, measure.value) == measure.value(binary)
    each = [measure.value(ScoreTable.from_events(table.prediction[:, k], y == k)) for k in range(3)]
    np.testing.assert_array_equal(of_each_class(table, measure.value), each)
    assert classwise(table, measure.value) == pytest.approx(np.mean(each))


def test_mmce_by_double_sum() -> None:
    p, y = simulated(2, 60, 4, 2.0)
    table = ClassTable.from_events(p, y)
    confidence, right = table.prediction.max(axis=1), table.prediction.argmax(axis=1) == y
    for width in (0.1, 0.4):
        square = sum(
            (right[i] - confidence[i])
            * (right[j] - confidence[j])
            * np.exp(-abs(confidence[i] - confidence[j]) / width)
            for i in range(60)
            for j in range(60)
        )
        assert mmce(table, width=width) == pytest.approx(np.sqrt(square) / 60)
    with pytest.raises(InputError, match="bandwidth must be a finite number above 0"):
        mmce(table, width=0.0)
    with pytest.raises(NotEnoughData, match="MMCE needs at least 1 event"):
        mmce(ClassTable(p[:0], y[:0]))
