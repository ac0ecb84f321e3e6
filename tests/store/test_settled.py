"""The settled edge of a model, and the partition that holds it back."""

import pytest

from monitor.events.model import ModelPolicy
from monitor.store.base import ModelClock, PartitionClock
from monitor.store.settled import Hold, HoldReason, SettledEdge, settled_edge

MINUTE_MS = 60_000
NOW_MS = 1_800_000_000_000
POLICY = ModelPolicy(horizon_ms=60 * MINUTE_MS, lateness_ms=10 * MINUTE_MS)
READ = PartitionClock(read_to_ms=NOW_MS, saved_ms=NOW_MS)
IN_TIME = ModelClock(NOW_MS, NOW_MS, NOW_MS - POLICY.retention_ms)
LONG_AGO_MS = NOW_MS - 300 * MINUTE_MS
BEHIND_MS = LONG_AGO_MS - POLICY.retention_ms


def edge(clock: ModelClock | None, partition: PartitionClock = READ, awaits: int = 1) -> SettledEdge:
    """With a partition 0 that is in time, and a partition 1."""
    clocks = {0: IN_TIME._replace(awaits_outcomes=awaits)}
    if clock is not None:
        clocks[1] = clock
    return settled_edge(clocks, {0: READ, 1: partition}, POLICY, 1_000, NOW_MS)


def test_it_is_the_smallest_time_up_to_which_a_partition_is_closed() -> None:
    earlier = IN_TIME._replace(closed_to_ms=IN_TIME.closed_to_ms - 5_000)
    assert edge(earlier) == SettledEdge(earlier.closed_to_ms)
    assert edge(IN_TIME) == SettledEdge(IN_TIME.closed_to_ms)
    assert settled_edge({}, {}, POLICY, 1_000, NOW_MS) == SettledEdge(-1)


def test_a_partition_that_has_not_met_the_model_counts_as_far_as_it_is_read() -> None:
    assert edge(None) == SettledEdge(IN_TIME.closed_to_ms)
    read_to_ms = LONG_AGO_MS + 999
    held = edge(None, PartitionClock(read_to_ms, NOW_MS))
    assert held == SettledEdge(LONG_AGO_MS - POLICY.retention_ms, Hold(1, HoldReason.BEHIND, read_to_ms))
    assert edge(None, PartitionClock(-1, NOW_MS)) == SettledEdge(-1, Hold(1, HoldReason.BEHIND, -1))


def test_where_all_events_are_labelled_only_the_lateness_counts() -> None:
    held = edge(None, PartitionClock(LONG_AGO_MS, NOW_MS), awaits=0)
    assert held.to_ms == LONG_AGO_MS - POLICY.lateness_ms


@pytest.mark.parametrize(
    ("clock", "partition", "hold"),
    [
        (
            ModelClock(NOW_MS, NOW_MS, BEHIND_MS),
            PartitionClock(LONG_AGO_MS, NOW_MS - 61_000),
            Hold(1, HoldReason.NOT_READ, NOW_MS - 61_000),
        ),
        (
            ModelClock(LONG_AGO_MS, LONG_AGO_MS, BEHIND_MS),
            PartitionClock(LONG_AGO_MS, NOW_MS - 5_000),
            Hold(1, HoldReason.BEHIND, LONG_AGO_MS),
        ),
        (ModelClock(NOW_MS, LONG_AGO_MS, BEHIND_MS), READ, Hold(1, HoldReason.OUTCOMES_SILENT, LONG_AGO_MS)),
        (ModelClock(NOW_MS, -1, BEHIND_MS), READ, Hold(1, HoldReason.OUTCOMES_SILENT, -1)),
        (ModelClock(LONG_AGO_MS, LONG_AGO_MS, BEHIND_MS), READ, Hold(1, HoldReason.IDLE, LONG_AGO_MS)),
    ],
)
def test_the_reason_is_what_a_person_has_to_look_at(clock: ModelClock, partition: PartitionClock, hold: Hold) -> None:
    assert edge(clock, partition) == SettledEdge(BEHIND_MS, hold)


@pytest.mark.parametrize(
    ("hold", "text"),
    [
        (
            Hold(3, HoldReason.NOT_READ, 0),
            "not read since 1970-01-01T00:00:00.000Z: no replica holds it, or the log has it no longer",
        ),
        (Hold(3, HoldReason.BEHIND, 0), "read up to 1970-01-01T00:00:00.000Z, and records are left"),
        (Hold(3, HoldReason.BEHIND, -1), "nothing was read from it yet"),
        (Hold(3, HoldReason.OUTCOMES_SILENT, 0), "outcome log silent since 1970-01-01T00:00:00.000Z"),
        (Hold(3, HoldReason.OUTCOMES_SILENT, -1), "no outcome came yet"),
        (
            Hold(3, HoldReason.IDLE, 0),
            "no event of the model since 1970-01-01T00:00:00.000Z, and its logs have not been read to their ends",
        ),
    ],
)
def test_it_is_said_in_words(hold: Hold, text: str) -> None:
    assert str(hold) == f"partition 3: {text}"
