import itertools

from hypothesis import given
from hypothesis import strategies as st

from monitor.windows.windows import PANES_PER_WINDOW, SLIDES_MS, Moment, Window
from tests.windows.memory import DAY_MS, HOUR_MS, MINUTE_MS

lengths = st.integers(1_000, 40 * DAY_MS)
watermarks = st.integers(1_700_000_000_000, 1_900_000_000_000)
moments = st.builds(
    lambda watermark, wait: Moment(watermark, watermark - wait), watermarks, st.integers(0, 31 * DAY_MS)
)


def test_usual_windows_have_round_panes() -> None:
    assert Window("1h", HOUR_MS).slide_ms == MINUTE_MS
    assert Window("24h", DAY_MS).slide_ms == 15 * MINUTE_MS
    assert Window("7d", 7 * DAY_MS).slide_ms == 3 * HOUR_MS


def test_each_width_divides_the_next() -> None:
    assert all(wide % narrow == 0 for narrow, wide in itertools.pairwise(SLIDES_MS))


@given(length=lengths)
def test_a_slide_is_a_small_share_of_its_window(length: int) -> None:
    slide = Window("w", length).slide_ms
    assert slide in SLIDES_MS
    assert slide * PANES_PER_WINDOW <= length or slide == SLIDES_MS[0]
    wider = [each for each in SLIDES_MS if each > slide]
    assert not wider or wider[0] * PANES_PER_WINDOW > length


@given(length=lengths, now=moments, mature=st.booleans())
def test_a_span_is_whole_panes_of_the_windows_length(length: int, now: Moment, mature: bool) -> None:
    window = Window("w", length, mature=mature)
    from_ms, to_ms = window.span(now)
    assert from_ms % window.slide_ms == 0
    assert to_ms % window.slide_ms == 0
    assert length - window.slide_ms < to_ms - from_ms <= length


@given(length=lengths, now=moments)
def test_a_mature_window_holds_what_is_settled_and_no_whole_pane_less(length: int, now: Moment) -> None:
    window = Window("w", length)
    _, to_ms = window.span(now)
    assert to_ms <= now.edge_ms < to_ms + window.slide_ms


@given(length=lengths, now=moments)
def test_a_window_that_is_not_mature_holds_the_newest_prediction(length: int, now: Moment) -> None:
    from_ms, to_ms = Window("w", length, mature=False).span(now)
    assert from_ms <= now.watermark_ms < to_ms


@given(lengths=st.tuples(lengths, lengths), now=moments, mature=st.booleans())
def test_a_longer_window_reaches_at_least_as_far_back_up_to_its_slide(
    lengths: tuple[int, int], now: Moment, mature: bool
) -> None:
    short, long = (Window("w", length, mature=mature) for length in sorted(lengths))
    (short_from, short_to), (long_from, long_to) = (each.span(now) for each in (short, long))
    assert long_from < short_from + long.slide_ms
    assert abs(long_to - short_to) < long.slide_ms + short.slide_ms
    # Panes nest: an edge of a wide pane is an edge of the narrow ones.
    assert long_from % short.slide_ms == 0


@given(length=lengths, now=moments, step=st.integers(0, 3 * DAY_MS), mature=st.booleans())
def test_windows_slide_forward_by_whole_panes(length: int, now: Moment, step: int, mature: bool) -> None:
    window = Window("w", length, mature=mature)
    later = Moment(now.watermark_ms + step, now.edge_ms + step)
    (from_ms, to_ms), (later_from, later_to) = (window.span(at) for at in (now, later))
    assert later_from - from_ms == later_to - to_ms
    assert later_to - to_ms >= 0
    assert (later_to - to_ms) % window.slide_ms == 0
    assert abs((later_to - to_ms) - step) < window.slide_ms
