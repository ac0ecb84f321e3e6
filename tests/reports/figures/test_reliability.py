import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.reports.figures.cells import on_cells, smce_result
from monitor.reports.figures.reliability import BinSums, _consistency_band, _corners, finding, reliability_diagram
from monitor.reports.figures.report import report_figures, report_sheet
from monitor.scores import ScoreTable
from tests.reports.figures.tables import TABLES, every_table, texts


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


@every_table
def test_bin_sums_add_up(name: str) -> None:
    table = TABLES[name]()
    bins = BinSums.of(table, np.arange(11) / 10)
    assert bins.counts.sum() == pytest.approx(table.total)
    assert bins.residual.sum() == pytest.approx(table.residual.sum())
    assert bins.counts[-1] == pytest.approx(table.counts[table.score >= 0.9].sum())


def test_the_band_holds_the_diagonal_and_narrows_with_data() -> None:
    widths = []
    for n in (200, 20_000):
        rng = np.random.default_rng(n)
        p = rng.integers(1, 20, n) / 20
        cells = on_cells(ScoreTable.from_events(p, rng.random(n) < p))
        low, high = _consistency_band(cells)
        assert ((low <= cells.score) & (cells.score <= high)).all()
        widths.append(float((high - low).mean()))
    assert widths[1] < 0.25 * widths[0]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(0, 9))
def test_corners_are_all_that_a_curve_needs(steps: list[int], seed: int) -> None:
    curve = np.cumsum(steps).astype(np.float64)
    other = np.cumsum(np.random.default_rng(seed).integers(0, 2, curve.size)).astype(np.float64)
    x = np.arange(curve.size)
    corner = _corners(curve, other)
    for each in (curve, other):
        np.testing.assert_allclose(np.interp(x, x[corner], each[corner]), each)


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
    (reliability, where, _), sheet = (
        report_figures(table, {}, insufficient=reason),
        report_sheet(table, {}, "", "", insufficient=reason),
    )
    for titles in (
        [reliability.figure.texts[0], where.figure.texts[0]],
        [part.texts[0] for part in sheet.subfigs[-2:]],
    ):
        told = [each.get_text().replace("\n", " ") for each in titles]
        assert told == [f"Too little data to tell: {reason}", f"Too little data to tell where: {reason}"]
