"""What holds for every figure on every kind of data: it draws, stays in its frame, and is the same each time."""

import pytest

from docs.generators.svg import to_svg
from docs.generators.tce_diagram import tce_diagram
from docs.generators.witness import witness_figure
from monitor.errors import NotEnoughData
from monitor.measures import smce, tce
from monitor.reports.evaluation.report import MeasureResult
from monitor.reports.figures.reliability import reliability_diagram
from monitor.reports.figures.report import report_sheet
from monitor.scores import ScoreTable
from tests.reports.figures.tables import TABLES, check_layout, every_table, texts

EMPTY = ScoreTable.from_events([], [])

UNJUDGED = MeasureResult(0.0, "ratio")
RESULTS = {
    "TCE": MeasureResult(61.4, "percent", 50.1, 70.2, 7.0, 9.2),
    "surrogate intCE": MeasureResult(0.0123, "ratio", 0.01, 0.02, 0.005, 0.011),
    "kCE": MeasureResult(0.0023, "ratio", 0.0, 0.004, 0.005, 0.011),
    "Spiegelhalter's z": MeasureResult(12.345, "sigma", None, None, 0.0, 0.0),
    "log loss": MeasureResult(0.512, "nats"),
    "log loss of a sure model": MeasureResult(float("inf"), "nats", None, None, float("inf"), float("inf")),
}


@every_table
def test_the_pictures_of_a_report_draw_and_stay_in_their_frames(name: str) -> None:
    table = TABLES[name]()
    figures = [reliability_diagram(table), witness_figure(table), *([] if table.weighted else [tce_diagram(table)])]
    for figure in figures:
        check_layout(figure)
        assert all(axes.get_xlabel() or axes.get_ylabel() or axes.texts for axes in figure.axes)


@every_table
def test_the_sheet_draws_and_stays_in_its_frame(name: str) -> None:
    sheet = report_sheet(TABLES[name](), RESULTS, "churn, version 7", "12,345 predictions, 1 May to 3 May")
    check_layout(sheet)


def test_the_same_table_gives_the_same_bytes() -> None:
    draws = (reliability_diagram, witness_figure, tce_diagram)
    first, second = ([to_svg(draw(TABLES["rare"]())) for draw in draws] for _ in range(2))
    assert first == second
    assert first[0] != first[1]


def test_the_sheet_holds_all_rows_and_what_they_say() -> None:
    sheet = report_sheet(TABLES["balanced"](), RESULTS, "churn", "a line\nand another")
    written = texts(sheet)
    assert set(RESULTS) <= set(written)
    for each in (
        "churn",
        "a line and another",
        "61.4%",
        "50.1% to 70.2%",
        "up to 9.2%",
        "0.0123",
        "beyond chance",
        "not judged",
    ):
        assert each in written


def test_a_sheet_says_what_its_figures_are_of_and_keeps_long_names_in_their_column() -> None:
    title = "top-label RMSCE, 15 bins"
    results = {title: MeasureResult(0.0123, "ratio", 0.01, 0.02, 0.005, 0.011)}
    sheet = report_sheet(TABLES["balanced"](), results, "churn", "a line", about="The most probable class")
    check_layout(sheet)
    assert {"The most probable class", title} <= set(texts(sheet))
    boxes = {each.get_text(): each.get_window_extent() for each in sheet.subfigs[1].axes[0].texts}
    assert boxes[title].x1 < boxes["0.0123"].x0


def test_an_empty_table_has_a_sheet_and_no_figures() -> None:
    sheet = report_sheet(EMPTY, {}, "churn", "no predictions yet")
    check_layout(sheet)
    assert "There are no predictions with an outcome to draw." in texts(sheet)
    for draw in (reliability_diagram, tce_diagram, witness_figure):
        with pytest.raises(NotEnoughData):
            draw(EMPTY)


@pytest.mark.parametrize("chance", [0.0001, 0.9])
def test_figures_say_what_the_report_says(chance: float) -> None:
    """Draws of another seed may disagree where it is close; here they would disagree for certain."""
    table = TABLES["balanced"]()
    results = {"smCE": MeasureResult(smce(table), "ratio", null_mean=chance / 2, null_q95=chance)}
    for sheet in (report_sheet(table, results, "", ""), report_sheet(table, {}, "", "", of_table=results)):
        for part in sheet.subfigs[-2:]:
            assert ("smCE" in part.texts[0].get_text()) == (chance == 0.9)
    measured = MeasureResult(tce(table), "percent", null_mean=12.3, null_q95=45.6)
    assert any("would show about 12%" in each for each in texts(tce_diagram(table, measured)))
    # A result without a level decides nothing.
    unknown, none = (report_sheet(table, {}, "", "", of_table=each) for each in ({"smCE": UNJUDGED}, {}))
    assert texts(unknown) == texts(none)
