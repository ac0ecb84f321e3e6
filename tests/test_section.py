"""Durations, addresses and classes as they are written."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from monitor.app.settings.models import Classes
from monitor.durations import format_duration, parse_duration
from monitor.section import hide_password


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("24h", 86400),
        ("7d", 604800),
        ("2w", 1209600),
        ("250ms", 0.25),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1.5h", 5400),
        (90, 90),
        (0.5, 0.5),
        ("90", 90),
        (0, 0),
    ],
)
def test_forms_of_a_duration(text: object, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("wrong", ["soon", "", "1y", "-1h", "1h2", "h", True, None, [], -1, float("nan"), "9999999d"])
def test_what_is_no_duration_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_duration(wrong)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=36000)))
def test_a_duration_that_is_shown_reads_back(duration: timedelta) -> None:
    duration = timedelta(milliseconds=round(duration / timedelta(milliseconds=1)))
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("text", "shown"),
    [("24h", "24h"), ("168h", "7d"), ("60s", "1m"), ("90s", "90s"), ("3600s", "1h"), ("1h0m1s", "3601s"), ("0s", "0s")],
)
def test_a_duration_is_shown_as_people_say_it(text: str, shown: str) -> None:
    assert format_duration(parse_duration(text)) == shown


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://monitor:hunter2@db:5432/x", "postgresql://monitor:***@db:5432/x"),
        ("postgresql://monitor:p@ss:w@db/x", "postgresql://monitor:***@db/x"),
        ("postgresql://db/x?user=a&password=hunter2&b=c", "postgresql://db/x?user=a&password=***&b=c"),
        ("sqlite:///monitor-data/state.db", "sqlite:///monitor-data/state.db"),
    ],
)
def test_a_password_in_an_address_is_hidden(address: str, shown: str) -> None:
    assert hide_password(address) == shown


@pytest.mark.parametrize(
    ("written", "classes"),
    [
        (3, ("0", "1", "2")),
        ([0, 1], ("0", "1")),
        (["cat", "dog"], ("cat", "dog")),
        ("cat, dog", ("cat", "dog")),
        (1000, tuple(map(str, range(1000)))),
    ],
)
def test_classes_are_names_or_a_number(written: object, classes: tuple[str, ...]) -> None:
    assert TypeAdapter(Classes).validate_python(written) == classes


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (1, "2 to 1000 classes, as their names or their number"),
        (-3, "2 to 1000 classes"),
        (10**12, "2 to 1000 classes"),
        (["cat"], "2 to 1000 classes"),
        (["cat", "dog", "cat"], "different classes, got 'cat' twice"),
        (["cat", ""], "must not be empty"),
        (["cat", "d\nog"], "control characters"),
        (["cat", "d" * 129], "at most 128 characters"),
        (True, "tuple"),
        (2.0, "tuple"),
    ],
)
def test_what_are_no_classes_is_refused(written: object, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        TypeAdapter(Classes).validate_python(written)
