import numpy as np

from monitor.reports.diagrams.reliability import BinSums, on_cells, smce_result
from monitor.reports.figures.reliability import finding, reliability_diagram
from monitor.reports.figures.report import report_sheet
from monitor.scores import ScoreTable
from tests.reports.figures.tables import TABLES, texts


def test_the_title_is_the_bin_that_adds_most() -> None:
    table = ScoreTable.from_events([0.8] * 100 + [0.1] * 10, [1] * 65 + [0] * 35 + [1] * 5 + [0] * 5)
    bins = BinSums.of(table, np.arange(11) / 10)
    assert (
        finding(bins, significant=True)
        == "Largest gap: predictions of about 80% come true 65% of the time,\n15 points too high"
    )
    assert finding(bins, significant=False) == "No difference beyond chance can be seen\n(by smCE, n = 110)"


def test_a_perfect_table_is_called_so_whatever_the_level() -> None:
    table = ScoreTable.from_events([0.5, 0.5], [0, 1])
    assert (
        finding(BinSums.of(table, np.arange(11) / 10), significant=True) == "Predictions come true as often as they say"
    )


def test_a_rare_event_is_told_on_stretched_axes() -> None:
    figure = reliability_diagram(TABLES["rare"]())
    written = texts(figure)
    assert any("Both axes are stretched" in each for each in written)
    assert {"0.1%", "1%"} <= set(written)
    assert not any("Both axes are stretched" in each for each in texts(reliability_diagram(TABLES["balanced"]())))


def test_a_calibrated_model_is_not_accused() -> None:
    table = TABLES["calibrated"]()
    assert smce_result(on_cells(table)).significant is False
    assert "No difference beyond chance can be seen (by smCE, n = 3,000)" in texts(reliability_diagram(table))


def test_too_little_data_is_not_called_calibrated() -> None:
    """Of one event nothing is within chance, and nothing comes true as often as it was said."""
    table = TABLES["one event"]()
    written = texts(reliability_diagram(table))
    assert "No difference beyond chance can be seen (by smCE, n = 1)" in written
    reason = "only 1 of at least 2 predictions have an outcome"
    sheet = report_sheet(table, {}, "", "", insufficient=reason)
    titles = [part.texts[0].get_text().replace("\n", " ") for part in sheet.subfigs[-2:]]
    assert titles == [f"Too little data to tell: {reason}", f"Too little data to tell where: {reason}"]
