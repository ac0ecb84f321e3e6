import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from monitor.reports.figures.style import WIDTH, fitting, height_of, wrapped

WORDS = st.lists(st.text("abcmWi.,%0123456789", min_size=1, max_size=12), min_size=1, max_size=40)


@given(WORDS, st.sampled_from([9.5, 14.0]), st.booleans())
def test_lines_fit_and_hold_all_words(words: list[str], size: float, bold: bool) -> None:
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    lines = wrapped(" ".join(words), 3.0, size, bold=bold).split("\n")
    assert " ".join(lines).split() == words
    for line in lines:
        width = text_to_path.get_text_width_height_descent(line, font, ismath=False)[0]
        # Letters may draw nearer to each other across a space, or stand a little further apart.
        assert width <= 72.0 * 3.0 * 1.01 or " " not in line


def test_line_breaks_are_kept() -> None:
    assert wrapped("one\ntwo three", 8.0, 10.0) == "one\ntwo three"
    assert height_of("one\ntwo", 10.0) == pytest.approx(2.0 * height_of("one", 10.0))


def test_a_text_shrinks_before_it_is_cut() -> None:
    assert fitting("short", WIDTH, 10.0) == ("short", 10.0)
    text, size = fitting("a text of some length", 1.3, 10.0)
    assert text == "a text of some length"
    assert 7.0 <= size < 10.0
    text, size = fitting("a text of some length", 0.5, 10.0, bold=True)
    assert text.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert 7.0 <= size < 8.0
    assert fitting("", 1.0, 10.0) == ("", 10.0)
