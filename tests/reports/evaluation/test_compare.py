"""Two tables of predictions: whether they are of the same events, and which is better calibrated."""

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import expit, logit
from scipy.stats import norm

from monitor.errors import InputError
from monitor.measures import MEASURES, smce
from monitor.reports.evaluation.compare import (
    ComparedEvents,
    Difference,
    align,
    compare_tables,
    interval_difference,
    norm_difference,
    paired_errors,
)
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.reports.evaluation.report import MeasureResult
from monitor.scores import ScoreTable
from monitor.sources.tables import EventTable, SegmentColumn
from tests.long import short_of

CHOSEN = {name: MEASURES[name] for name in ("tce", "kce", "smce", "intce", "ece", "mce", "brier")}


def events(n: int, seed: int, slope: float = 1.0) -> tuple[EventTable, EventTable]:
    """The same events as a calibrated model and one of this slope see them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 1.2, n)
    y = (rng.random(n) < expit(z)).astype(np.int8)
    return EventTable(expit(z), y), EventTable(expit(slope * z), y)


def rare(n: int, seed: int, slope: float = 1.0, mean: float = -3.0) -> EventTable:
    """Events of true logits ~ Normal(mean, 1): the upper bins hold a handful."""
    rng = np.random.default_rng(seed)
    z = rng.normal(mean, 1.0, n)
    return EventTable(expit(slope * z), (rng.random(n) < expit(z)).astype(np.int8))


def with_ids(table: EventTable, ids: list[str], rows: list[int]) -> EventTable:
    return replace(
        table,
        prediction=table.prediction[rows],
        outcome=table.outcome[rows],
        ids=pa.chunked_array([[ids[row] for row in rows]], pa.string()),
    )


def test_the_same_outcomes_row_by_row_are_the_same_events() -> None:
    a, b = events(500, seed=1, slope=2.0)
    found = align(a, b)
    assert (found.pairing, found.first, found.second) == ("rows", a, b)
    assert found.note == "both have the same 500 outcomes row by row, so they are compared event by event"
    turned = replace(b, prediction=b.prediction[::-1], outcome=b.outcome[::-1])
    assert align(a, turned).pairing == "none"
    assert align(a, replace(b, weight=np.ones(500))).pairing == "none"


def test_ids_tell_the_same_events() -> None:
    a, b = events(6, seed=2, slope=2.0)
    ids = list("uvwxyz")
    found = align(with_ids(a, ids, [0, 1, 2, 3, 4]), with_ids(b, ids, [5, 3, 1, 0]))
    assert found.pairing == "ids"
    assert found.first.prediction.tolist() == a.prediction[[0, 1, 3]].tolist()
    assert found.second.prediction.tolist() == b.prediction[[0, 1, 3]].tolist()
    assert found.note == (
        "3 ids are in both files, and are compared event by event; 3 rows whose id is in one file only are left out"
    )
    assert align(with_ids(a, ids, [0, 1]), with_ids(b, ids, [2, 3])).pairing == "none"


def test_an_outcome_that_one_file_does_not_know_is_that_of_the_other() -> None:
    a, b = events(4, seed=2)
    ids = list("wxyz")
    unknown = replace(b, outcome=np.where([True, False, True, False], -1, b.outcome).astype(np.int8))
    found = align(with_ids(a, ids, [0, 1, 2, 3]), with_ids(unknown, ids, [0, 1, 2, 3]))
    assert found.second.outcome.tolist() == found.first.outcome.tolist() == a.outcome.tolist()


def test_what_cannot_be_compared_is_said() -> None:
    a, b = events(4, seed=2)
    ids = list("wxyz")
    with pytest.raises(InputError, match="one of the two files has ids and the other has none"):
        align(with_ids(a, ids, [0, 1]), b)
    other = replace(b, outcome=1 - b.outcome)
    with pytest.raises(
        InputError, match=r"the outcome of id 'w' is \d in the first file and \d in the second \(4 such"
    ):
        align(with_ids(a, ids, [0, 1, 2, 3]), with_ids(other, ids, [0, 1, 2, 3]))
    many = replace(a, classes=("a", "b"), prediction=np.full((4, 2), 0.5))
    with pytest.raises(InputError, match="many classes are not compared"):
        compare_tables(many, many)


def test_values_are_those_of_the_reports() -> None:
    a, b = events(3000, seed=3, slope=2.0)
    found = compare_tables(a, b, names=("old", "new"), measures=CHOSEN, draws=99, seed=0)
    assert found.first == evaluate(a.prediction, a.outcome, measures=CHOSEN, draws=99, seed=0, model="old")
    assert found.second == evaluate(b.prediction, b.outcome, measures=CHOSEN, draws=99, seed=0, model="new")
    for name, each in found.differences.items():
        assert each.first == found.first.measures[name].value
        assert each.second == found.second.measures[name].value
        assert each.difference == each.second - each.first
        assert each.lower is not None
        assert each.upper is not None
        assert each.p_value is not None
        assert each.lower <= each.difference <= each.upper
        assert each.significant == (not each.lower <= 0.0 <= each.upper)
    for name in ("kce", "smce", "ece", "brier"):
        assert found.differences[name].significant, name
    assert json.loads(json.dumps(found.to_dict()))["differences"]["smce"]["difference"] > 0.0


@pytest.mark.parametrize("turned", [False, True])
def test_to_exchange_the_two_turns_the_sign(turned: bool) -> None:
    a, b = events(1500, seed=4, slope=1.6)
    if turned:
        b = replace(b, prediction=b.prediction[::-1], outcome=b.outcome[::-1])
    one = compare_tables(a, b, measures=CHOSEN, draws=199)
    two = compare_tables(b, a, measures=CHOSEN, draws=199)
    for name, each in one.differences.items():
        other = two.differences[name]
        assert each.difference == -other.difference
        assert each.lower is not None
        assert other.upper is not None
        # Other draws, the same law.
        width = abs(each.upper - each.lower) if each.upper is not None else math.nan
        assert each.lower == pytest.approx(-other.upper, abs=0.1 * width)


def test_the_same_predictions_do_not_differ() -> None:
    a, _ = events(2000, seed=5)
    for name, each in compare_tables(a, a, measures=CHOSEN, draws=99).differences.items():
        assert each.difference == 0.0, name
        assert not each.significant, name
        assert each.p_value is not None
        assert each.p_value > 0.5, name


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("n", short_of([30, 6, 2000], 1))
def test_no_end_is_beyond_what_two_values_can_differ_by(n: int, paired: bool) -> None:
    a = rare(n, seed=0)
    b = replace(a, prediction=expit(1.3 * logit(a.prediction))) if paired else rare(n, seed=100, slope=1.3)
    found = compare_tables(a, b, measures=MEASURES, draws=19)
    assert found.pairing == ("rows" if paired else "none")
    assert {"mce", "tce", "kce", "brier", "binned_ece_width"} <= found.differences.keys()
    for name, each in found.differences.items():
        first, second = (
            MEASURES[name].largest(ScoreTable.from_events(one.prediction, one.outcome.astype(float))) for one in (a, b)
        )
        assert each.lower is not None
        assert each.upper is not None
        assert -first <= each.lower <= each.difference <= each.upper <= second, name


def test_mce_of_different_events_has_the_interval_that_both_intervals_make() -> None:
    # The draws of a bin of two events reach far: from them the interval was -1.4 to 1.5.
    found = compare_tables(
        rare(2000, seed=0), rare(2000, seed=100, slope=1.3), measures={"mce": MEASURES["mce"]}, draws=19
    )
    first, second = found.first.measures["mce"], found.second.measures["mce"]
    assert found.differences["mce"] == interval_difference(first, second, paired=False)


def test_the_same_events_tell_more_than_different_ones() -> None:
    a, b = events(4000, seed=6, slope=1.7)
    paired = compare_tables(a, b, measures=CHOSEN, draws=199)
    turned = replace(b, prediction=b.prediction[::-1], outcome=b.outcome[::-1])
    alone = compare_tables(a, turned, measures=CHOSEN, draws=199)
    assert (paired.pairing, alone.pairing) == ("rows", "none")
    for name in ("kce", "smce", "brier"):
        one, two = paired.differences[name], alone.differences[name]
        assert one.difference == pytest.approx(two.difference)
        assert one.lower is not None
        assert one.upper is not None
        assert two.lower is not None
        assert two.upper is not None
        assert one.upper - one.lower < 0.95 * (two.upper - two.lower), name


def test_no_draws_are_no_intervals_and_too_little_data_is_no_difference() -> None:
    a, b = events(300, seed=7, slope=2.0)
    bare = compare_tables(a, b, measures=CHOSEN, draws=0)
    for difference in bare.differences.values():
        assert (difference.lower, difference.p_value, difference.significant) == (None, None, False)
    few = replace(a, prediction=a.prediction[:1], outcome=a.outcome[:1])
    assert compare_tables(few, b, measures=CHOSEN).differences == {}


def test_segments_and_unknown_outcomes_do_not_matter() -> None:
    a, b = events(800, seed=8, slope=1.5)
    unknown = replace(
        a,
        prediction=np.append(a.prediction, 0.5),
        outcome=np.append(a.outcome, -1).astype(np.int8),
        segments={"s": SegmentColumn(np.zeros(801, np.int32), ("x",))},
    )
    one = compare_tables(unknown, b, measures=CHOSEN, draws=99, seed=1)
    # Not row by row: the lengths differ.
    assert one.pairing == "none"
    assert one.first.n == 800
    assert one.differences["smce"].first == smce(ScoreTable.from_events(a.prediction, a.outcome))


@pytest.mark.parametrize("slope", [0.7, 1.0])
def test_weights_are_as_many_events(slope: float) -> None:
    a, b = events(700, seed=9, slope=slope)
    halves = np.full(700, 0.5)
    one = compare_tables(replace(a, weight=halves), replace(b, weight=halves), measures=CHOSEN, draws=199, seed=3)
    two = compare_tables(a, b, measures=CHOSEN, draws=199, seed=3)
    assert "tce" not in one.differences
    for name, each in one.differences.items():
        other = two.differences[name]
        assert each.difference == pytest.approx(other.difference, abs=1e-12)
        assert each.lower == pytest.approx(other.lower, abs=1e-9), name


def test_pairs_of_cells_vary_as_their_events_do() -> None:
    a, b = events(4000, seed=10, slope=1.4)
    y = a.outcome.astype(float)
    one, two = ComparedEvents(a.prediction, y, None), ComparedEvents(b.prediction, y, None)
    moved = list(paired_errors(one, two, 6000, seed=0))
    drawn = np.stack([np.concatenate([each[side].sum(axis=1) for each in moved]) for side in (0, 1)])
    # Each event, by itself and once for both models, is drawn so often as Poisson(1) says, whose variance is 1.
    residual = np.stack([y - a.prediction, y - b.prediction])
    expected = residual @ residual.T
    assert np.cov(drawn) == pytest.approx(expected, rel=0.06)
    assert np.abs(drawn.mean(axis=1)).max() < 4 * np.sqrt(expected.max() / 6000)


def test_events_find_their_cells() -> None:
    for n in (50, 30_000):  # fewer and more rows than the grid has cells
        a, _ = events(n, seed=11)
        y = a.outcome.astype(float)
        found = ComparedEvents(a.prediction, y, None)
        sums = np.bincount(found.rows(), weights=y - a.prediction, minlength=found.cells.rows)
        assert sums == pytest.approx(found.cells.residual, abs=1e-9)


def test_the_interval_of_a_norm_reaches_as_far_as_either_could_be_biased() -> None:
    drawn = np.linspace(-1.0, 1.0, 199)
    found = norm_difference(Difference("ratio", 0.2, 0.5), drawn, (np.full(199, 0.05), np.full(199, 0.1)))
    assert found.lower == pytest.approx(0.3 - 0.1 - 0.95, abs=0.01)
    assert found.upper == pytest.approx(0.3 + 0.05 + 0.95, abs=0.01)
    # 0 lies .2 beyond the bias of the second: four fifths of the draws are farther from their mean.
    assert found.p_value == pytest.approx(0.8, abs=0.01)


def test_intervals_of_two_make_that_of_the_difference() -> None:
    first = MeasureResult(0.2, "ratio", lower=0.17, upper=0.26)
    second = MeasureResult(0.5, "ratio", lower=0.42, upper=0.54)
    apart = interval_difference(first, second, paired=False)
    assert apart.lower == pytest.approx(0.3 - math.hypot(0.08, 0.06))
    assert apart.upper == pytest.approx(0.3 + math.hypot(0.04, 0.03))
    together = interval_difference(first, second, paired=True)
    assert together.lower == pytest.approx(0.3 - 0.14)
    assert together.upper == pytest.approx(0.3 + 0.07)
    for each in (apart, together):
        assert each.p_value is not None
        assert (each.p_value <= 0.05) == each.significant
    assert interval_difference(MeasureResult(0.1, "ratio"), second, paired=False).lower is None


def test_a_logit_offset_of_both_is_no_difference_in_brier_beyond_its_interval() -> None:
    a, _ = events(5000, seed=12)
    noisy = EventTable(expit(logit(a.prediction) + np.random.default_rng(13).normal(0.0, 0.8, 5000)), a.outcome)
    found = compare_tables(a, noisy, measures=CHOSEN, draws=99).differences["brier"]
    losses = (noisy.prediction - a.outcome) ** 2 - (a.prediction - a.outcome) ** 2
    assert found.difference == pytest.approx(losses.mean())
    assert found.lower == pytest.approx(losses.mean() - 1.96 * losses.std() / np.sqrt(5000), abs=1e-4)
    assert found.significant


@pytest.mark.parametrize("name", ["brier", "log_loss"])
@pytest.mark.parametrize("slope", [1.1, 1.5, 2.5])
def test_the_difference_of_two_losses_of_few_positives_is_corrected_for_skewness(name: str, slope: float) -> None:
    rng = np.random.default_rng(15)
    z = rng.normal(-4.0, 1.0, 600)
    y = (rng.random(600) < expit(z)).astype(np.int8)
    p = expit(z), expit(slope * z)
    found = compare_tables(*(EventTable(each, y) for each in p), measures={name: MEASURES[name]}, draws=19)
    loss = [(y - each) ** 2 if name == "brier" else -np.log(np.where(y == 1, each, 1.0 - each)) for each in p]
    away = loss[1] - loss[0]
    mean, spread = away.mean(), np.sqrt(((away - away.mean()) ** 2).sum())
    skewness = ((away - mean) ** 3).sum() / spread**3

    def transformed(true: float) -> float:
        t = (mean - true) / spread * 600
        return float(t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6)

    difference = found.differences[name]
    assert difference.lower is not None
    assert difference.upper is not None
    assert transformed(difference.lower) == pytest.approx(1.96, abs=1e-3)
    assert transformed(difference.upper) == pytest.approx(-1.96, abs=1e-3)
    assert difference.p_value == pytest.approx(2.0 * norm.sf(abs(transformed(0.0))), rel=1e-6)


def test_prevalences_that_are_clearly_apart_are_to_be_minded() -> None:
    half, seldom = events(2000, seed=1)[0], rare(4000, seed=2)
    found = compare_tables(half, seldom, names=("half", "rare"), measures={"smce": MEASURES["smce"]}, draws=0)
    (said,) = found.cautions
    shares = [f"{100 * each.outcome.mean():.3g}%" for each in (half, seldom)]
    assert said.startswith(f"prevalences differ ({shares[0]} in half and {shares[1]} in rare), and the same fault")
    assert found.to_dict()["cautions"] == [said]


def test_prevalences_that_chance_may_part_or_that_matter_little_are_not() -> None:
    def cautions(first: EventTable, second: EventTable) -> tuple[str, ...]:
        return compare_tables(first, second, measures={"smce": MEASURES["smce"]}, draws=0).cautions

    def constant(p: float, positives: int, n: int, weight: float | None = None) -> EventTable:
        weights = None if weight is None else np.where(np.arange(n) == 0, weight, 1.0)
        return EventTable(np.full(n, p), (np.arange(n) < positives).astype(np.int8), weight=weights)

    assert cautions(constant(0.5, 15, 30), constant(0.2, 9, 31)) == ()
    assert cautions(constant(0.5, 5000, 10_000), constant(0.4, 4001, 10_001)) == ()
    assert len(cautions(constant(0.5, 5000, 10_000), constant(0.2, 2000, 10_001))) == 1
    # A single event has nearly all the weight: as good as one event.
    assert cautions(constant(0.5, 5000, 10_000), constant(0.2, 2000, 10_001, weight=1e6)) == ()
    # The same events have the same prevalence.
    assert cautions(*events(500, 1)) == ()
