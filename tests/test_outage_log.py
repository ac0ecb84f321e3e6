"""What is away is told of, and does not fill the log."""

import structlog

from monitor.clock import ManualClock
from monitor.errors import StoreUnavailable
from monitor.outage_log import LastingProblems, OncePerMinute, Outage, Retry


def test_an_hours_outage_is_a_few_lines_and_one_more_when_it_is_over() -> None:
    clock = ManualClock()
    outage = Outage(structlog.get_logger(), "it is away", "it is back", clock)
    error = StoreUnavailable("no database at localhost:5432")
    with structlog.testing.capture_logs() as told:
        outage.over()
        for _ in range(3600):
            outage.failed(error, partition=3)
            clock.advance(1)
        outage.over()
        outage.over()
    *away, back = told
    assert [line.get("for_seconds", 0) for line in away] == [0, 10, 30, 70, 150, 310, 630, 1230, 1830, 2430, 3030]
    assert all(line["detail"] == str(error) and line["partition"] == 3 for line in away)
    assert back == {"event": "it is back", "log_level": "info", "after_seconds": 3600.0, "attempts": 3600}


def test_the_next_outage_begins_anew() -> None:
    clock = ManualClock()
    outage = Outage(structlog.get_logger(), "it is away", "it is back", clock)
    with structlog.testing.capture_logs() as told:
        for _ in range(2):
            outage.failed(StoreUnavailable("x"))
            clock.advance(1)
            outage.failed(StoreUnavailable("x"))
            outage.over()
    assert [line["event"] for line in told] == ["it is away", "it is back"] * 2
    assert told[-1]["attempts"] == 2


def test_pauses_double_up_to_half_a_minute_and_start_again_after_a_success() -> None:
    clock = ManualClock()
    retry = Retry(clock, Outage(structlog.get_logger(), "it is away", "it is back", clock))
    with structlog.testing.capture_logs() as lines:
        pauses = [retry.failed(StoreUnavailable("no answer")) for _ in range(8)]
        assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]
        assert (retry.due, retry.detail) == (False, "no answer")
        clock.advance(30)
        assert retry.due
        retry.over()
        assert (retry.failed(), retry.detail) == (0.5, "")
    assert [line["event"] for line in lines] == ["it is away", "it is back"]
    assert lines[0]["retry_seconds"] == 0.5


def test_one_line_per_minute_and_key_stands_for_all_events_since_the_last() -> None:
    clock = ManualClock()
    limit = OncePerMinute(clock)
    assert limit.add("a", 0) == 0
    assert limit.add("a") == 1
    assert [limit.add("a", 2), limit.add("b", 3), limit.add("a")] == [0, 3, 0]
    clock.advance(60)
    assert limit.add("a", 0) == 3
    assert limit.add("a", 0) == 0
    assert limit.add("a") == 0


def test_a_lasting_problem_is_new_once_and_again_when_it_changes_or_comes_back() -> None:
    problems = LastingProblems()
    assert [problems.is_new(detail, "a") for detail in ("x", "x", "y", "x")] == [True, False, True, True]
    assert problems.is_new("x", "b")
    problems.over("a")
    assert problems.is_new("x", "a")
    problems.keep({"b"})
    assert [problems.is_new("x", key) for key in "ab"] == [True, False]
