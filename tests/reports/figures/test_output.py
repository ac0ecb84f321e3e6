import re
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor

from docs.generators.svg import to_svg
from docs.generators.witness import witness_figure
from monitor.reports.figures.reliability import reliability_diagram
from monitor.reports.figures.style import to_png
from tests.reports.figures.tables import TABLES


def test_an_svg_is_well_formed_and_refers_to_what_it_holds() -> None:
    svg = to_svg(reliability_diagram(TABLES["tiny"]()))
    assert svg.startswith("<svg")
    ET.fromstring(svg)
    ids = re.findall(r'\bid="([^"]+)"', svg)
    used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)
    assert len(ids) == len(set(ids))
    assert {one or other for one, other in used} == set(ids)
    assert "<dc:date>" not in svg


def test_two_figures_may_stand_in_one_page() -> None:
    table = TABLES["tiny"]()
    one, other = (
        set(re.findall(r'\bid="([^"]+)"', to_svg(draw(table)))) for draw in (reliability_diagram, witness_figure)
    )
    assert one
    assert other
    assert not one & other


def test_figures_are_drawn_in_many_threads_as_in_one() -> None:
    table = TABLES["tiny"]()

    def draw(_: int) -> tuple[str, bytes]:
        figure = reliability_diagram(table)
        return to_svg(figure), to_png(figure)

    alone = draw(0)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(draw, range(4))) == {alone}
