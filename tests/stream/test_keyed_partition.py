"""A partition that keeps its join in a key-value state publishes, counts and forgets what one in memory does.

The same unruly events go through both, batch by batch; the maps hold no id longer than the join in memory would.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from monitor.events.codec import Decoder
from monitor.events.formats.base import Rules
from monitor.events.model import Kind, ModelPolicy
from monitor.store.base import Checkpoint, ModelClock
from monitor.stream.keyed_partition import KeyedPartition, Others
from monitor.stream.partition import Partition, PartitionSettings
from tests.reference.naive_join import NaiveEvent
from tests.stream.support import START_MS, TOPIC, Published, Traffic, batch_of, records_of, unruly_events

POLICY = ModelPolicy(horizon_ms=24_000, lateness_ms=4_000, segments=("region",))
CLASSES = tuple("abcdefghi")
MIXED = Traffic(ids=200, span_ms=300_000, models=("a", "of-classes"), classes=len(CLASSES))
SETTINGS = PartitionSettings(
    policy=lambda model: replace(POLICY, classes=CLASSES) if model == "of-classes" else POLICY,
    kept_ms={1_000: 10**9},
)


class InMemory:
    """A map whose values survive as copies."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self.values.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        assert value
        self.values[key] = bytes(value)

    def remove(self, key: bytes) -> None:
        del self.values[key]

    def keys(self) -> Iterable[bytes]:
        return list(self.values)


class Keyed:
    """Batches through a keyed partition that is made anew for each."""

    def __init__(self, settings: PartitionSettings = SETTINGS) -> None:
        self.settings, self.rows, self.due = settings, InMemory(), InMemory()
        self.saved: bytes | None = None

    def apply(self, events: list[NaiveEvent], at: int, others: Others | None = None) -> Checkpoint:
        partition = KeyedPartition(0, self.settings, {TOPIC: None}, rows=self.rows, due=self.due, saved=self.saved)
        batches = [batch_of(records_of(events)[at:])] if events[at:] else []
        checkpoint, self.saved = partition.apply(batches, DECODER, others)
        return checkpoint


DECODER = Decoder(Rules(classes={"of-classes": len(CLASSES)}))


@pytest.mark.parametrize("traffic", [Traffic(ids=200, span_ms=300_000), MIXED], ids=["binary", "mixed"])
@pytest.mark.parametrize("seed", range(4))
def test_as_in_memory(seed: int, traffic: Traffic) -> None:
    events = unruly_events(np.random.default_rng(seed), 3_000, POLICY, traffic)
    steady, published, keyed, kept = Partition(0, 0, SETTINGS), Published(), Keyed(), Published()
    for at in range(0, len(events), 100):
        steady.apply(batch_of(records_of(events[: at + 100])[at:]), DECODER, None)
        expected, found = steady.checkpoint(), keyed.apply(events[: at + 100], at)
        assert found.models == expected.models
        assert found.counters == expected.counters
        assert expected.strata.keys() <= found.strata.keys()
        assert [part.to_bytes() for part in found.closings] == [part.to_bytes() for part in expected.closings]
        published.add(expected)
        kept.add(found)
        assert len(keyed.rows.values) <= steady.join.predictions + steady.join.early_outcomes
    assert published.closings


def predictions(times_ms: Iterable[int], model: str = "a") -> list[NaiveEvent]:
    return [
        NaiveEvent(Kind.PREDICTION, model, f"{time_ms}", START_MS + time_ms, 0.25, -1, version="1")
        for time_ms in times_ms
    ]


def test_records_that_are_delivered_again_count_once() -> None:
    keyed, events = Keyed(), predictions(range(0, 60_000, 1_000))
    keyed.apply(events[:40], 0)
    again = keyed.apply(events, 20)
    assert again.counters["prediction", "accepted"] + again.counters["unknown", "dead_letter"] == len(events)
    assert again.counters["prediction", "duplicate"] == 0


def test_a_jump_of_the_clock_settles_what_is_due() -> None:
    keyed = Keyed()
    jump_ms = 12 * 3_600_000
    keyed.apply(predictions(range(0, 6_000, 1_000)), 0)
    after = keyed.apply(predictions([*range(0, 6_000, 1_000), jump_ms]), 6)
    assert sum(int(part.panes.cells.values[:, :3].sum()) for part in after.closings) == 6
    assert len(keyed.rows.values) == 1
    assert len(keyed.due.values) == 2


@pytest.mark.parametrize("known", [False, True])
def test_silent_outcomes_hold_the_edge_unless_their_log_is_read_to_its_end(known: bool) -> None:
    """Without the ends of the logs, outcomes that are not read yet might still come."""
    rows, due, saved = InMemory(), InMemory(), None
    kinds = {TOPIC: Kind.PREDICTION, "outcomes": Kind.OUTCOME}
    closings = 0
    events = predictions(range(0, 90_000, 1_000))
    for at in range(0, 90, 10):
        partition = KeyedPartition(0, SETTINGS, kinds, rows=rows, due=due, saved=saved)
        clock = ModelClock(START_MS + at * 1_000, -1, -1)
        others = Others({TOPIC: at + 10, "outcomes": 0}, {"a": clock}, {}) if known else None
        batch = batch_of(records_of(events, garbage_every=0)[at : at + 10])
        checkpoint, saved = partition.apply([batch], DECODER, others)
        closings += len(checkpoint.closings)
    assert (closings > 0) == known


def test_what_was_backfilled_is_late() -> None:
    keyed = Keyed()
    others = Others({TOPIC: 6}, {}, {"a": START_MS + 3_000})
    counters = keyed.apply(predictions(range(0, 6_000, 1_000)), 0, others).counters
    assert counters["prediction", "late"] == 3
    assert counters["prediction", "accepted"] == 3
