import numpy as np
import pytest
from scipy.special import expit

from monitor.measures import smce, smce_witness
from monitor.reports.diagrams.reliability import MAX_POINTS, Witness, on_cells
from monitor.reports.evaluation.places import Place, centred_witness, places
from monitor.scores import ScoreTable
from tests.long import longer
from tests.reports.figures.tables import TABLES, every_table


def test_a_model_that_exaggerates_is_too_low_below_and_too_high_above() -> None:
    low, high = places(on_cells(TABLES["balanced"]()))
    assert low.too_low
    assert not high.too_low
    assert low.last < high.first
    assert 0.3 < low.last < 0.7
    assert low.share + high.share == pytest.approx(1.0)


def test_a_model_that_is_too_high_everywhere_is_so_in_one_place() -> None:
    (place,) = places(on_cells(TABLES["rare"]()))
    table = TABLES["rare"]()
    assert not place.too_low
    assert (place.first, place.last) == pytest.approx((table.score[0], table.score[-1]))
    assert place.happened == pytest.approx(table.prevalence)
    assert place.predicted == pytest.approx(table.mean_prediction)


def test_a_perfect_table_has_no_place() -> None:
    assert places(ScoreTable.from_events([0.5, 0.5, 0.0, 1.0], [0, 1, 0, 1])) == ()


@every_table
def test_a_centred_witness_is_the_witness_but_for_a_constant(name: str) -> None:
    cells = on_cells(TABLES[name]())
    difference = smce_witness(cells) - centred_witness(cells)
    assert np.ptp(difference) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", ["rare", "common"])
def test_a_witness_without_freedom_stays_as_it_is(name: str) -> None:
    cells = on_cells(TABLES[name]())
    witness = centred_witness(cells)
    assert float(witness @ cells.residual) / cells.total == pytest.approx(smce(cells))


def test_a_place_in_words() -> None:
    assert str(Place(0.01, 0.53, 0.24, 0.32, 1.0)) == "From 1% to 53%: too low (24% predicted, 32% came true)"
    assert str(Place(0.3, 0.3, 0.3, 0.2, 1.0)) == "At 30%: too high (30% predicted, 20% came true)"


@pytest.mark.longer
@pytest.mark.parametrize("n", [500, 2000, 10000])
@pytest.mark.parametrize(("shift", "centre"), [(0.6, 0.0), (-1.0, 0.0), (2.0, 0.0), (-0.8, -2.0), (0.6, -2.5)])
def test_where_all_predictions_err_to_one_side_there_is_one_sign_and_one_place(
    n: int, shift: float, centre: float
) -> None:
    for seed in range(longer(8, 40)):
        rng = np.random.default_rng([seed, n])
        z = rng.normal(centre, 1.5, n)
        table = ScoreTable.from_events(expit(z), rng.random(n) < expit(z + shift))
        assert (centred_witness(table) * shift > 0.0).all(), seed
        (place,) = places(table)
        assert place.too_low == (shift > 0.0)
        assert (place.first, place.last) == (table.score[0], table.score[-1])


@pytest.mark.parametrize(("n", "least"), [(1000, 0.8), (10000, 0.95)])
@pytest.mark.parametrize(("slope", "shift"), [(0.6, 0.0), (1.6, 0.0), (0.6, 0.4)])
def test_where_they_err_to_both_sides_the_signs_are_those_of_the_errors(
    n: int, least: float, slope: float, shift: float
) -> None:
    found = []
    for seed in range(20):
        rng = np.random.default_rng([seed, n])
        z = rng.normal(0.0, 1.5, n)
        table = ScoreTable.from_events(expit(z), rng.random(n) < expit(slope * z + shift))
        error = expit(slope * np.log(table.score / (1.0 - table.score)) + shift) - table.score
        found.append(np.sign(centred_witness(table)) @ error / np.abs(error).sum())
    assert np.mean(found) > least


def test_weights_are_no_events() -> None:
    """A large weight on a few events makes noise larger, and no sign."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        z = rng.normal(0.0, 1.5, 3000)
        weight = np.exp(rng.normal(0.0, 1.0, 3000))
        table = ScoreTable.from_events(expit(z), rng.random(3000) < expit(z + 0.8), weight)
        assert (centred_witness(table) > 0.0).all(), seed


@every_table
def test_the_line_of_a_diagram_is_the_witness_at_its_points(name: str) -> None:
    cells = on_cells(TABLES[name]())
    line = Witness.of(cells)
    assert line.prediction.size <= MAX_POINTS
    np.testing.assert_allclose(line.value, np.interp(line.prediction, cells.score, centred_witness(cells)))
    if cells.rows <= MAX_POINTS:
        np.testing.assert_array_equal(line.prediction, cells.score)
