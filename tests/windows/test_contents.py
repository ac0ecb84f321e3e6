import numpy as np
import pytest

from monitor.errors import InputError, NoLongerKept
from monitor.events.model import ModelPolicy, SeriesKey
from monitor.scores import GridTable
from monitor.windows.contents import moment_of, read_span, read_window, read_window_of_then
from monitor.windows.windows import Moment, Window
from tests.windows.memory import CHURN, DAY_MS, HOUR_MS, MINUTE_MS, MemoryPanes, calibrated

POLICY = ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=5 * MINUTE_MS)
NEGATIVE = ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=5 * MINUTE_MS, implied_negative=True)
START_MS = 20_000 * DAY_MS


def stream(policy: ModelPolicy, *, minutes: int = 600, every: int = 3) -> MemoryPanes:
    """Ten predictions a minute; every third has no outcome."""
    panes = MemoryPanes(policy)
    n = 10 * minutes
    p, y = calibrated(n, seed=1)
    y[::every] = -1
    panes.add(CHURN, START_MS + np.arange(n) * 6000, p, y)
    return panes


@pytest.mark.parametrize("mature", [True, False])
@pytest.mark.parametrize("length_ms", [HOUR_MS, 5 * HOUR_MS])
def test_a_cohort_is_the_events_of_its_span(length_ms: int, mature: bool) -> None:
    panes, window = stream(POLICY), Window("w", length_ms, mature=mature)
    now = moment_of(panes, "churn")
    found = read_window(panes, CHURN, window, now)
    assert (found.from_ms, found.to_ms) == window.span(now)
    events = panes.events(CHURN, found.from_ms, found.to_ms)
    assert events.size > 500
    assert found.table == GridTable.from_events(events["p"], events["y"])


def test_unanswered_predictions_of_a_mature_window_are_negatives_where_the_policy_says_so() -> None:
    panes = stream(NEGATIVE)
    found = read_window(panes, CHURN, Window("w", HOUR_MS), moment_of(panes, "churn"))
    events = panes.events(CHURN, found.from_ms, found.to_ms)
    assert found.table == GridTable.from_events(events["p"], np.maximum(events["y"], 0))
    assert found.table.labelled == found.table.predictions == events.size


def test_a_window_that_is_not_mature_implies_nothing() -> None:
    panes = stream(NEGATIVE)
    found = read_window(panes, CHURN, Window("w", HOUR_MS, mature=False), moment_of(panes, "churn"))
    assert 0 < found.table.labelled < found.table.predictions


@pytest.mark.parametrize("last", [1, 7, 100, 1000])
def test_a_last_n_window_is_the_fewest_newest_panes_that_hold_n(last: int) -> None:
    panes, window = stream(POLICY), Window("w", 10 * HOUR_MS, last=last)
    found = read_window(panes, CHURN, window, moment_of(panes, "churn"))
    assert found.table.labelled >= last
    without_oldest = panes.sum(CHURN, window.slide_ms, found.from_ms + window.slide_ms, found.to_ms)
    assert without_oldest.labelled < last
    assert found.to_ms == window.span(moment_of(panes, "churn"))[1]


def test_a_last_n_window_counts_implied_outcomes() -> None:
    window = Window("w", 10 * HOUR_MS, last=1000)
    explicit, implied = (
        read_window(panes, CHURN, window, moment_of(panes, "churn")) for panes in (stream(POLICY), stream(NEGATIVE))
    )
    assert implied.from_ms > explicit.from_ms
    assert 1000 <= implied.table.labelled < 1000 + 10 * window.slide_ms / MINUTE_MS


def test_a_last_n_window_reaches_back_its_length_at_the_most() -> None:
    panes, window = stream(POLICY), Window("w", HOUR_MS, last=100_000)
    found = read_window(panes, CHURN, window, moment_of(panes, "churn"))
    assert found.to_ms - found.from_ms == HOUR_MS
    assert 0 < found.table.labelled < 100_000


def test_a_last_n_window_passes_over_silence() -> None:
    panes, window = stream(POLICY), Window("w", DAY_MS, last=300)
    busy = read_window(panes, CHURN, window, moment_of(panes, "churn"))
    panes.advance_to("churn", panes.watermark_ms("churn") + 6 * HOUR_MS)
    silent = read_window(panes, CHURN, window, moment_of(panes, "churn"))
    assert silent.to_ms == busy.to_ms + 6 * HOUR_MS
    assert silent.table.labelled >= 300


def test_a_mature_window_is_recomputed_as_it_was() -> None:
    panes, window = stream(POLICY, minutes=300), Window("w", HOUR_MS)
    at = moment_of(panes, "churn")
    reported = read_window(panes, CHURN, window, at)
    p, y = calibrated(1000, seed=2)
    panes.add(CHURN, at.watermark_ms + 1 + np.arange(1000) * 6000, p, y)
    assert read_window(panes, CHURN, window, moment_of(panes, "churn")).table != reported.table
    again = read_window_of_then(panes, CHURN, window, at)
    assert (again.from_ms, again.to_ms) == (reported.from_ms, reported.to_ms)
    assert again.table == reported.table


def then(at_ms: int) -> Moment:
    return Moment(at_ms, at_ms - HOUR_MS)


def test_what_is_gone_is_refused_and_what_is_named_works() -> None:
    panes, window = stream(POLICY), Window("1h", HOUR_MS)
    panes.kept_ms = START_MS + 4 * HOUR_MS
    with pytest.raises(NoLongerKept) as caught:
        read_window_of_then(panes, CHURN, window, then(START_MS + 4 * HOUR_MS + 30 * MINUTE_MS))
    assert str(caught.value) == (
        "window '1h' at 2024-10-04T04:30:00Z needs predictions since 2024-10-04T02:30:00Z, and those of model 'churn' "
        "are kept since 2024-10-04T04:00:00Z: ask as of 2024-10-04T06:00:00Z or later"
    )
    found = read_window_of_then(panes, CHURN, window, then(START_MS + 6 * HOUR_MS))
    assert found.from_ms == panes.kept_ms
    with pytest.raises(NoLongerKept):
        read_window_of_then(panes, CHURN, window, then(START_MS + 6 * HOUR_MS - 1))


def test_a_last_n_window_needs_only_the_panes_that_it_holds() -> None:
    panes, window = stream(POLICY), Window("w", 5 * HOUR_MS, last=50)
    panes.kept_ms = START_MS + 4 * HOUR_MS
    found = read_window_of_then(panes, CHURN, window, then(START_MS + 6 * HOUR_MS))
    assert found.from_ms >= panes.kept_ms
    assert found.table.labelled >= 50


def test_before_the_first_event_nothing_is_gone() -> None:
    panes = MemoryPanes(POLICY)
    panes.add(CHURN, [2 * HOUR_MS], [0.5], [1])
    found = read_window_of_then(panes, CHURN, Window("7d", 7 * DAY_MS), moment_of(panes, "churn"))
    assert found.from_ms < 0
    assert found.table == GridTable.zero()


def test_a_span_is_the_settled_predictions_of_whole_panes() -> None:
    panes = stream(POLICY)
    edge_ms = panes.edge_ms("churn")
    settled_ms = edge_ms - edge_ms % MINUTE_MS
    for from_ms, to_ms, expected_to_ms in (
        (START_MS, START_MS + HOUR_MS, START_MS + HOUR_MS),
        (START_MS + 5_000, START_MS + HOUR_MS + 59_000, START_MS + HOUR_MS),
        (START_MS, START_MS + 100 * HOUR_MS, settled_ms),
    ):
        found = read_span(panes, CHURN, {MINUTE_MS, HOUR_MS}, from_ms, to_ms)
        assert (found.from_ms, found.to_ms) == (START_MS, expected_to_ms)
        events = panes.events(CHURN, found.from_ms, found.to_ms)
        assert found.table == GridTable.from_events(events["p"], events["y"])


def test_a_span_implies_negatives_where_the_policy_says_so() -> None:
    panes = stream(NEGATIVE)
    found = read_span(panes, CHURN, {MINUTE_MS}, START_MS, START_MS + HOUR_MS)
    assert found.table.labelled == found.table.predictions == 600


def test_a_span_has_the_narrowest_panes_that_are_kept_since_it_begins() -> None:
    class Kept(MemoryPanes):
        def kept_from_ms(self, series: SeriesKey, slide_ms: int) -> int:
            return START_MS + (4 * HOUR_MS if slide_ms == MINUTE_MS else 2 * HOUR_MS)

    panes = Kept(POLICY)
    p, y = calibrated(3600, seed=1)
    panes.add(CHURN, START_MS + np.arange(3600) * 10_000, p, y)
    widths = {HOUR_MS, MINUTE_MS}
    for from_ms, first_ms in ((4 * HOUR_MS + 90_000, 4 * HOUR_MS + MINUTE_MS), (3 * HOUR_MS + 90_000, 3 * HOUR_MS)):
        found = read_span(panes, CHURN, widths, START_MS + from_ms, START_MS + 7 * HOUR_MS)
        assert (found.from_ms, found.to_ms) == (START_MS + first_ms, START_MS + 7 * HOUR_MS)
    with pytest.raises(NoLongerKept, match="kept since 2024-10-04T02:00:00Z, and from is 2024-10-04T01:59:59Z"):
        read_span(panes, CHURN, widths, START_MS + 2 * HOUR_MS - 1_000, START_MS + 7 * HOUR_MS)
    with pytest.raises(InputError, match="panes that are kept since from are 1h wide; set from earlier, or to later"):
        read_span(panes, CHURN, widths, START_MS + 2 * HOUR_MS, START_MS + 2 * HOUR_MS + 59 * MINUTE_MS)


def test_before_anything_is_settled_a_span_says_so() -> None:
    panes = MemoryPanes(ModelPolicy(horizon_ms=START_MS * 2, lateness_ms=0))
    panes.add(CHURN, [START_MS], [0.5], [1])
    with pytest.raises(InputError, match="is not settled at any time yet"):
        read_span(panes, CHURN, {MINUTE_MS}, START_MS, START_MS + HOUR_MS)
