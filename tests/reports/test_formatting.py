"""Numbers and names as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.reports.formatting import (
    MAX_NAME,
    count,
    evidence_text,
    interval_text,
    p_text,
    pair,
    percent,
    plain,
    points,
    rounded,
    tick,
    value_text,
)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.65, "65%"),
        (0.0996, "10%"),
        (0.052, "5.2%"),
        (0.012, "1.2%"),
        (0.00034, "0.034%"),
        (0.997, "99.70%"),
        (0.9, "90%"),
        (1e-9, "almost 0%"),
        (1.0 - 1e-9, "almost 100%"),
    ],
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


@given(st.floats(1e-6, 1.0 - 1e-6))
def test_percent_never_rounds_to_certainty(share: float) -> None:
    text = percent(share)
    assert text not in {"0%", "100%"}
    assert float(text.rstrip("%")) / 100.0 == pytest.approx(share, abs=0.051 * min(share, 1.0 - share) + 1e-12)


@given(st.floats(1e-4, 0.99), st.floats(1e-3, 0.009))
def test_a_pair_is_told_apart(share: float, more: float) -> None:
    one, other = pair(share, share + more)
    assert one != other


def test_equal_shares_look_equal() -> None:
    one, other = pair(0.25, 0.25)
    assert one == other


def test_points_and_counts() -> None:
    assert [points(each) for each in (0.152, -0.01, 0.004, 0.0004)] == [
        "15 points",
        "1.0 points",
        "0.4 points",
        "0.04 points",
    ]
    assert [count(each) for each in (12345.0, 2.5)] == ["12,345", "2.5"]
    assert [tick(each) for each in (1e-3, 0.5, 1.0, 1e-7)] == ["0.1%", "50%", "100%", "0.00001%"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (61.44, "percent", "61.4%"),
        (0.0123, "ratio", "0.0123"),
        (-0.0123, "ratio", "-0.0123"),
        (0.000867, "ratio", "0.000867"),
        (1e-9, "ratio", "0.0000"),
        (1.0, "ratio", "1.0000"),
        (0.5123, "nats", "0.5123"),
        (123.4, "sigma", "123.4000"),
        (float("inf"), "nats", "infinite"),
    ],
)
def test_amounts_in_their_units(value: float, unit: str, text: str) -> None:
    assert value_text(value, unit) == text


def test_both_ends_of_an_interval_have_as_many_digits() -> None:
    assert interval_text(0.000867, 0.0312, "ratio") == "0.0009 to 0.0312"
    assert interval_text(0.0, 0.000867, "ratio") == "0.000000 to 0.000867"
    assert interval_text(-0.5, 12.25, "sigma") == "-0.5000 to 12.2500"
    assert interval_text(1.0, 20.04, "percent") == "1.0% to 20.0%"
    assert interval_text(0.5, float("inf"), "nats") == "0.5000 to infinite"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("region=eu", "region=eu"),
        ("k\u00f6ln \u6771\u4eac", "k\u00f6ln \u6771\u4eac"),
        ("a\x1b[31mb\n\t", "a\\x1b[31mb\\n\\t"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("x" * 200, "x" * (MAX_NAME - 1) + "\u2026"),
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


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.41, "0.41"), (0.999, "1.00"), (2.41, "2.4"), (14.4, "14"), (158.0, "160"), (1_620.0, "1,600")],
)
def test_a_factor_has_two_digits(value: float, text: str) -> None:
    assert rounded(value) == text


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        (12.0, "well past the alert line (more than 1,000,000 x)"),
        (7.2, "well past the alert line (160 x)"),
        (5.0, "past the alert line (1.0 x)"),
        (4.8, "close to the alert line (63% of it)"),
        (3.0, "below the alert line (1/100 of it)"),
        (0.9, "far below the alert line"),
        (-308.0, "far below the alert line"),
    ],
)
def test_evidence_stands_beside_its_line(evidence: float, text: str) -> None:
    assert evidence_text(evidence, 5.0) == text
