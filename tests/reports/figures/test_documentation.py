"""The pictures of the documentation can be drawn, and are there."""

import re
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from docs.generators.counter_examples import confident_mistakes, two_points
from docs.generators.figures import FIGURES
from docs.generators.svg import to_svg
from monitor.measures import ece, kce, smce, tce
from monitor.reports.figures.style import to_png
from tests.long import short_of
from tests.reports.figures.tables import check_layout

DOCS: Final = Path(__file__).parents[3] / "docs"
MOST_BYTES: Final = 170_000


@pytest.mark.parametrize("name", short_of([*FIGURES], 2))
def test_a_picture_can_be_drawn_and_is_there(name: str) -> None:
    figure = FIGURES[name]()
    check_layout(figure)
    drawn = to_svg(figure).encode() if name.endswith(".svg") else to_png(figure)
    there = (DOCS / "figures" / name).read_bytes()
    # Not compared byte by byte: letters are drawn otherwise by another release of matplotlib.
    assert len(drawn) < MOST_BYTES
    assert len(there) < MOST_BYTES
    assert there[:4] == drawn[:4]


def test_every_picture_is_shown_and_nothing_else_lies_there() -> None:
    assert {file.name for file in (DOCS / "figures").iterdir()} == set(FIGURES)
    shown = {
        name for page in DOCS.glob("*.md") for name in re.findall(r"\]\(figures/([^)]+)\)", page.read_text("utf-8"))
    }
    assert shown == set(FIGURES)


def test_ece_jumps_where_the_others_do_not() -> None:
    steps = np.geomspace(1e-6, 1e-3, 7)
    for epsilon in steps.tolist():
        table = two_points(epsilon)
        assert ece(table) > 0.49
        assert smce(table) < epsilon
        assert kce(table) < 0.6 * np.sqrt(epsilon)
    assert ece(two_points(0.0)) == 0.0


def test_the_pathology_of_the_paper() -> None:
    table = confident_mistakes()
    assert ece(table) == pytest.approx(0.003)  # "extremely low (0.003)"
    assert tce(table) == 100.0
