"""What holds for every figure on every kind of data: it draws, stays in its frame, and is the same each time."""

import pytest

from monitor.errors import NotEnoughData
from monitor.measures import smce, tce
from monitor.reports.figures import (
    MeasureRow,
    reliability_diagram,
    report_figures,
    report_sheet,
    tce_diagram,
    to_svg,
    witness_figure,
)
from monitor.scores import ScoreTable
from tests.reports.figures.tables import TABLES, check_layout, every_table, texts

EMPTY = ScoreTable.from_events([], [])

ROWS = [
    MeasureRow("TCE", 61.4, "percent", 50.1, 70.2, 7.0, 9.2, "MISCALIBRATED"),
    MeasureRow("surrogate intCE", 0.0123, "ratio", 0.01, 0.02, 0.005, 0.011, "borderline"),
    MeasureRow("kCE", 0.0023, "ratio", 0.0, 0.004, 0.005, 0.011, "within chance"),
    MeasureRow("Spiegelhalter's z", 12.345, "sigma", None, None, 0.0, 0.0, "borderline"),
    MeasureRow("log loss", 0.512, "nats"),
    MeasureRow(
        "log loss of a sure model", float("inf"), "nats", None, None, float("inf"), float("inf"), "within chance"
    ),
]


@every_table
def test_the_pictures_of_a_report_draw_and_stay_in_their_frames(name: str) -> None:
    table = TABLES[name]()
    pictures = report_figures(table)
    assert [picture.name for picture in pictures] == ["reliability", "where", *([] if table.weighted else ["test"])]
    for picture in pictures:
        check_layout(picture.figure)
        assert picture.explanation
        assert all(axes.get_xlabel() or axes.get_ylabel() or axes.texts for axes in picture.figure.axes)


@every_table
def test_the_sheet_draws_and_stays_in_its_frame(name: str) -> None:
    sheet = report_sheet(TABLES[name](), ROWS, "churn, version 7", "12,345 predictions, 1 May to 3 May")
    check_layout(sheet)


@pytest.mark.parametrize("name", ["balanced", "rare", "tiny"])
def test_the_same_table_gives_the_same_bytes(name: str) -> None:
    first, second = ([to_svg(each.figure) for each in report_figures(TABLES[name]())] for _ in range(2))
    assert first == second
    assert first[0] != first[1]


def test_the_sheet_holds_all_rows_and_what_they_say() -> None:
    sheet = report_sheet(TABLES["balanced"](), ROWS, "churn", "a line\nand another")
    written = texts(sheet)
    for row in ROWS:
        assert row.title in written
    for each in ("churn", "a line and another", "61.4%", "50.1% to 70.2%", "up to 9.2%", "0.0123", "MISCALIBRATED"):
        assert each in written


def test_a_sheet_says_what_its_figures_are_of_and_keeps_long_names_in_their_column() -> None:
    row = MeasureRow("top-label RMSCE, 15 bins", 0.0123, "ratio", 0.01, 0.02, 0.005, 0.011, "beyond chance")
    sheet = report_sheet(TABLES["balanced"](), [row], "churn", "a line", about="The most probable class")
    check_layout(sheet)
    assert {"The most probable class", row.title} <= set(texts(sheet))
    boxes = {each.get_text(): each.get_window_extent() for each in sheet.subfigs[1].axes[0].texts}
    assert boxes[row.title].x1 < boxes["0.0123"].x0


def test_an_empty_table_has_a_sheet_and_no_figures() -> None:
    assert report_figures(EMPTY) == ()
    sheet = report_sheet(EMPTY, [], "churn", "no predictions yet")
    check_layout(sheet)
    assert "There are no predictions with an outcome to draw." in texts(sheet)
    for draw in (reliability_diagram, tce_diagram, witness_figure):
        with pytest.raises(NotEnoughData):
            draw(EMPTY)


@pytest.mark.parametrize("chance", [0.0001, 0.9])
def test_figures_say_what_the_report_says(chance: float) -> None:
    """Draws of another seed may disagree where it is close; here they would disagree for certain."""
    table = TABLES["balanced"]()
    rows = [
        MeasureRow("smCE", smce(table), "ratio", null_mean=chance / 2, null_q95=chance),
        MeasureRow("TCE", tce(table), "percent", null_mean=12.3, null_q95=45.6),
    ]
    pictures = [each.figure for each in report_figures(table, rows)]
    for heading in [each.texts[0].get_text() for each in pictures[:2]]:
        assert ("smCE" in heading) == (chance == 0.9)
    for sheet in (report_sheet(table, rows, "", ""), report_sheet(table, [], "", "", of_table=rows)):
        for part in sheet.subfigs[-2:]:
            assert ("smCE" in part.texts[0].get_text()) == (chance == 0.9)
    assert any("would show about 12%" in each for each in texts(pictures[2]))
    # A row without a level decides nothing.
    unknown = report_figures(table, [MeasureRow("smCE", 0.0, "ratio")])
    assert [texts(each.figure) for each in unknown] == [texts(each.figure) for each in report_figures(table)]


def test_a_measure_with_a_sign_may_be_beyond_chance_on_either_side() -> None:
    values = {-0.3: True, -0.2: False, 0.1: False, 0.3: True}
    for value, beyond in values.items():
        assert MeasureRow("offset", value, "nats", null_lower=-0.2, null_q95=0.2).beyond_chance is beyond
