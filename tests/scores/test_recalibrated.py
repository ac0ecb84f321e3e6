"""Steps as a map serves them: counts stay, sums are those of the map, and nothing depends on how steps are passed."""

import numpy as np
import pytest

from monitor.scores import GridTable, grid
from monitor.scores.recalibrated import recalibrate_steps
from monitor.scores.steps import Steps
from tests.maps_of_refits import fitted

METHODS = ("beta", "platt", "isotonic", "histogram", "temperature", "offset")


def steps(seed: int = 0, size: int = 12) -> Steps:
    rng = np.random.default_rng(seed)
    tables = []
    for at in range(size):
        p = np.concatenate([rng.random(at * 20), rng.choice([0.0, 1.0, 0.2, 1 / 3], at)])
        tables.append((at + 1, GridTable.from_events(p, rng.integers(-1, 2, p.size))))
    return Steps.of(tables)


@pytest.mark.parametrize("method", METHODS)
def test_predictions_are_those_of_the_map(method: str) -> None:
    # One event in each occupied cell, so that the mean of a cell is the event's prediction.
    served = fitted(method)
    p = np.concatenate([grid.edges()[5::7], (grid.edges()[8:-2:7] + grid.upper_edges()[8:-2:7]) / 2.0])
    y = np.arange(p.size) % 3 - 1
    moved = recalibrate_steps(Steps.of([(1, GridTable.from_events(p, y))]), served.apply).tables()[0]
    expected = GridTable.from_events(served.apply(p), y)
    assert moved.values[:, :3].sum(axis=0).tolist() == expected.values[:, :3].sum(axis=0).tolist()
    ours, exact = moved.to_scores(), expected.to_scores()
    assert ours.counts.sum() == exact.counts.sum()
    assert ours.positive_sum.sum() == pytest.approx(exact.positive_sum.sum(), abs=1e-8)
    assert ours.negative_sum.sum() == pytest.approx(exact.negative_sum.sum(), abs=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_steps_are_the_same_in_one_go_and_one_by_one(method: str) -> None:
    whole, served = steps(), fitted(method)
    at_once = recalibrate_steps(whole, served.apply)
    assert at_once.end_ms is whole.end_ms
    for at, table in enumerate(at_once.tables()):
        assert recalibrate_steps(whole.part(at, at + 1), served.apply).tables() == [table]
        assert (np.diff(table.cell) > 0).all()
        assert table.values[:, :3].sum(axis=0).tolist() == whole.tables()[at].values[:, :3].sum(axis=0).tolist()
        lower, upper = (edges[table.cell] * grid.UNITS for edges in (grid.edges(), grid.upper_edges()))
        count, above = table.values[:, :3], table.values[:, 3:]
        assert (above >= 0).all()
        assert (above <= count * np.ceil(upper - lower + 1)[:, None]).all()


def test_outcomes_have_no_say_in_where_predictions_go() -> None:
    p = np.random.default_rng(1).random(500)
    tables = [
        recalibrate_steps(Steps.of([(1, GridTable.from_events(p, y))]), fitted("beta").apply).tables()[0]
        for y in (np.zeros(500), np.ones(500), -np.ones(500))
    ]
    assert all(np.array_equal(table.cell, tables[0].cell) for table in tables)
    assert all(np.array_equal(table.values.sum(axis=1), tables[0].values.sum(axis=1)) for table in tables)


def test_the_map_that_changes_nothing_changes_no_prediction_of_a_cell_by_more_than_half_a_unit() -> None:
    whole = steps()
    moved = recalibrate_steps(whole, np.copy)
    assert np.array_equal(moved.cell, whole.cell)
    assert np.array_equal(moved.values[:, :3], whole.values[:, :3])
    assert (
        np.abs(moved.values[:, 3:].sum(axis=1) - whole.values[:, 3:].sum(axis=1)) <= whole.values[:, :3].sum(axis=1)
    ).all()


def test_steps_without_predictions_are_left_as_they_are() -> None:
    empty = Steps.of([])
    assert recalibrate_steps(empty, np.copy) is empty
