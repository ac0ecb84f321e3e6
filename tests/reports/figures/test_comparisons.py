"""Figures that compare: measures of one model, two models, places."""

import numpy as np
import pytest

from docs.generators.gce_comparison import gce_figure
from monitor.classes import gce_family
from monitor.classes.gce import FAMILY
from monitor.errors import NotEnoughData
from monitor.reports.evaluation.compare import Difference
from monitor.reports.figures.comparison import comparison_figure
from monitor.reports.figures.style import GREY, INK
from monitor.scores import ClassTable
from tests.reports.figures.tables import check_layout, texts


@pytest.fixture(scope="module")
def classes() -> ClassTable:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(4, 0.5), 500)
    return ClassTable.from_events(p, (p.cumsum(axis=1) > rng.random((500, 1))).argmax(axis=1))


def test_every_member_has_a_field_with_its_value(classes: ClassTable) -> None:
    family = gce_family(classes)
    figure = gce_figure(family)
    check_layout(figure)
    written = texts(figure)
    for member in FAMILY:
        value = f"{family[member]:.4f}".lstrip("0")
        assert any(each.endswith(value) for each in written), member
    assert {each.split()[0] for each in written if each[0].isupper() and "." in each} >= {
        "ECE",
        "SCE",
        "ACE",
        "TACE",
        "RMSCE",
    }


def test_members_that_are_missing_are_blank(classes: ClassTable) -> None:
    family = {member: value for member, value in gce_family(classes).items() if member.threshold == 0.0}
    assert sum(each.endswith("none above") for each in texts(gce_figure(family))) == 16


def test_a_perfect_model_has_a_map_as_well() -> None:
    table = ClassTable.from_events([[1.0, 0.0], [0.0, 1.0]], [0, 1])
    check_layout(gce_figure(gce_family(table)))


TCE = {"TCE": Difference("percent", 61.2, 40.1, -30.0, -12.0)}
SMCE = {"smCE": Difference("ratio", 0.0123, 0.0143, -0.001, 0.005)}
INTCE = {"intCE": Difference("ratio", 0.05, 0.05)}
ROWS = {**TCE, **SMCE, "log loss": Difference("nats", 0.512, 0.533, 0.01, 0.03), **INTCE}


def test_the_title_of_a_comparison_follows_the_lead_of_the_report() -> None:
    """smCE first, as the sentence above it does, whatever other measures say."""
    figure = comparison_figure(ROWS, "May", "June")
    check_layout(figure)
    neither = "Neither is better calibrated for certain (by smCE)"
    assert f"{neither}; June is better by TCE and worse by log loss" in texts(figure)
    assert neither in texts(comparison_figure(SMCE, "May", "June"))
    many = {f"measure {k}": Difference("ratio", 0.3, 0.1, -0.3, -0.1) for k in range(12)}
    written = texts(comparison_figure({**many, **SMCE}, "May", "June"))
    assert f"{neither}; June is better by 12 other measures" in written
    sure = {**TCE, "smCE": Difference("ratio", 0.01, 0.03, 0.01, 0.03)}
    written = texts(comparison_figure(sure, "May", "June"))
    assert "May is better calibrated than June (by smCE); June is better by TCE" in written
    # Where there is no smCE, the first.
    assert "June is better calibrated than May (by TCE)" in texts(comparison_figure(TCE, "May", "June"))
    asked = texts(comparison_figure(INTCE, "May", "June"))
    assert any("without draws there is no interval" in each for each in asked)
    with pytest.raises(NotEnoughData):
        comparison_figure({}, "May", "June")


@pytest.mark.parametrize(
    ("first", "second", "headings"),
    [
        ("May", "June", ("May", "June")),
        (
            "scores-of-2026-05",
            "scores-of-2026-06",
            ("\N{HORIZONTAL ELLIPSIS}-of-2026-05", "\N{HORIZONTAL ELLIPSIS}-of-2026-06"),
        ),
        ("may/the-same-scores", "june/the-same-scores", ("first", "second")),
    ],
)
def test_long_names_have_room_above_their_columns(first: str, second: str, headings: tuple[str, str]) -> None:
    figure = comparison_figure(ROWS, first, second)
    check_layout(figure)
    assert set(headings) <= set(texts(figure))
    assert f"\N{LEFTWARDS ARROW} {headings[1]} better" in texts(figure)


def test_a_log_loss_may_be_infinite() -> None:
    figure = comparison_figure({"log loss": Difference("nats", 0.5, float("inf"))}, "May", "June")
    check_layout(figure)
    assert {"infinite", "no finite difference"} <= set(texts(figure))


def test_where_prevalences_differ_nothing_is_called_better() -> None:
    figure = comparison_figure(ROWS, "May", "June", less_is_better=False)
    (heading,) = (each for each in texts(figure) if each.startswith("Neither is better"))
    written = " ".join(each for each in texts(figure) if each != heading).replace("which is better calibrated", "")
    assert not {"better", "worse"} & set(written.split())
    assert "June higher" in written
    assert "TCE of June is lower than that of May" in texts(comparison_figure(TCE, "May", "June", less_is_better=False))
    assert {line.get_color() for line in figure.axes[0].lines} <= {INK, GREY}
