import numpy as np
import pytest
from scipy.special import logit

from monitor.reports.diagrams.axis import ProbabilityAxis
from monitor.reports.figures.reliability import reliability_diagram
from monitor.scores import ScoreTable
from tests.reports.figures.tables import TABLES, every_table


@pytest.mark.parametrize(
    ("name", "in_log_odds"),
    [("balanced", False), ("rare", True), ("common", True), ("constant", False), ("certain", False), ("tiny", False)],
)
def test_rare_predictions_have_an_axis_in_log_odds(name: str, in_log_odds: bool) -> None:
    assert ProbabilityAxis.of(TABLES[name]()).logit is in_log_odds


@every_table
def test_nearly_all_predictions_are_between_its_ends(name: str) -> None:
    table = TABLES[name]()
    axis = ProbabilityAxis.of(table, [0.02])
    inside = (table.score >= axis.lower) & (table.score <= axis.upper)
    assert table.counts[inside].sum() >= 0.99 * table.total
    assert axis.lower <= 0.02 <= axis.upper
    assert 2 <= len(axis.ticks()) <= 7
    assert all(axis.lower <= tick <= axis.upper for tick in axis.ticks())
    assert list(axis.ticks()) == sorted(axis.ticks())


def test_places_are_probabilities_or_log_odds_between_the_ends() -> None:
    np.testing.assert_array_equal(ProbabilityAxis().place([0.0, 0.3, 1.0]), [0.0, 0.3, 1.0])
    axis = ProbabilityAxis(0.001, 0.2, logit=True)
    np.testing.assert_allclose(axis.place([0.0, 0.01, 1.0]), logit([0.001, 0.01, 0.2]))


@pytest.mark.parametrize("axis", [ProbabilityAxis(), ProbabilityAxis(0.001, 0.2, logit=True)])
def test_bins_are_of_one_width_on_the_axis(axis: ProbabilityAxis) -> None:
    edges = axis.edges(10)
    assert edges[0] == 0.0
    assert edges[-1] == 1.0
    widths = np.diff(axis.place(edges))
    np.testing.assert_allclose(widths, widths[0])
    np.testing.assert_allclose(axis.columns(10), axis.place(edges), atol=1e-12)


def test_columns_are_closed_on_the_left() -> None:
    """As bins are: predictions of .35 stand from 35% on."""
    for bins in (10, 20, 24, 40):
        np.testing.assert_array_equal(ProbabilityAxis().columns(bins), [k / bins for k in range(bins + 1)])
    bars = reliability_diagram(ScoreTable.from_events([0.35] * 10, [1, 0] * 5)).axes[1].containers[0]
    (held,) = (bar for bar in bars if bar.get_height())
    assert held.get_x() >= 0.35
