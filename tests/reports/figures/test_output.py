import re
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from monitor.errors import InputError
from monitor.reports.figures.output import save, to_png, to_svg
from monitor.reports.figures.reliability import reliability_diagram
from monitor.reports.figures.witness import witness_figure
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


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<svg"), ("a.pdf", b"%PDF")])
def test_the_ending_decides_on_the_format(tmp_path: Path, name: str, start: bytes) -> None:
    figure = witness_figure(TABLES["tiny"]())
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        save(figure, tmp_path / folder / name)
    written = (tmp_path / "first" / name).read_bytes()
    assert written.startswith(start)
    assert written == (tmp_path / "second" / name).read_bytes()


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"saved as \.png, \.svg, \.pdf, got 'a\.gif'"):
        save(witness_figure(TABLES["tiny"]()), tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


def test_figures_are_drawn_in_many_threads_as_in_one() -> None:
    table = TABLES["tiny"]()

    def draw(_: int) -> tuple[str, bytes]:
        figure = reliability_diagram(table)
        return to_svg(figure), to_png(figure)

    alone = draw(0)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(draw, range(8))) == {alone}
