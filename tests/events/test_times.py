"""Times against the standard library's parser, a naive reference, and the calendar."""

import calendar
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monitor.events.codec import parse_times
from monitor.events.fields import Rejected
from monitor.events.model import Reason
from monitor.events.times import check_range, format_time, parse_time, read_time

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FORM = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


def parse(text: str) -> int | None:
    """The time in bulk; the same as alone."""
    try:
        alone = parse_time(text)
    except ValueError:
        alone = None
    if text.isascii():
        time_ms, good = parse_times([text])
        assert (time_ms[0] if good[0] else None) == alone
    return alone


def naive_parse(text: str) -> int | None:
    """RFC 3339, section 5.6, by regular expression and the standard library's calendar (years 1 to 9999)."""
    match = FORM.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, offset_hour, offset_minute = match.groups()[6:]
    leap = second == 60
    try:
        offset = timedelta()
        if sign:
            if int(offset_hour) > 23 or int(offset_minute) > 59:
                return None
            offset = timedelta(hours=int(offset_hour), minutes=int(offset_minute)) * (-1 if sign == "-" else 1)
        local = datetime(year, month, day, hour, minute, 59 if leap else second, tzinfo=UTC)
    except ValueError:
        return None
    time_ms = ((local - EPOCH) - offset) // timedelta(milliseconds=1)
    if leap:
        utc = EPOCH + timedelta(milliseconds=time_ms)
        if (utc.hour, utc.minute) != (23, 59) or utc.day != calendar.monthrange(utc.year, utc.month)[1]:
            return None
        return time_ms + 999
    return time_ms + int(((fraction or "") + "000")[:3])


@given(
    moment=st.datetimes(
        min_value=datetime(1, 1, 3),  # noqa: DTZ001 - strategies give the time zone
        max_value=datetime(9999, 12, 29),  # noqa: DTZ001
        timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
    )
)
def test_every_moment_that_python_writes_is_read_as_python_reads_it(moment: datetime) -> None:
    for text in (moment.isoformat(), str(moment), moment.isoformat(timespec="milliseconds").lower()):
        expected = (datetime.fromisoformat(text.upper()) - EPOCH) // timedelta(milliseconds=1)
        assert parse(text) == expected


digits = st.text("0123456789", min_size=2, max_size=2)
near_misses = st.builds(
    "{}{}-{}-{}{}{}:{}:{}{}{}".format,
    st.sampled_from(["00", "19", "20", "2"]),
    st.sampled_from(["00", "01", "04", "24", "99"]),
    st.sampled_from(["00", "01", "02", "06", "09", "12", "13"]),
    st.sampled_from(["00", "01", "28", "29", "30", "31", "32"]),
    st.sampled_from(["T", "t", " ", "_", ""]),
    st.sampled_from(["00", "12", "22", "23", "24"]),
    st.sampled_from(["00", "29", "59", "60"]),
    st.sampled_from(["00", "59", "60", "61", "6"]),
    st.sampled_from(["", ".", ".5", ".999", ".9999999999999", ",5", ".12a"]),
    st.sampled_from(["", "Z", "z", "+00:00", "-00:00", "+00:30", "-23:59", "+24:00", "+1:00", "+0100", "Zx", "+01:60"]),
)


@given(text=near_misses | st.text(max_size=30) | st.text("0123456789-:TtZz+. ", min_size=19, max_size=32))
@example("2016-12-31T23:59:60Z")
@example("2017-01-01T00:29:60+00:30")
@example("2016-12-31T00:00:60-23:59")
@example("2016-12-30T23:59:60Z")
@example("\uff12026-11-20T10:00:00Z")
@example("2026-11-20T10:00:00Z\n")
@example("2026-11-20T10:00:00\udc80")
def test_near_misses_are_judged_as_the_naive_reference_judges_them(text: str) -> None:
    if text.startswith("0000"):
        return  # Python has no year 0
    assert parse(text) == naive_parse(text)


@given(
    texts=st.lists(
        near_misses | st.text(max_size=30) | st.sampled_from(["2026-11-20T10:00:00Z", "2026-11-20T10:00:00.5Z", "é"]),
        max_size=20,
    )
)
def test_texts_do_not_change_their_neighbours(texts: list[str]) -> None:
    time_ms, status = parse_times(texts)
    alone = [parse_times([text]) for text in texts]
    assert time_ms.tolist() == [times[0] for times, _ in alone]
    assert status.tolist() == [states[0] for _, states in alone]


def test_every_day_of_four_centuries_stands_where_the_calendar_puts_it() -> None:
    days = [datetime(1900, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(146_097)]
    time_ms, status = parse_times([day.strftime("%Y-%m-%dT00:00:00Z") for day in days])
    assert status.all()
    assert (time_ms[0], set((time_ms[1:] - time_ms[:-1]).tolist())) == (
        (days[0] - EPOCH).days * 86_400_000,
        {86_400_000},
    )


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("2026-11-20t10:00:00z", "2026-11-20T10:00:00Z"),
        ("2026-11-20T10:00:00-00:00", "2026-11-20T10:00:00Z"),
        ("2026-11-20T00:30:00+01:00", "2026-11-19T23:30:00Z"),
        ("2026-11-20T10:00:00.1Z", "2026-11-20T10:00:00.100Z"),
        ("2026-11-20T10:00:00.1239999999999999999999Z", "2026-11-20T10:00:00.123Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999Z"),
        ("2017-01-01T00:59:60.75+01:00", "2016-12-31T23:59:59.999Z"),
        ("2016-06-30T16:59:60-07:00", "2016-06-30T23:59:59.999Z"),
    ],
)
def test_spellings(text: str, same_as: str) -> None:
    assert parse(text) == parse(same_as)
    assert parse(text) is not None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2026-02-29T00:00:00Z", "calendar"),
        ("1900-02-29T00:00:00Z", "calendar"),
        ("2026-04-31T00:00:00Z", "calendar"),
        ("2026-13-01T00:00:00Z", "calendar"),
        ("2026-11-20T24:00:00Z", "clock"),
        ("2026-11-20T10:60:00Z", "clock"),
        ("2026-11-20T10:00:00+24:00", "offset beyond"),
        ("2026-11-20T10:00:60Z", "last day of a month"),
        ("2026-11-20T10:00:00", "has no offset"),
        ("2026-11-20T10:00:00.5", "has no offset"),
        ("2026-11-20T10:00Z", "must read like"),
        ("20261120T100000Z", "must read like"),
        ("", "must read like"),
        ("1795168800000", "in quotes"),
        ("-5", "in quotes"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(Rejected, match=says) as why:
        read_time(text, f'"{text}"')
    assert why.value.reason is Reason.INVALID_TIME
    assert "ts" in why.value.detail


@given(time_ms=st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_formatted_times_are_read_back(time_ms: int) -> None:
    assert parse(format_time(time_ms)) == time_ms


def test_times_beyond_the_calendar_are_shown_as_numbers() -> None:
    assert format_time(10**30) == str(10**30)


def test_the_hint_at_a_unit_is_for_numbers_alone() -> None:
    check_range(1500, "1500", 1000, 2000)
    with pytest.raises(Rejected, match="looks like microseconds"):
        check_range(1_500_000, "1500000", 1000, 2000)
    with pytest.raises(Rejected) as why:
        check_range(1_500_000, '"1970-01-01T00:25:00Z"', 1000, 2000)
    assert "looks like" not in why.value.detail
