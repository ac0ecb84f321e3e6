"""The clocks."""

import time

import pytest

from monitor.clock import ManualClock, SystemClock


def test_the_manual_clock_moves_only_when_told_to() -> None:
    clock = ManualClock(1_000)
    assert (clock.now_ms(), clock.monotonic()) == (1_000, 0.0)
    clock.sleep(1.5)
    clock.advance(0.25)
    assert (clock.now_ms(), clock.monotonic()) == (2_750, 1.75)
    with pytest.raises(ValueError, match="does not go back, got -1 seconds"):
        clock.advance(-1)


def test_the_system_clock_tells_the_time() -> None:
    clock = SystemClock()
    before, began = time.time() * 1000, clock.monotonic()
    clock.sleep(0.01)
    assert before <= clock.now_ms() + 1 <= time.time() * 1000 + 2
    assert clock.monotonic() - began >= 0.01
