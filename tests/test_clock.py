"""The clocks."""

import time

import pytest

from monitor.clock import ManualClock, SimulatedTime, SystemClock


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


def test_simulated_time_runs_at_its_speed_until_it_has_caught_up() -> None:
    simulated = SimulatedTime(began_ms=10_000, start_ms=1_000, speed=3.0)
    assert [simulated.at(clock_ms) for clock_ms in (9_000, 10_000, 12_000, 14_500, 20_000)] == [
        1_000,
        1_000,
        7_000,
        14_500,
        20_000,
    ]
