from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.classes import classwise, of_each_class
from monitor.measures import tce
from monitor.scores import ClassTable
from tests.reference import naive_tce


def draw_events(seed: int, n: int, classes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Calibrated events."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.linspace(0.5, 2.0, classes), n)
    return p, (rng.random(n)[:, None] > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)


def test_each_class_against_the_rest_is_the_papers_loop() -> None:
    p, y = draw_events(1, 240, 4)
    values = []
    for label in range(4):
        order = np.argsort(p[:, label])
        outcomes = (y[order] == label).astype(np.int64).tolist()
        values.append(naive_tce.tce(p[order, label], naive_tce.pava_bc(outcomes, 12, 48)))
    table = ClassTable.from_events(p, y)
    np.testing.assert_allclose(of_each_class(table, tce), values, atol=1e-9)
    assert classwise(table, tce) == pytest.approx(np.mean(values), abs=1e-9)


@pytest.mark.parametrize("options", [{"alpha": 0.3}, {"bins": "quantile", "n_bins": 4}, {"test": "t"}])
def test_options_reach_every_class(options: dict[str, Any]) -> None:
    table = ClassTable.from_events(*draw_events(2, 900, 3))
    values = [tce(table.one_against_rest(label), **options) for label in range(3)]
    assert of_each_class(table, partial(tce, **options)).tolist() == values
    assert classwise(table, partial(tce, **options)) != classwise(table, tce)


def test_the_order_of_the_classes_does_not_matter() -> None:
    p, y = draw_events(3, 500, 3)
    order = np.array([2, 0, 1])
    table, permuted = ClassTable.from_events(p, y), ClassTable.from_events(p[:, order], np.argsort(order)[y])
    np.testing.assert_allclose(of_each_class(permuted, tce), of_each_class(table, tce)[order])
    assert classwise(permuted, tce) == pytest.approx(classwise(table, tce))


def test_two_classes_of_mirrored_bins_have_the_binary_value() -> None:
    p, y = draw_events(4, 800, 2)
    table = ClassTable.from_events(p, y)
    binary = tce(table.one_against_rest(1), bins="pava")
    assert of_each_class(table, partial(tce, bins="pava")).tolist() == [binary, binary]
    assert classwise(table, partial(tce, bins="pava")) == binary
