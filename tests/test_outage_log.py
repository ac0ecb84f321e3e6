"""What is away is told of, and does not fill the log."""

import structlog

from monitor.clock import ManualClock
from monitor.errors import StoreUnavailable
from monitor.outage_log import Outage


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
