import numpy as np
import pytest
from matplotlib.colors import to_rgba
from scipy.special import expit

from docs.generators.witness import witness_figure
from monitor.measures import smce
from monitor.reports.evaluation.places import places
from monitor.reports.evaluation.report import MeasureResult
from monitor.reports.figures.style import GREY
from monitor.reports.figures.witness import TOO_HIGH, TOO_LOW
from monitor.scores import ScoreTable
from tests.reports.figures.tables import TABLES, texts


def test_the_title_says_where_or_that_there_is_nothing() -> None:
    assert any("too low" in each and "too high" in each for each in texts(witness_figure(TABLES["balanced"]())))
    assert any("beyond chance" in each for each in texts(witness_figure(TABLES["calibrated"]())))


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
