import numpy as np
import pytest
from matplotlib.colors import to_rgba
from scipy.special import expit

from monitor.measures import smce, smce_witness
from monitor.reports.evaluation.places import Place, centred_witness, places
from monitor.reports.evaluation.report import MeasureResult
from monitor.reports.figures.cells import on_cells
from monitor.reports.figures.style import GREY
from monitor.reports.figures.witness import TOO_HIGH, TOO_LOW, witness_figure
from monitor.scores import ScoreTable
from tests.reports.figures.tables import TABLES, every_table, texts


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


def test_the_title_says_where_or_that_there_is_nothing() -> None:
    assert any("too low" in each and "too high" in each for each in texts(witness_figure(TABLES["balanced"]())))
    assert any("beyond chance" in each for each in texts(witness_figure(TABLES["calibrated"]())))


@pytest.mark.parametrize("n", [500, 2000, 10000])
@pytest.mark.parametrize(("shift", "centre"), [(0.6, 0.0), (-1.0, 0.0), (2.0, 0.0), (-0.8, -2.0), (0.6, -2.5)])
def test_where_all_predictions_err_to_one_side_there_is_one_sign_and_one_place(
    n: int, shift: float, centre: float
) -> None:
    for seed in range(40):
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


def test_the_title_of_a_prior_shift_covers_the_whole_range_and_the_bars_have_one_colour() -> None:
    rng = np.random.default_rng(3)
    z = rng.normal(0.0, 1.0, 4000)
    figure = witness_figure(ScoreTable.from_events(expit(z), rng.random(4000) < expit(z - 1.0)))
    assert figure.texts[0].get_text() == "From 3% to 98%: too high (50% predicted, 31% came true)"
    bars = figure.axes[1].containers[0]
    assert {bar.get_facecolor()[:3] for bar in bars if bar.get_height()} == {to_rgba(TOO_HIGH)[:3]}


def test_a_large_error_that_no_range_holds_is_told_with_its_direction() -> None:
    table = ScoreTable.from_events([0.4] * 20 + [0.6] * 20, [0, 0, 0, 1, 1] * 4 + [0, 1, 1, 1, 1] * 4)
    level = MeasureResult(smce(table), "ratio", null_mean=0.0, null_q95=0.001)
    assert places(table) == ()
    said = "Predictions are too low on the whole; no range stands out (50.0% predicted, 60.0% came true)"
    assert said in texts(witness_figure(table, smce=level))


def test_an_error_of_both_directions_is_not_told_as_one() -> None:
    table = ScoreTable.from_events([0.4] * 20 + [0.6] * 20, ([0, 1] * 20))
    level = MeasureResult(smce(table), "ratio", null_mean=0.0, null_q95=0.001)
    written = texts(witness_figure(table, smce=level))
    told = "Predictions are too high here, too low there; no range stands out"
    assert f"{told} (50.0% predicted, 50.0% came true on the whole)" in written
    unknown = witness_figure(table, smce=MeasureResult(0.01, "ratio")).texts[0].get_text()
    assert unknown.startswith("How much of this is chance is not known")


def test_the_bars_add_up_to_the_mean_residual() -> None:
    table = TABLES["balanced"]()
    bars = witness_figure(table).axes[1].containers[0]
    assert sum(bar.get_height() for bar in bars) == pytest.approx(1000.0 * table.residual.sum() / table.total)


def test_what_is_within_chance_accuses_nobody() -> None:
    for name, colors in (("balanced", {TOO_LOW, TOO_HIGH}), ("calibrated", {GREY})):
        bars = witness_figure(TABLES[name]()).axes[1].containers[0]
        assert {bar.get_facecolor()[:3] for bar in bars if bar.get_height()} == {to_rgba(each)[:3] for each in colors}
