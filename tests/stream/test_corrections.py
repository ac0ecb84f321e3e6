"""What comes again for a prediction acts until the prediction is closed, and is refused and counted after."""

import math
from dataclasses import replace
from typing import Final

import pytest

from monitor.events.codec import Decoder
from monitor.events.model import Kind, ModelPolicy
from monitor.scores import GridTable
from monitor.stream.partition import Partition, PartitionSettings
from tests.reference.naive_join import NaiveEvent
from tests.stream.support import START_MS, Published, batch_of, records_of

POLICY: Final = ModelPolicy(horizon_ms=24_000, lateness_ms=4_000)
SETTINGS: Final = PartitionSettings(policy=lambda _: POLICY, kept_ms={1_000: 10**9})
SETTLED_BY_MS: Final = 100_000


def prediction(p: float, at_ms: int = 0, id_: str = "x") -> NaiveEvent:
    return NaiveEvent(Kind.PREDICTION, "m", id_, START_MS + at_ms, p, -1)


def outcome(y: int, at_ms: int, id_: str = "x") -> NaiveEvent:
    return NaiveEvent(Kind.OUTCOME, "m", id_, START_MS + at_ms, math.nan, y)


def labelled(y: int, at_ms: int = 0, id_: str = "x") -> NaiveEvent:
    return NaiveEvent(Kind.LABELLED, "m", id_, START_MS + at_ms, 0.25, y)


TWO_EVENTS: Final = [prediction(0.25), outcome(1, 1_000)]
LATER_TWO: Final = [prediction(0.5, SETTLED_BY_MS, "later"), outcome(1, SETTLED_BY_MS, "later")]
LATER_LABELLED: Final = [labelled(1, SETTLED_BY_MS, "later")]
KINDS: Final = {Kind.PREDICTION: "prediction", Kind.OUTCOME: "outcome", Kind.LABELLED: "labelled"}


class Reader:
    """A partition that saves after every read, and what it has published."""

    def __init__(self) -> None:
        self.partition = Partition(0, 0, SETTINGS)
        self.published = Published()

    def read(self, *events: NaiveEvent) -> None:
        self.partition.apply(batch_of(records_of(events, garbage_every=0)), Decoder(), None)
        self.published.add(self.partition.checkpoint())

    def counted(self, kind: Kind) -> dict[str, int]:
        """Result -> events of the kind, of results that there were."""
        counters = self.partition.join.counters().items()
        return {result: count for (type_, result), count in counters if type_ == KINDS[kind] and count}

    def first_pane(self) -> GridTable:
        """The pane of the first prediction, closed or not."""
        tables = self.published.tables(self.partition)
        (table,) = (table for (start_ms, _), table in tables.items() if start_ms == START_MS)
        return table


@pytest.mark.parametrize(
    ("first", "again", "counted", "y"),
    [
        (TWO_EVENTS, prediction(0.75), {"accepted": 1, "duplicate": 1}, 1),
        (TWO_EVENTS, outcome(0, 2_000), {"joined": 1, "corrected": 1}, 0),
        (TWO_EVENTS, outcome(0, 1_000), {"joined": 1, "corrected": 1}, 0),
        (TWO_EVENTS, outcome(0, 500), {"joined": 1, "superseded": 1}, 1),
        (TWO_EVENTS, outcome(1, 2_000), {"joined": 1, "duplicate": 1}, 1),
        ([labelled(1)], labelled(0), {"accepted": 1, "corrected": 1}, 0),
        ([labelled(1)], labelled(1), {"accepted": 1, "duplicate": 1}, 1),
    ],
)
def test_before_closing_the_newest_outcome_counts_and_the_first_prediction(
    first: list[NaiveEvent], again: NaiveEvent, counted: dict[str, int], y: int
) -> None:
    reader = Reader()
    reader.read(*first)
    reader.read(again)
    assert reader.counted(again.kind) == counted
    assert reader.published.closings == []
    assert reader.first_pane() == GridTable.from_events([0.25], [y])
    reader.read(*(LATER_LABELLED if again.kind is Kind.LABELLED else LATER_TWO))
    (closing,) = reader.published.closings
    assert closing.panes.cells.values[:, :3].sum() == 1
    assert reader.first_pane() == GridTable.from_events([0.25], [y])


@pytest.mark.parametrize(
    ("first", "again", "refused"),
    [
        (TWO_EVENTS, prediction(0.75), "late"),
        (TWO_EVENTS, outcome(0, 2_000), "late"),
        (TWO_EVENTS, outcome(0, SETTLED_BY_MS), "orphan"),
        ([labelled(1)], labelled(0), "late"),
    ],
)
def test_after_closing_it_is_refused_and_counted_and_the_closing_stays(
    first: list[NaiveEvent], again: NaiveEvent, refused: str
) -> None:
    later = LATER_LABELLED if again.kind is Kind.LABELLED else LATER_TWO
    reader = Reader()
    reader.read(*first)
    reader.read(*later)
    before, closings = reader.counted(again.kind), [part.to_bytes() for part in reader.published.closings]
    assert reader.first_pane() == GridTable.from_events([0.25], [1])
    reader.read(again)
    # An outcome may wait for a prediction until what it would belong to is closed.
    result = "early" if refused == "orphan" else refused
    assert reader.counted(again.kind) == {**before, result: 1}
    end_ms = 2 * SETTLED_BY_MS
    reader.read(*(replace(event, id="last", time_ms=START_MS + end_ms) for event in later))
    assert reader.counted(again.kind)[refused] == 1
    assert "early" not in reader.counted(again.kind)
    assert [part.to_bytes() for part in reader.published.closings[: len(closings)]] == closings
    assert reader.first_pane() == GridTable.from_events([0.25], [1])
