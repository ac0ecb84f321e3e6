"""Events for the tests of the stream, and the ways from them to columns and records."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xxhash

from monitor.events.encode import encode_labelled, encode_outcome, encode_prediction
from monitor.events.model import ClassVectors, EventColumns, Kind, ModelPolicy, RecordBatch, SeriesKey
from monitor.events.strata import Strata
from monitor.scores import GridTable
from monitor.store.base import Checkpoint
from monitor.store.closing import Closing, Panes
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition
from tests.reference.naive_join import NaiveEvent

PaneTables = dict[tuple[int, SeriesKey], GridTable]
"""(start, series) -> the table of a pane."""

START_MS = 1_760_000_000_000
TOPIC = "events"


def columns_of(events: Sequence[NaiveEvent], strata: Strata) -> EventColumns:
    """The events as the decoder would hand them over."""
    hashes = [xxhash.xxh3_128_intdigest(f"{event.model}/{event.id}".encode()) for event in events]
    words = [[value >> 64, value & (2**64 - 1)] for value in hashes]
    return EventColumns(
        kind=np.array([event.kind for event in events], np.int8),
        id_hash=np.array(words, np.uint64).reshape(-1, 2),
        time_ms=np.array([event.time_ms for event in events], np.int64),
        prediction=np.array([max(event.vector, default=event.p) for event in events], np.float64),
        outcome=np.array([event.y for event in events], np.int16),
        model=np.array([strata.model(event.model) for event in events], np.int32),
        stratum=np.array(
            [
                -1 if event.kind is Kind.OUTCOME else strata.stratum(event.model, event.version, dict(event.segments))
                for event in events
            ],
            np.int32,
        ),
        vectors=ClassVectors(
            np.array([len(event.vector) for event in events], np.int32),
            np.array([p for event in events for p in event.vector], np.float64),
        ),
    )


class Traffic(NamedTuple):
    """How unruly the generated events are."""

    ids: int = 40
    span_ms: int = 60_000
    disorder_ms: int = 8_000
    models: tuple[str, ...] = ("a", "b")
    classes: int = 0
    """Classes that the last of the models tells apart; 0 if it is binary."""
    features: int = 0
    """Features of most predictions; some have none, or one more."""


def unruly_events(rng: np.random.Generator, size: int, policy: ModelPolicy, traffic: Traffic) -> list[NaiveEvent]:
    """Predictions and outcomes that come twice, early, late, corrected, contradicting, or for nothing."""
    events = []
    for index in range(size):
        clock = START_MS + index * traffic.span_ms // size
        time_ms = clock - int(rng.integers(0, traffic.disorder_ms))
        model = str(rng.choice(traffic.models))
        classes = traffic.classes if model == traffic.models[-1] else 0
        id_ = f"{index * traffic.ids // size}-{rng.integers(traffic.ids // 4)}"
        draw = rng.random()
        if draw < 0.45:
            p = math.nan if classes else float(rng.choice([0.0, 1.0, rng.random(), 0.3]))
            segments = (("region", str(rng.choice(["eu", "us"]))),) if rng.random() < 0.7 else ()
            events.append(
                NaiveEvent(
                    Kind.PREDICTION,
                    model,
                    id_,
                    time_ms,
                    p,
                    -1,
                    version=str(rng.integers(1, 3)),
                    segments=segments,
                    vector=_vector(rng, classes),
                    features=_features(rng, traffic.features),
                )
            )
        elif draw < 0.9:
            late = int(rng.integers(-policy.lateness_ms, policy.horizon_ms))
            events.append(
                NaiveEvent(Kind.OUTCOME, model, id_, time_ms + late, math.nan, int(rng.integers(classes or 2)))
            )
        else:
            p = math.nan if classes else float(rng.random())
            y = int(rng.integers(classes or 2))
            events.append(NaiveEvent(Kind.LABELLED, model, id_, time_ms, p, y, vector=_vector(rng, classes)))
    return events


def _features(rng: np.random.Generator, count: int) -> tuple[float, ...]:
    """Numbers that a float32 holds; 0 means none, and nothing is drawn."""
    if not count or rng.random() < 0.2:
        return ()
    return tuple((rng.integers(-50, 50, count + int(rng.random() < 0.1)) / 8).tolist())


def _vector(rng: np.random.Generator, classes: int) -> tuple[float, ...]:
    """Probabilities in sixteenths, so that they add up to 1 exactly and often have two that are largest."""
    if not classes:
        return ()
    return tuple((rng.multinomial(16, rng.dirichlet(np.ones(classes))) / 16).tolist())


class LogRecord(NamedTuple):
    """A message as a source hands it over."""

    offset: int
    timestamp: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


def encoded(event: NaiveEvent) -> bytes:
    """The event as its producer writes it."""
    if event.kind is Kind.OUTCOME:
        return encode_outcome(event.model, event.id, event.time_ms, event.y)
    if event.kind is Kind.PREDICTION:
        return encode_prediction(
            event.model,
            event.id,
            event.time_ms,
            event.vector or event.p,
            version=event.version,
            segments=dict(event.segments),
            features=event.features or None,
        )
    return encode_labelled(
        event.model,
        event.id,
        event.time_ms,
        event.vector or event.p,
        event.y,
        version=event.version,
        segments=dict(event.segments),
        features=event.features or None,
    )


def records_of(events: Sequence[NaiveEvent], garbage_every: int = 50) -> list[LogRecord]:
    """The events as messages; one of every so many is garbage instead."""
    return [
        LogRecord(
            offset, START_MS + 10_000_000, b"" if garbage_every and offset % garbage_every == 7 else encoded(event)
        )
        for offset, event in enumerate(events)
    ]


def batch_of(records: Sequence[LogRecord]) -> RecordBatch:
    """Messages of one topic."""
    return RecordBatch(TOPIC, 0, records, records[-1].offset + 1)


def tables_of(*panes: Panes) -> PaneTables:
    """The panes of closings and summaries, added up."""
    tables: PaneTables = {}
    for part in panes:
        for place, series in enumerate(part.names):
            cells = part.cells.of_series(place)
            for start_ms in np.unique(cells.start_ms).tolist():
                rows = cells.take(np.flatnonzero(cells.start_ms == start_ms))
                key = start_ms, series
                tables[key] = tables.get(key, GridTable.zero()) + GridTable(rows.cell, rows.values)
    return tables


class Published:
    """What the checkpoints of a partition have published. Refuses a closing that is not the next one of its model."""

    def __init__(self) -> None:
        self.closings: list[Closing] = []
        self._closed_to_ms: dict[str, int] = {}

    def add(self, checkpoint: Checkpoint) -> Checkpoint:
        """Note a checkpoint, and return it."""
        states = {state.name: state.closed_to_ms for state in checkpoint.models}
        for closing in checkpoint.closings:
            assert closing.from_ms == self._closed_to_ms.get(closing.model, closing.from_ms)
            assert closing.from_ms < closing.to_ms == states[closing.model]
            starts = closing.panes.cells.start_ms
            assert closing.from_ms <= starts.min() <= starts.max() <= closing.to_ms - closing.pane_ms
        self._closed_to_ms = states
        self.closings += checkpoint.closings
        return checkpoint

    def tables(self, partition: Partition | None = None) -> PaneTables:
        """All panes: those that are closed, and with a partition also what it has not settled."""
        open_panes = [] if partition is None else [partition.unsettled(cells=True)]
        return tables_of(*(closing.panes for closing in self.closings), *open_panes)


def closings_in(store: SqlStore, *models: str, partition: int = 0) -> list[Closing]:
    """The closings of a partition that a store holds."""
    return [part for model in models for part in store.read_closings(model, {partition: -1}).get(partition, ())]
