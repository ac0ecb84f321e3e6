"""Simulated streams are calibrated where they say so, and wrong as their scenario says."""

from collections.abc import Iterable

import numpy as np
import pytest
from scipy.special import expit, logit

from monitor.errors import InputError, NotEnoughData
from monitor.events.model import ALL
from monitor.inference.cox import fit_cox
from monitor.scores import GridTable, grid
from monitor.scores.steps import Steps
from monitor.simulation.generator import DAY_MS, HOUR_MS, cell_logits, cell_middles, to_steps
from monitor.simulation.predictions import DrawnPredictions, HistoryPredictions, PredictionSource
from monitor.simulation.scenarios import KINDS, Scenario
from monitor.simulation.stream import CONCERNED, OTHERS, Course, SimulatedStream

COURSE = Course(10 * HOUR_MS, 34 * HOUR_MS, 600_000, 4 * HOUR_MS, implied_negative=False)
USUAL = DrawnPredictions.normal(0.1, 1.5, 4000.0)


def stretch(
    scenario: str, hours: int = 24, course: Course = COURSE, predictions: PredictionSource = USUAL, seed: int = 0
) -> tuple[Steps, Steps]:
    """The steps before and after the change."""
    stream = SimulatedStream(predictions, Scenario.parse(scenario), course, seed)
    before = stream.draw(10_000)[ALL]
    assert stream.to_ms == course.change_ms
    return before, stream.draw(hours)[ALL]


def whole(steps: Steps) -> GridTable:
    return GridTable.sum(steps.tables())


def deviation(table: GridTable) -> float:
    """How far the sum of y - p is from 0, in standard deviations of calibrated predictions."""
    p, n = cell_middles()[table.cell], table.values[:, :2].sum(axis=1)
    return float((table.values[:, 0] - n * p).sum() / np.sqrt((n * p * (1 - p)).sum()))


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.calibrated and name != "shocks"])
def test_predictions_stay_right(name: str) -> None:
    before, after = (whole(steps) for steps in stretch(name))
    for table in (before, after):
        assert abs(deviation(table)) < 4.0
        slope = fit_cox(table.to_scores()).slope
        assert slope == pytest.approx(1.0, abs=0.05)
    assert before.labelled == pytest.approx(40_000, rel=0.02 if name != "seasonality" else 0.4)


def test_cells_stand_for_the_predictions_that_sums_add_up() -> None:
    before, _ = stretch("none")
    units = before.values[:, 3:].sum(axis=1) + before.values[:, :3].sum(axis=1) * grid.anchors()[before.cell]
    np.testing.assert_allclose(
        units / grid.UNITS, before.values[:, :3].sum(axis=1) * cell_middles()[before.cell], rtol=1e-9
    )
    np.testing.assert_allclose(expit(cell_logits()), cell_middles(), rtol=1e-9)
    assert float((before.values[:, 0]).sum() / before.values[:, :2].sum()) == pytest.approx(0.1, abs=0.006)
    assert (np.diff(before.end_ms) == COURSE.pane_ms).all()


@pytest.mark.parametrize(
    ("scenario", "offset", "slope"),
    [("slope=1.3", 0.0, 1.3), ("offset=-0.5", -0.5, 1.0), ("prevalence=2", np.log(2.0), 1.0), ("slope=0.7", 0.0, 0.7)],
)
def test_what_changes_is_what_the_scenario_says(scenario: str, offset: float, slope: float) -> None:
    before, after = (whole(steps) for steps in stretch(scenario))
    assert abs(deviation(before)) < 4.0
    fit = fit_cox(after.to_scores())
    centre = float(cell_logits()[USUAL.quantiles].mean())
    assert fit.slope is not None
    assert fit.intercept is not None
    assert fit.slope == pytest.approx(slope, abs=0.06)
    # About the mean logit.
    assert fit.intercept + (fit.slope - 1.0) * centre == pytest.approx(offset, abs=0.08)


def test_more_positives_move_the_predictions_as_a_label_shift_does() -> None:
    _, after = stretch("prevalence=3")
    table = whole(after)
    p = cell_middles()[USUAL.quantiles]
    rate = 3 * 0.1 / (0.9 + 0.3)
    expected = rate * (p * p).mean() / 0.1 + (1 - rate) * ((1 - p) * p).mean() / 0.9
    n = table.values[:, :2].sum(axis=1)
    assert float((n @ cell_middles()[table.cell]) / n.sum()) == pytest.approx(float(expected), rel=0.02)
    assert table.values[:, 0].sum() / n.sum() == pytest.approx(rate, rel=0.03)


def residual(steps: Steps, inside: Iterable[bool]) -> float:
    table = whole(steps)
    rows = np.asarray(inside)[table.cell]
    return deviation(GridTable(table.cell[rows], table.values[rows]))


def test_a_bump_is_in_the_third_quarter() -> None:
    _, after = stretch("bump=0.8")
    middle, upper = np.quantile(cell_logits()[USUAL.quantiles], [0.5, 0.75])
    inside = (cell_logits() > middle) & (cell_logits() < upper)
    assert residual(after, inside) > 10.0
    assert abs(residual(after, (cell_logits() < middle - 0.02) | (cell_logits() > upper + 0.02))) < 4.0


def test_a_segment_changes_alone_and_segments_add_up() -> None:
    stream = SimulatedStream(USUAL, Scenario.parse("segment=2"), COURSE, 0)
    for moved in (False, True):
        steps = stream.draw(10_000)
        tables = {name: whole(of_segment) for name, of_segment in steps.items()}
        assert GridTable.sum([tables[CONCERNED], tables[OTHERS]]).values.tolist() == tables[ALL].values.tolist()
        assert tables[CONCERNED].labelled / tables[ALL].labelled == pytest.approx(0.05, abs=0.005)
        assert abs(deviation(tables[OTHERS])) < 4.0
        assert (deviation(tables[CONCERNED]) > 10.0) == moved


def test_a_ramp_comes_gradually() -> None:
    course = COURSE._replace(end_ms=COURSE.change_ms + 8 * DAY_MS)
    stream = SimulatedStream(USUAL, Scenario.parse("ramp=2"), course, 0)
    stream.draw(10_000)
    slopes = [fit_cox(whole(stream.draw(24)[ALL]).to_scores()).slope for _ in range(8)]
    assert slopes == pytest.approx([*(1.0 + (day + 0.5) / 7 for day in range(7)), 2.0], abs=0.1)


def test_labels_are_lost_and_count_as_negative_where_that_is_declared() -> None:
    for name, lost in (("delayed=0.3", 0.3), ("outage=6", 0.25)):
        _, after = stretch(name)
        table = whole(after)
        assert table.values[:, 2].sum() / table.predictions == pytest.approx(lost, abs=0.01)
        _, after = stretch(name, course=COURSE._replace(implied_negative=True))
        table = whole(after)
        assert table.values[:, 2].sum() == 0
        assert deviation(table) < -10.0
    lost_steps = [table.values[:, :2].sum() == 0 for table in stretch("outage=6")[1].tables()]
    assert lost_steps == [True] * 36 + [False] * 108


def test_shocks_last_for_a_horizon() -> None:
    before, _ = stretch("shocks=1", course=COURSE._replace(change_ms=40 * HOUR_MS, end_ms=50 * HOUR_MS))
    by_horizon = [deviation(whole(before.part(at, at + 24))) for at in range(0, 240, 24)]
    assert np.mean(np.abs(by_horizon) > 5.0) > 0.6
    assert len({value > 0 for value in by_horizon}) == 2


def test_equal_seeds_give_equal_steps_and_others_do_not() -> None:
    first, again, other = (stretch("slope", seed=seed)[1] for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.values, other.values)


@pytest.mark.parametrize("in_cells", [True, False])
def test_predictions_are_counted_as_a_naive_loop_does(in_cells: bool) -> None:
    rng = np.random.default_rng(0)
    step = np.repeat([0, 2, 3], [3, 40, 1])
    cell = rng.integers(0, 5, 44) * 700 + 500
    label = rng.integers(0, 3, 44)
    steps = to_steps(step, np.arange(1, 5) * 60_000, label, cell_middles()[cell], cell if in_cells else None)
    expected: dict[tuple[int, int], list[int]] = {}
    for at, place, column in zip(step.tolist(), cell.tolist(), label.tolist(), strict=True):
        row = expected.setdefault((at, place), [0] * 6)
        row[column] += 1
        row[column + 3] += round(float(cell_middles()[place]) * grid.UNITS) - int(grid.anchors()[place])
    places = [(at, place) for at in range(4) for place in steps.cell[steps.first[at] : steps.first[at + 1]]]
    assert places == sorted(expected)
    assert steps.values.tolist() == [expected[place] for place in places]


def history(hours: int, per_hour: int, width_ms: int) -> HistoryPredictions:
    """Hour ``h`` of the day has predictions near h / 24, and twice as many in the second half of the day."""
    rng = np.random.default_rng(0)
    at = np.repeat(np.arange(hours), [per_hour * (1 + (h % 24 >= 12)) for h in range(hours)])
    start_ms = at * HOUR_MS + (rng.random(at.size) * HOUR_MS).astype(np.int64) // width_ms * width_ms
    cell = grid.locate((at % 24 + rng.random(at.size)) / 24)
    return HistoryPredictions.of(start_ms, np.full(at.size, width_ms), cell, np.ones(at.size, np.int64))


@pytest.mark.parametrize("width_ms", [60_000, HOUR_MS])
def test_history_is_resampled_by_the_hour_of_the_day(width_ms: int) -> None:
    past = history(75, 300, width_ms)
    assert past.description.startswith("73 hours of its history")
    assert past.per_hour == pytest.approx(450, rel=0.05)
    stream = SimulatedStream(
        past, Scenario.parse("none"), COURSE._replace(change_ms=24 * HOUR_MS, end_ms=30 * HOUR_MS), 0
    )
    steps = stream.draw(24)[ALL]
    assert steps.end_ms.size == 144
    for hour in range(24):
        table = whole(steps.part(6 * hour, 6 * hour + 6))
        assert table.labelled == 300 * (1 + (hour >= 12))
        # Up to a cell.
        assert np.abs(cell_middles()[table.cell] * 24 - (hour + 0.5)).max() < 0.53
    # Spread over the hour, also where panes are as wide as that.
    assert min(table.labelled for table in steps.tables()) > 20
    assert abs(deviation(whole(steps))) < 4.0


def test_hours_without_predictions_are_drawn_too() -> None:
    cell = grid.locate(np.array([0.2, 0.3, 0.4]))
    past = HistoryPredictions.of(np.array([0, 5, 9]) * HOUR_MS, np.full(3, HOUR_MS), cell, np.array([5, 7, 9]))
    assert past.per_hour == pytest.approx(7 / 8)
    with pytest.raises(
        NotEnoughData, match="needs at least 1 settled prediction with an outcome in whole hours, got 0"
    ):
        HistoryPredictions.of(np.array([0, 5]), np.full(2, HOUR_MS), cell[:2], np.array([5, 7]))
    empty = np.zeros(0, np.int64)
    with pytest.raises(NotEnoughData, match="got 0"):
        HistoryPredictions.of(empty, empty, empty, empty)


def test_predictions_at_hand_are_drawn_from() -> None:
    drawn = DrawnPredictions.of([0.1, 0.1, 0.7, 0.0], 1000.0)
    assert drawn.description == "drawn from 4 predictions"
    _, cell = drawn.draw(0, HOUR_MS, np.ones(40), np.random.default_rng(0))
    found, count = np.unique(cell, return_counts=True)
    assert found.tolist() == grid.locate(np.array([0.0, 0.1, 0.7])).tolist()
    assert count / cell.size == pytest.approx([0.25, 0.5, 0.25], abs=0.01)
    assert float(logit(cell_middles()[found[1]])) == pytest.approx(logit(0.1), abs=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: DrawnPredictions.normal(0.0, 1.0, 1.0),
            "--prevalence must be above 0 and below 1, such as 0.05 for 5%, got 0",
        ),
        (lambda: DrawnPredictions.normal(0.5, 9.0, 1.0), "--spread must be above 0 and at most 5 logits, got 9"),
        (lambda: DrawnPredictions.normal(0.5, 1.0, 0.0), "--per-hour must be above 0 and at most 10,000,000, got 0"),
        (lambda: DrawnPredictions.of([], 1.0), "predictions must hold at least 1 prediction, got 0"),
        (lambda: DrawnPredictions.of([0.0, 1.0], 1.0), "predictions must hold some between 0 and 1"),
        (lambda: DrawnPredictions.of([0.5, 1.5], 1.0), r"predictions must be in \[0, 1\]"),
        (lambda: Scenario.parse("slop=2"), "--scenario: there is no 'slop'; there are none, seasonality, outage"),
        (lambda: Scenario.parse("slope=x"), "--scenario slope: its size must be a number, such as 1.3, got 'x'"),
        (lambda: Scenario.parse("delayed=2"), "--scenario delayed: its size must be at least 0 and at most 1, got 2"),
        (
            lambda: Scenario.parse("slope=nan"),
            "--scenario slope: its size must be at least 0.05 and at most 20, got nan",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InputError, match=message):
        make()
