"""Intervals: their coverage, at calibration too, and what they are refused for."""

import importlib
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from monitor.errors import InputError, NotEnoughData
from monitor.inference import coarsen, deviation_radius, interval, intervals, null_level
from monitor.inference.calibration_curve import shrunken_rates
from monitor.inference.resampling import deviation_variance, deviations, outcomes
from monitor.measures import MEASURES, Limit, SemiNorm, kce, smce
from monitor.scores import ScoreTable
from tests.long import short_of

SCORES = np.linspace(0.05, 0.95, 10)
NORMS = {name: measure for name, measure in MEASURES.items() if isinstance(measure, SemiNorm)}


def drawn(rng: np.random.Generator, n: int, slope: float) -> tuple[ScoreTable, np.ndarray]:
    """Predictions on ten scores, and the rate of positives that each really has."""
    rate = 1.0 / (1.0 + ((1.0 - SCORES) / SCORES) ** slope)
    at = rng.integers(0, 10, n)
    return ScoreTable.from_events(SCORES[at], rng.random(n) < rate[at]), rate


def expected(table: ScoreTable) -> ScoreTable:
    """As many events at each score: what the measures of a law, not of a sample, are of."""
    each, none = np.full(table.rows, table.total / table.rows), np.zeros(table.rows)
    return replace(table, positives=each, negatives=none, positive_sum=each * table.score, negative_sum=none)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("slope", short_of([0.5, 1.0], 1))
def test_the_interval_covers_the_truth(name: str, slope: float) -> None:
    measure = NORMS[name]
    rng = np.random.default_rng(30)
    covered = []
    for _ in range(120):
        table, rate = drawn(rng, 500, slope)
        law = expected(table)
        truth = float(measure.norms(law, (law.counts * (rate - SCORES))[None])[0])
        truth += measure.smallest(table)
        found = interval(table, measure, draws=99)
        covered.append(found.lower <= truth <= found.upper)
    # Nominal .95; three standard errors of 120 trials below.
    assert np.mean(covered) >= 0.89


@pytest.mark.parametrize(
    "name", [name for name, measure in NORMS.items() if measure.witness is not None and measure.ends is None]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_ends_are_the_nearer_ones_of_triangle_and_witness(name: str, weighted: bool) -> None:
    """The formulas of the docstring, from the draws themselves."""
    measure = NORMS[name]
    assert measure.witness is not None
    rng = np.random.default_rng(41)
    p = rng.random(900)
    y = rng.random(900) < p**2.5
    table = ScoreTable.from_events(p, y, rng.exponential(1.0, 900) if weighted else None)
    found = interval(table, measure, draws=1999, seed=5)
    moved = np.vstack(list(deviations(np.random.default_rng(6), table, 1999)))
    distance, along = measure.norms(table, moved), moved @ measure.witness(table)
    size = float(measure.norms(table, table.residual[None])[0])
    offset = measure.value(table) - size
    radius, spread = float(np.quantile(distance, 0.95)), float(along.std())
    mean, mean_square = float(distance.mean()), float(np.mean(distance**2))
    lower = math.sqrt(max(0.0, (size - 1.96 * spread) ** 2 - mean_square + spread**2))
    upper = math.sqrt(max(0.0, (size + 1.96 * spread) ** 2 - mean**2 + spread**2))
    assert size > 1.2 * radius  # clearly off: what the witness says is what counts
    assert found.lower - offset == pytest.approx(max(size - radius, lower), rel=0.05)
    assert found.upper - offset == pytest.approx(min(size + radius, upper), rel=0.03)


def test_deviations_vary_as_is_said() -> None:
    rng = np.random.default_rng(42)
    p = rng.integers(1, 20, 300) / 20
    y = rng.random(300) < p
    for weight in (None, rng.exponential(1.0, 300)):
        table = ScoreTable.from_events(p, y, weight)
        moved = np.vstack(list(deviations(rng, table, 20_000)))
        # A variance of 20,000 draws is known to 2 or 3%.
        assert moved.var(axis=0) == pytest.approx(deviation_variance(table), rel=0.1)


def gaps(bins: list[tuple[int, int, float]], tail: float) -> tuple[list[float], list[float]]:
    """Least and largest gap of each bin (hits, events, score), by the limits of Clopper and Pearson with this tail."""
    least, most = [], []
    for hits, n, score in bins:
        found = stats.binomtest(hits, n).proportion_ci(1.0 - 2.0 * tail, "exact")
        least.append(max(0.0, found.low - score, score - found.high))
        most.append(max(score - found.low, found.high - score))
    return least, most


@pytest.mark.parametrize(
    ("bins", "ties"),
    [
        ([(80, 400, 0.05), (2, 30, 0.15), (400, 400, 0.35)], 1),  # the last bin is the worst one for certain
        ([(40, 400, 0.05), (2, 30, 0.15), (19, 20, 0.45), (1, 2, 0.95)], 3),
        ([(22, 400, 0.05), (5, 30, 0.15), (18, 40, 0.45)], 3),  # about as many as predicted everywhere
    ],
)
def test_the_interval_of_mce_is_of_clopper_and_pearson_in_the_bins_that_may_be_worst(
    bins: list[tuple[int, int, float]], ties: int
) -> None:
    p = np.repeat([score for *_, score in bins], [n for _, n, _ in bins])
    y = np.concatenate([np.arange(n) < hits for hits, n, _ in bins])
    least, most = gaps(bins, 0.001 / len(bins))
    may = [place for place, each in enumerate(most) if each >= max(least)]
    assert len(may) == ties
    there = max(gaps(bins, 0.025 / ties)[0][place] for place in may) > 0.0
    lower = max(gaps(bins, 0.05 / max(2, ties))[0][place] for place in may) if there else 0.0
    found = interval(ScoreTable.from_events(p, y), MEASURES["mce"])
    assert (found.lower, found.upper) == pytest.approx((lower, max(gaps(bins, 0.025)[1])), rel=1e-9, abs=1e-12)


def test_what_all_events_of_a_bin_agree_on_is_no_certainty() -> None:
    alone = interval(ScoreTable.from_events([0.05] * 3 + [0.95] * 3, [0] * 3 + [1] * 3), MEASURES["mce"])
    assert alone.lower == 0.0
    assert alone.upper > 0.6


def test_the_debiased_value_of_a_calibrated_model_is_near_0() -> None:
    rng = np.random.default_rng(31)
    values, debiased = [], []
    for _ in range(40):
        table, _ = drawn(rng, 500, 1.0)
        found = interval(table, MEASURES["kce"], draws=99)
        assert found.debiased is not None
        values.append(kce(table))
        debiased.append(found.debiased)
    assert np.mean(debiased) < 0.5 * np.mean(values)


def test_the_interval_lies_around_the_value_and_is_deterministic() -> None:
    table, _ = drawn(np.random.default_rng(32), 800, 0.4)
    found = interval(table, MEASURES["smce"])
    value = MEASURES["smce"].value(table)
    assert 0.0 < found.lower < value < found.upper
    assert found == interval(table, MEASURES["smce"])
    assert found != interval(table, MEASURES["smce"], seed=1)


def test_the_interval_of_a_large_table_is_drawn_on_the_grid_around_the_exact_value() -> None:
    rng = np.random.default_rng(33)
    p = rng.random(60_000)
    raw = ScoreTable.from_events(p, rng.random(p.size) < p**1.5)
    of_raw = interval(raw, MEASURES["kce"], seed=3)
    of_cells = interval(coarsen(raw), MEASURES["kce"], seed=3)
    # The value moves by little, and both ends move with it.
    moved = kce(raw) - kce(coarsen(raw))
    for end, of_cell_end in ((of_raw.lower, of_cells.lower), (of_raw.upper, of_cells.upper)):
        assert end - of_cell_end == pytest.approx(moved, abs=0.1 * abs(moved))


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("slope", short_of([0.4, 1.0], 1))
def test_every_measure_has_one_around_its_value_and_within_its_range(name: str, slope: float) -> None:
    measure = MEASURES[name]
    for table in (
        drawn(np.random.default_rng(35), 300, slope)[0],
        ScoreTable.from_events([0.2, 0.9], [1, 0]),
        ScoreTable.from_events([0.01] * 200, [0] * 200),
        ScoreTable.from_events([0.0] * 20, [1] * 20),  # as wrong as can be
    ):
        if not np.isfinite(measure.value(table)):  # the log loss of what was called impossible
            continue
        found = interval(table, measure, draws=19)
        assert 0.0 <= found.lower <= measure.value(table) <= found.upper <= measure.largest(table)
        assert (found.debiased is not None) == (isinstance(measure, SemiNorm) and measure.ends is None)
        assert found == interval(table, measure, draws=19)


def test_no_positives_at_all_leave_the_rate_open() -> None:
    found = interval(ScoreTable.from_events([0.01] * 200, [0] * 200), MEASURES["kce"])
    # Up to four positives of 200 could well have stayed away: the rule of three says 1.5%.
    assert found.lower == 0.0
    assert 0.015 < found.upper < 0.04


@pytest.mark.parametrize("name", ["brier", "log_loss"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_interval_of_a_mean_loss_is_halls(name: str, weighted: bool) -> None:
    """Event by event, as the formula stands in the paper; the transformation is inverted numerically."""
    rng = np.random.default_rng(36)
    p = rng.beta(1.0, 6.0, 150)
    y = (rng.random(150) < p).astype(np.float64)
    weight = rng.exponential(1.0, 150) if weighted else np.ones(150)
    loss = (y - p) ** 2 if name == "brier" else -np.log(np.where(y == 1.0, p, 1.0 - p))
    mean = (weight * loss).sum() / weight.sum()
    spread = np.sqrt((weight**2 * (loss - mean) ** 2).sum())
    skewness = (weight**3 * (loss - mean) ** 3).sum() / spread**3

    def transformed(t: float) -> float:
        return float(t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6)

    ends = [
        mean - spread / weight.sum() * brentq(lambda t, at=at: transformed(t) - at, -50.0, 50.0)
        for at in (stats.norm.ppf(0.975), stats.norm.ppf(0.025))
    ]
    found = interval(ScoreTable.from_events(p, y, weight if weighted else None), MEASURES[name])
    assert (found.lower, found.upper) == pytest.approx(ends, rel=1e-9)


def test_a_loss_that_no_event_had_is_none() -> None:
    table = ScoreTable.from_events([0.0] * 20 + [0.5] * 20 + [1.0] * 20, [0] * 30 + [1] * 30)
    found = interval(table, MEASURES["log_loss"])
    assert found.lower < MEASURES["log_loss"].value(table) < found.upper < np.inf
    certain = interval(ScoreTable.from_events([0.0, 1.0], [0, 1]), MEASURES["log_loss"])
    assert (certain.lower, certain.upper) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["intce", "surrogate_intce"])
@pytest.mark.parametrize("slope", [0.5, 1.0])
def test_the_interval_of_what_has_a_limit_covers_the_law(name: str, slope: float) -> None:
    rng = np.random.default_rng(37)
    measure = MEASURES[name]
    covered = []
    for _ in range(60):
        table, rate = drawn(rng, 500, slope)
        each = table.total / table.rows
        law = replace(
            table,
            positives=each * rate,
            negatives=each * (1.0 - rate),
            positive_sum=each * rate * SCORES,
            negative_sum=each * (1.0 - rate) * SCORES,
        )
        found = interval(table, measure, draws=99)
        covered.append(found.lower <= measure.value(law) <= found.upper)
    assert np.mean(covered) >= 0.89


@pytest.mark.parametrize("name", ["intce", "surrogate_intce"])
@pytest.mark.parametrize("weighted", [False, True])
def test_of_a_measure_with_a_limit_what_chance_adds_is_taken_off(name: str, weighted: bool) -> None:
    """The formula of the docstring, from draws of its own."""
    rng = np.random.default_rng(43)
    p = rng.random(900)
    y = rng.random(900) < p**1.6
    measure = MEASURES[name]
    table = ScoreTable.from_events(p, y, rng.exponential(1.0, 900) if weighted else None)
    rates = shrunken_rates(table)
    assert not np.array_equal(rates, table.score)
    assert isinstance(measure, Limit)
    law = measure.of_outcomes(table, np.vstack(list(outcomes(rng, table, rates, 999))))
    added = law.mean() - measure.value(table.with_outcomes(table.counts * rates))
    spread = math.sqrt(deviation_variance(table) @ measure.gradient(table) ** 2)
    found, value = interval(table, measure), measure.value(table)
    assert 0.0 < found.lower == pytest.approx(value - added - 1.96 * law.std(), abs=0.006)
    assert found.upper == pytest.approx(value + 1.96 * spread, rel=1e-4)


@pytest.mark.parametrize("name", ["intce", "surrogate_intce"])
def test_an_error_that_no_smooth_curve_says_is_covered_too(name: str) -> None:
    """Most of the range is right, so chance adds there what it adds to a calibrated model, and no less."""
    rng = np.random.default_rng(44)
    measure = MEASURES[name]
    p = (np.arange(2_000) + 0.5) / 2_000
    rate = np.where((p > 0.7) & (p < 0.8), p - 0.2, p)
    law = replace(
        ScoreTable.from_events(p, p < 2.0), positives=rate, negatives=1.0 - rate, positive_sum=rate * p,
        negative_sum=(1.0 - rate) * p,
    )  # fmt: skip
    tables = [ScoreTable.from_events(p, rng.random(p.size) < rate) for _ in range(60)]
    found = [interval(table, measure, draws=49) for table in tables]
    # Nominal .95, less .03 and three standard errors of 60 samples.
    assert np.mean([each.lower <= measure.value(law) <= each.upper for each in found]) >= 0.92 - 3.0 * 0.028


@pytest.mark.parametrize("name", ["intce", "surrogate_intce"])
def test_the_interval_of_a_measure_of_the_raw_predictions_lies_where_that_of_their_cells_does(name: str) -> None:
    rng = np.random.default_rng(45)
    p = rng.random(40_000)
    raw = ScoreTable.from_events(p, rng.random(p.size) < p**1.2)
    of_raw, of_cells = (interval(table, MEASURES[name], seed=2) for table in (raw, coarsen(raw)))
    assert of_raw.lower == pytest.approx(of_cells.lower, abs=1e-3)
    assert of_raw.lower <= MEASURES[name].value(raw) <= of_raw.upper


@pytest.mark.parametrize("name", [name for name, measure in MEASURES.items() if not measure.needs_whole_counts])
def test_only_ratios_of_weights_matter(name: str) -> None:
    rng = np.random.default_rng(38)
    p = rng.integers(1, 20, 300) / 20
    y = rng.random(300) < p
    plain = interval(ScoreTable.from_events(p, y), MEASURES[name], draws=19, seed=1)
    weighted = interval(ScoreTable.from_events(p, y, np.full(300, 0.25)), MEASURES[name], draws=19, seed=1)
    assert (weighted.lower, weighted.upper) == pytest.approx((plain.lower, plain.upper), rel=1e-6, abs=1e-12)


def test_unequal_weights_widen_the_interval() -> None:
    rng = np.random.default_rng(39)
    p = rng.random(2000)
    y = rng.random(2000) < p
    weight = rng.exponential(1.0, 2000)
    plain, weighted = (
        interval(ScoreTable.from_events(p, y, each), MEASURES["smce"], draws=499) for each in (None, weight)
    )
    value = [MEASURES["smce"].value(ScoreTable.from_events(p, y, each)) for each in (None, weight)]
    # Exponential weights have a mean square of 2.
    assert (weighted.upper - value[1]) / (plain.upper - value[0]) == pytest.approx(np.sqrt(2.0), rel=0.15)


def test_progress_is_told() -> None:
    seen: list[float] = []
    table, _ = drawn(np.random.default_rng(40), 300, 1.0)
    chosen = [MEASURES[name] for name in ("tce", "smce", "brier", "intce")]
    intervals(table, chosen, draws=450, progress=seen.append)
    assert seen == sorted(seen)
    assert 0.0 < seen[0] < 0.5
    assert seen[-1] == 1.0


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(NotEnoughData, match="an interval needs at least 1 event, got 0"):
        interval(ScoreTable.from_events([], []), MEASURES["kce"])
    with pytest.raises(InputError, match="tce needs whole counts"):
        interval(ScoreTable.from_events([0.5], [1], [0.5]), MEASURES["tce"])
    with pytest.raises(InputError, match="draws must be a whole number of at least 19, got 0"):
        interval(ScoreTable.from_events([0.5], [1]), MEASURES["kce"], draws=0)


def test_the_bound_holds_of_samples() -> None:
    rng = np.random.default_rng(1)
    values = []
    for _ in range(400):
        p = rng.random(100)
        table = ScoreTable.from_events(p, rng.random(100) < p**2)
        values.append(smce(table))
    away = np.abs(np.array(values) - np.mean(values))
    for level in (0.9, 0.5, 0.05):
        assert (away >= deviation_radius(table, level)).mean() <= level


def test_the_radius_follows_from_the_number_of_events() -> None:
    table = ScoreTable.from_events(np.linspace(0.1, 0.9, 500), np.arange(500) % 2)
    for level in (1.0, 0.05, 1e-6):
        assert 2.0 * np.exp(-500 * deviation_radius(table, level) ** 2 / 2.0) == pytest.approx(level)


def test_equal_weights_count_as_events() -> None:
    p, y = np.linspace(0.1, 0.9, 50), np.arange(50) % 2
    plain = deviation_radius(ScoreTable.from_events(p, y))
    assert deviation_radius(ScoreTable.from_events(p, y, np.full(50, 3.0))) == pytest.approx(plain)
    unequal = np.where(np.arange(50) < 25, 1.0, 5.0)
    assert deviation_radius(ScoreTable.from_events(p, y, unequal)) > plain


def test_what_makes_no_sense_is_refused() -> None:
    table = ScoreTable.from_events([0.5], [1])
    with pytest.raises(InputError, match="level must be above 0 and at most 1, got 0"):
        deviation_radius(table, 0.0)
    with pytest.raises(NotEnoughData, match="at least 1 event, got 0"):
        deviation_radius(ScoreTable.from_events([], []))


@pytest.mark.parametrize(("slope", "calibrated"), [(1.0, True), (0.4, False)])
def test_null_levels_that_are_known_save_their_draws_and_change_nothing(
    slope: float, calibrated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = drawn(np.random.default_rng(8), 2000, slope)
    assert np.array_equal(shrunken_rates(table), table.score) == calibrated
    chosen = [MEASURES[name] for name in ("tce", "smce", "intce", "surrogate_intce")]
    levels = null_level(table, chosen)
    without = intervals(table, chosen)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("null levels are drawn again")

    # The package's name `interval` is the function.
    monkeypatch.setattr(importlib.import_module("monitor.inference.interval"), "null_level", refuse)
    assert intervals(table, chosen, levels=levels) == without
