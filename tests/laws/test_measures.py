"""What every measure obeys, and what the theory says of them all. A measure that is added is tested here unasked."""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import monitor.measures
from monitor.measures import (
    MEASURES,
    MeanLoss,
    Measure,
    SemiNorm,
    ece,
    intce,
    kce,
    rintce,
    scan_measures,
    smce,
    surrogate_intce,
)
from monitor.scores import GridTable, ScoreTable
from tests.long import examples, longer
from tests.reference.naive_measures import lower_distance_by_linear_programme

Floats = NDArray[np.float64]

every_measure = pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES.keys())
every_bounded_measure = pytest.mark.parametrize(
    # The isotonic bins of TCE follow the rows' scores, so its bound holds nearly always, not always: its own tests
    # count how often.
    "measure",
    [measure for measure in MEASURES.values() if measure.error_bound_is_certain],
    ids=lambda measure: measure.name,
)
every_distance = pytest.mark.parametrize(
    # A proper score is of discrimination too, so a calibrated model has one above 0.
    "measure",
    [measure for measure in MEASURES.values() if not isinstance(measure, MeanLoss)],
    ids=lambda measure: measure.name,
)
every_norm = pytest.mark.parametrize(
    "measure",
    [measure for measure in MEASURES.values() if isinstance(measure, SemiNorm)],
    ids=lambda measure: measure.name,
)


@st.composite
def events(draw: st.DrawFn, least: int = 1, most: int = 40) -> tuple[Floats, Floats]:
    """Predictions with ties, and outcomes that need have nothing to do with them."""
    score = st.floats(0.0, 1.0, allow_subnormal=False) | st.integers(0, 10).map(lambda i: i / 10)
    pairs = draw(st.lists(st.tuples(score, st.integers(0, 1)), min_size=least, max_size=most))
    p, y = zip(*pairs, strict=True)
    return np.array(p), np.array(y, np.float64)


def simulated(seed: int, n: int, slope: float) -> tuple[Floats, Floats]:
    """Outcomes of calibrated scores, and predictions that are too sure (slope > 1) or too timid."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0.3, 4.0, 2).tolist()
    q = rng.beta(a, b, n).clip(1e-6, 1 - 1e-6)
    y = (rng.random(n) < q).astype(np.float64)
    return 1.0 / (1.0 + ((1.0 - q) / q) ** slope), y


# --- The registry -----------------------------------------------------------------------------------------------------


def test_every_file_that_declares_a_measure_is_registered_in_the_order_of_ranks() -> None:
    declared = []
    for file in pkgutil.iter_modules(monitor.measures.__path__):
        module = importlib.import_module(f"monitor.measures.{file.name}")
        declared += [module.MEASURE] if hasattr(module, "MEASURE") else []
        declared += getattr(module, "MEASURES", ())
    assert sorted(declared, key=lambda measure: measure.rank) == list(MEASURES.values())
    assert [measure.name for measure in MEASURES.values()] == list(MEASURES)
    assert list(MEASURES)[:6] == ["tce", "kce", "smce", "intce", "surrogate_intce", "ece"]


@pytest.mark.parametrize("name", MEASURES)
def test_the_function_of_a_measure_is_imported_by_its_name(name: str) -> None:
    """Though its file has the same name."""
    function: Callable[[ScoreTable], float] = getattr(monitor.measures, name)
    table = ScoreTable.from_events([0.2, 0.4, 0.9], [0, 1, 1])
    assert function(table) == MEASURES[name].value(table)


NEW_MEASURE = """
from monitor.measures.base import Measure
from monitor.scores import ScoreTable


def bias(table: ScoreTable) -> float:
    return abs(float(table.residual.sum())) / table.total


MEASURE = Measure(
    name="{name}",
    title="Bias",
    help="The mean residual.",
    unit="ratio",
    value=bias,
    error_bound=lambda table, value: 0.0,
    rank=25,
)
"""


def test_one_file_adds_a_measure(tmp_path: Path) -> None:
    (tmp_path / "bias_law.py").write_text(NEW_MEASURE.format(name="bias"))
    found = scan_measures(tmp_path)
    assert list(found)[:4] == ["tce", "kce", "bias", "smce"]
    assert found["bias"].value(ScoreTable.from_events([0.5, 0.5], [1, 1])) == 0.5


def test_two_measures_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "second_law.py").write_text(NEW_MEASURE.format(name="kce"))
    with pytest.raises(ValueError, match=r"second_law.py declares a second measure called kce"):
        scan_measures(tmp_path)


# --- Each measure -----------------------------------------------------------------------------------------------------


@every_measure
@examples(15, 100)
@given(data=events())
def test_a_measure_is_in_its_range(measure: Measure, data: tuple[Floats, Floats]) -> None:
    table = ScoreTable.from_events(*data)
    assert (
        0.0
        <= measure.value(table) - measure.smallest(table)
        <= measure.largest(table) - measure.smallest(table) + 1e-12
    )


@every_measure
@examples(15, 100)
@given(data=events(), seed=st.integers(0, 9))
def test_the_order_of_events_does_not_matter(measure: Measure, data: tuple[Floats, Floats], seed: int) -> None:
    p, y = data
    order = np.random.default_rng(seed).permutation(p.size)
    assert measure.value(ScoreTable.from_events(p, y)) == measure.value(ScoreTable.from_events(p[order], y[order]))


@every_measure
def test_the_order_of_merging_does_not_matter(measure: Measure) -> None:
    parts = [simulated(seed, 200, 1.5) for seed in range(3)]
    raw = {
        measure.value(
            ScoreTable.from_events(np.concatenate([p for p, _ in order]), np.concatenate([y for _, y in order]))
        )
        for order in permutations(parts)
    }
    panes = [GridTable.from_events(p, y) for p, y in parts]
    merged = {measure.value((a + (b + c)).to_scores()) for a, b, c in permutations(panes)}
    merged |= {measure.value(((a + b) + c).to_scores()) for a, b, c in permutations(panes)}
    assert len(raw) == 1
    assert len(merged) == 1


@every_measure
@pytest.mark.parametrize("certain", [[0.0, 0.0, 1.0], [1.0], [0.0]])
def test_certain_and_right_is_0(measure: Measure, certain: list[float]) -> None:
    table = ScoreTable.from_events(certain, certain)
    assert measure.value(table) == measure.smallest(table)


@every_distance
def test_frequencies_that_are_the_predictions_are_0(measure: Measure) -> None:
    p = np.repeat([0.25, 0.5, 0.75], 40)
    y = np.concatenate([np.arange(40) < 40 * share for share in (0.25, 0.5, 0.75)])
    table = ScoreTable.from_events(p, y)
    assert measure.value(table) == pytest.approx(measure.smallest(table), abs=1e-15)


@every_measure
def test_always_wrong_is_the_largest_value(measure: Measure) -> None:
    table = ScoreTable.from_events([1.0] * 30, [0] * 30)
    assert measure.value(table) == pytest.approx(measure.largest(table), rel=1e-12)


@every_bounded_measure
@pytest.mark.parametrize("slope", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("n", [3, 40, 3000])
@pytest.mark.longer
def test_a_table_of_the_grid_is_within_its_error_bound(measure: Measure, slope: float, n: int) -> None:
    for seed in range(longer(2, 8)):
        p, y = simulated(seed, n, slope)
        raw = ScoreTable.from_events(p, y)
        cells = GridTable.from_events(p, y).to_scores()
        value = measure.value(cells)
        bound = measure.error_bound(cells, value)
        of_raw = measure.value(raw)
        bound_of_raw = measure.error_bound(raw, of_raw)
        assert abs(of_raw - value) <= bound + bound_of_raw + 1e-14, seed
        # What nobody asks for unasked may be approximate.
        assert bound_of_raw == 0.0 or measure.appears_in == "request"


@every_bounded_measure
@examples(15, 100)
@given(data=events(), shift=st.floats(0.0, 1e-3))
def test_a_table_of_wide_cells_is_within_its_error_bound(
    measure: Measure, data: tuple[Floats, Floats], shift: float
) -> None:
    """Ten cells as coarse as no grid would have them, and predictions drawn to their ends."""
    p, y = data
    cell = np.minimum(np.floor(p * 10), 9)
    near = np.where(p * 10 - cell < 0.5, cell / 10 + shift, np.nextafter((cell + 1) / 10, 0) - shift)
    p = np.clip(near, cell / 10, np.nextafter((cell + 1) / 10, 0))
    cell = cell.astype(np.int64)
    occupied = np.unique(cell)
    counts = np.array([[((cell == c) & (y == k)).sum() for c in occupied] for k in (1, 0)], np.float64)
    sums = np.array([[p[(cell == c) & (y == k)].sum() for c in occupied] for k in (1, 0)])
    # The mean of equal predictions at a cell's end must not be rounded out of the cell.
    least, most = np.array([(p[cell == c].min(), p[cell == c].max()) for c in occupied]).T
    table = ScoreTable(
        score=np.clip(sums.sum(axis=0) / counts.sum(axis=0), least, most),
        positives=counts[0],
        negatives=counts[1],
        positive_sum=sums[0],
        negative_sum=sums[1],
        lower=occupied / 10,
        upper=(occupied + 1) / 10,
    )
    value, of_raw = measure.value(table), measure.value(ScoreTable.from_events(p, y))
    # A score can be infinite, of single predictions and of their cells alike.
    assert of_raw == value or abs(of_raw - value) <= measure.error_bound(table, value) + 1e-12


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_a_cell_of_nothing_but_0_or_1_has_a_bound(end: float) -> None:
    table = ScoreTable(
        score=np.sort([end, 0.45]),
        positives=np.zeros(2),
        negatives=np.ones(2),
        positive_sum=np.zeros(2),
        negative_sum=np.sort([end, 0.45]),
        lower=np.sort([max(0.0, end - 0.1), 0.4]),
        upper=np.sort([min(1.0, end + 0.1), 0.5]),
    )
    measure = MEASURES["kce_logit"]
    assert measure.error_bound is not None
    assert np.isfinite(measure.error_bound(table, measure.value(table)))


@every_norm
@examples(20, 100)
@given(data=events(), factor=st.floats(-3.0, 3.0))
def test_a_norm_is_the_measure_and_a_semi_norm(measure: SemiNorm, data: tuple[Floats, Floats], factor: float) -> None:
    norms = measure.norms
    table = ScoreTable.from_events(*data)
    other = np.cos(np.arange(table.rows))
    value, scaled, moved, by = norms(
        table, np.stack([table.residual, factor * table.residual, table.residual + other, other])
    )
    assume(np.isfinite([value, by]).all())  # in standard deviations, what is impossible is infinitely far off
    assert measure.smallest(table) >= 0.0
    assert value + measure.smallest(table) == pytest.approx(measure.value(table), rel=1e-12, abs=1e-15)
    assert scaled == pytest.approx(abs(factor) * value, rel=1e-9, abs=1e-12)
    assert moved <= (value + by) * (1.0 + 1e-12) + 1e-12


@pytest.mark.parametrize(
    "measure",
    [measure for measure in MEASURES.values() if isinstance(measure, SemiNorm) and measure.witness is not None],
    ids=lambda measure: measure.name,
)
@examples(20, 100)
@given(data=events(), seed=st.integers(0, 99))
def test_a_witness_attains_the_norm_and_is_never_above_it(
    measure: SemiNorm, data: tuple[Floats, Floats], seed: int
) -> None:
    norms, witness = measure.norms, measure.witness
    assert witness is not None
    table = ScoreTable.from_events(*data)
    others = np.random.default_rng(seed).normal(size=(20, table.rows))
    f = witness(table)
    assert f.shape == (table.rows,)
    assert f @ table.residual == pytest.approx(float(norms(table, table.residual[None])[0]), rel=1e-9, abs=1e-9)
    assert (others @ f <= norms(table, others) * (1.0 + 1e-9) + 1e-9).all()


@every_measure
@examples(15, 100)
@given(data=events(), on_grid=st.booleans(), seed=st.integers(0, 99), empty=st.booleans())
def test_many_draws_at_once_are_one_by_one(
    measure: Measure, data: tuple[Floats, Floats], on_grid: bool, seed: int, empty: bool
) -> None:
    """Up to rounding, rows without events among them."""
    table = GridTable.from_events(*data) if on_grid else ScoreTable.from_events(*data)
    check_draws(measure, table.to_scores() if isinstance(table, GridTable) else table, seed, empty)


@every_measure
@pytest.mark.parametrize("slope", [0.3, 1.0, 2.0])
def test_many_draws_of_a_window_at_once_are_one_by_one(measure: Measure, slope: float) -> None:
    for seed, n in enumerate([300, 5000, 200_000]):
        check_draws(measure, GridTable.from_events(*simulated(seed, n, slope)).to_scores(), seed, False)


def check_draws(measure: Measure, table: ScoreTable, seed: int, empty: bool) -> None:
    rng = np.random.default_rng(seed)
    counts = table.counts.astype(np.int64)
    if empty and counts.size > 1:
        counts[rng.integers(counts.size)] = 0
    empty_table = replace(table, positives=np.zeros(table.rows), negatives=counts.astype(np.float64))
    table = empty_table.with_outcomes(np.zeros(table.rows))
    # Calibrated, and all of one kind.
    positives = rng.binomial(counts, table.score, (6, counts.size)).astype(np.float64)
    positives = np.vstack([positives, np.zeros(counts.size), counts, rng.integers(0, counts + 1)])
    if measure.draws is not None:
        one_by_one = [measure.value(table.with_outcomes(drawn)) for drawn in positives]
        np.testing.assert_allclose(measure.draws(table, positives), one_by_one, rtol=1e-11, atol=1e-14)
    if isinstance(measure, SemiNorm):
        np.testing.assert_allclose(
            measure.norms(table, positives - counts * table.score) + measure.smallest(table),
            [measure.value(table.with_outcomes(drawn)) for drawn in positives],
            rtol=1e-12,
            atol=1e-15,
        )
    assert isinstance(measure, SemiNorm) or measure.draws is not None or measure.appears_in == "request"


# --- The measures together --------------------------------------------------------------------------------------------


@examples(30, 60)
@given(events(most=15))
def test_the_measures_stand_as_the_theory_says(data: tuple[Floats, Floats]) -> None:
    """The inequalities of Blasiok et al. 2023, sections 5 to 8."""
    p, y = data
    table = ScoreTable.from_events(p, y)
    at_least, at_most = lower_distance_by_linear_programme(p, y)
    slack = 1e-7  # the linear programme's tolerance
    assert smce(table) / 2 <= at_most + slack
    assert at_least - slack <= 2 * smce(table)
    assert at_least - slack <= intce(table)
    assert intce(table) <= 4 * np.sqrt(at_most + slack)


@examples(40, 100)
@given(events())
def test_the_measures_order_themselves(data: tuple[Floats, Floats]) -> None:
    p, y = data
    table = ScoreTable.from_events(p, y)
    size = float(np.abs(y - p).mean())
    slack = 1e-12
    assert intce(table) <= surrogate_intce(table) + slack
    assert rintce(table, 1.0) <= intce(table) + slack
    assert kce(table) ** 2 <= smce(table) * size + slack
    assert smce(table) <= np.sqrt(2) * kce(table) + slack
    assert smce(table) <= size + slack
    for width in (0.5, 0.25):
        assert rintce(table, 2 * width) <= rintce(table, width) + slack
        assert intce(table) <= rintce(table, width) + width + slack
    for n_bins in (1, 7, 10):
        assert ece(table, n_bins=n_bins) <= 1.0 + slack
        assert intce(table) <= ece(table, n_bins=n_bins) + 1 / n_bins + slack


@pytest.mark.parametrize("epsilon", [1e-2, 1e-4, 1e-6])
def test_only_bins_with_fixed_edges_jump(epsilon: float) -> None:
    """Half the mass a little below 1/2, all negative, half a little above, all positive: almost calibrated."""
    table = ScoreTable.from_events(np.repeat([0.5 - epsilon, 0.5 + epsilon], 50), np.repeat([0, 1], 50))
    together = ScoreTable.from_events(np.full(100, 0.5), np.repeat([0, 1], 50))
    assert ece(together) == 0.0
    assert ece(table) > 0.48
    assert smce(table) <= 2 * epsilon
    # The kernel's square is linear in the distance, so kCE goes with the root.
    assert kce(table) <= np.sqrt(2 * epsilon)
    assert intce(table) <= 3 * epsilon
