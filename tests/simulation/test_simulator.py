"""Simulated time runs at its pace, and never past the present."""

import threading
from collections.abc import Sequence

import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.errors import SourceUnavailable
from monitor.events.model import Message
from monitor.simulation.simulator import Pace, Simulator
from tests.patience import eventually, joined

NOW_MS = 1_795_000_000_123
HOUR_MS = 3_600_000


class Kept:
    """A log that keeps what is written."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def write(self, messages: Sequence[Message]) -> None:
        self.messages.extend(messages)

    def close(self) -> None:
        pass


class Full(Kept):
    """A log whose disk is full."""

    def write(self, messages: Sequence[Message]) -> None:
        raise SourceUnavailable("no space left on device")


def test_it_begins_in_the_past_on_a_whole_hour_with_a_history() -> None:
    simulator = Simulator(
        Kept().write, "events", ManualClock(NOW_MS), pace=Pace(history_ms=2 * HOUR_MS, calm_ms=HOUR_MS)
    )
    begin_ms = simulator.start_ms - 2 * HOUR_MS
    assert begin_ms % HOUR_MS == 0
    assert NOW_MS - 31 * 24 * HOUR_MS < begin_ms <= NOW_MS - 30 * 24 * HOUR_MS
    assert simulator.change_ms == simulator.start_ms + HOUR_MS


def test_what_is_written_reaches_up_to_the_time_and_no_further() -> None:
    kept = Kept()
    simulator = Simulator(kept.write, "events", ManualClock(NOW_MS), seed=2)
    end_ms = simulator.now_ms + HOUR_MS // 2
    simulator.write_until(end_ms)
    assert simulator.now_ms == end_ms
    assert simulator.messages == len(kept.messages) > 10_000
    stamps = [message.timestamp_ms or 0 for message in kept.messages]
    assert max(stamps) < end_ms
    assert max(stamps) > end_ms - 5000
    simulator.write_until(end_ms)
    assert simulator.messages == len(kept.messages)


def test_it_runs_faster_than_the_wall_clock_until_it_is_stopped() -> None:
    kept = Kept()
    pace = Pace(speed=600.0, history_ms=HOUR_MS // 6, calm_ms=0, behind_ms=30 * 24 * HOUR_MS)
    simulator = Simulator(kept.write, "events", SystemClock(), pace=pace)
    thread = threading.Thread(target=simulator.run)
    thread.start()
    try:
        eventually(lambda: simulator.now_ms > simulator.start_ms + 300_000)
    finally:
        simulator.stop()
        joined(thread)


def test_it_does_not_run_into_the_future() -> None:
    kept = Kept()
    clock = ManualClock(NOW_MS)
    pace = Pace(speed=1000.0, history_ms=0, calm_ms=0, behind_ms=0)
    simulator = Simulator(kept.write, "events", clock, pace=pace, rate=0.1)
    thread = threading.Thread(target=simulator.run)

    def begun() -> bool:
        clock.advance(0.1)
        return simulator.now_ms > simulator.start_ms

    thread.start()
    try:
        # It has begun, and then more simulated time passes than there is up to the present.
        eventually(begun)
        clock.advance(60.0)
        eventually(lambda: simulator.now_ms >= clock.now_ms())
    finally:
        simulator.stop()
        joined(thread)
    assert simulator.now_ms == clock.now_ms()


@pytest.mark.parametrize("history_ms", [0, HOUR_MS])
def test_a_full_disk_ends_it_without_a_traceback(history_ms: int) -> None:
    simulator = Simulator(Full().write, "events", SystemClock(), pace=Pace(history_ms=history_ms))
    simulator.run()
    assert simulator.messages == 0
