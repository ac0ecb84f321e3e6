"""Text from somebody's data on a terminal."""

import pytest

from monitor.reports.plain import LONGEST, plain
from monitor.reports.tables import interval_text, p_text, value_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("region=eu", "region=eu"),
        ("k\u00f6ln \u6771\u4eac", "k\u00f6ln \u6771\u4eac"),
        ("a\x1b[31mb\n\t", "a\\x1b[31mb\\n\\t"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("x" * 200, "x" * (LONGEST - 1) + "\u2026"),
    ],
)
def test_what_would_steer_a_terminal_is_spelled_out(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_numbers_have_places_enough() -> None:
    assert [value_text(each, "ratio") for each in (0.5, 0.0, 0.00049, -0.00049, None)] == [
        *("0.5000", "0.0000", "0.000490", "-0.000490", "-")
    ]
    assert value_text(7.25, "percent") == "7.2%"
    assert interval_text(0.1, 0.2, "ratio") == "0.1000 to 0.2000"
    assert interval_text(0.1, None, "ratio") == "-"
    assert [p_text(each) for each in (None, 0.04, 0.00036, 1e-7)] == ["-", "0.040", "0.00036", "<.0001"]
