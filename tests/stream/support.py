"""Events for the tests of the stream, and the ways from them to columns and records."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xxhash

from monitor.events.model import EventColumns, Kind, ModelPolicy
from monitor.events.strata import Strata
from tests.reference.naive_join import NaiveEvent

START_MS = 1_760_000_000_000


def columns_of(events: Sequence[NaiveEvent], strata: Strata) -> EventColumns:
    """The events as the decoder would hand them over."""
    hashes = [xxhash.xxh3_128_intdigest(f"{event.model}/{event.id}".encode()) for event in events]
    words = [[value >> 64, value & (2**64 - 1)] for value in hashes]
    return EventColumns(
        kind=np.array([event.kind for event in events], np.int8),
        id_hash=np.array(words, np.uint64).reshape(-1, 2),
        time_ms=np.array([event.time_ms for event in events], np.int64),
        prediction=np.array([event.p for event in events], np.float64),
        outcome=np.array([event.y for event in events], np.int8),
        model=np.array([strata.model(event.model) for event in events], np.int32),
        stratum=np.array(
            [
                -1 if event.kind is Kind.OUTCOME else strata.stratum(event.model, event.version, dict(event.segments))
                for event in events
            ],
            np.int32,
        ),
    )


class Traffic(NamedTuple):
    """How unruly the generated events are."""

    ids: int = 40
    span_ms: int = 60_000
    disorder_ms: int = 8_000


def unruly_events(rng: np.random.Generator, size: int, policy: ModelPolicy, traffic: Traffic) -> list[NaiveEvent]:
    """Predictions and outcomes that come twice, early, late, corrected, contradicting, or for nothing."""
    events = []
    for index in range(size):
        clock = START_MS + index * traffic.span_ms // size
        time_ms = clock - int(rng.integers(0, traffic.disorder_ms))
        model = str(rng.choice(["a", "b"]))
        id_ = f"{index * traffic.ids // size}-{rng.integers(traffic.ids // 4)}"
        draw = rng.random()
        if draw < 0.45:
            p = float(rng.choice([0.0, 1.0, rng.random(), 0.3]))
            segments = (("region", str(rng.choice(["eu", "us"]))),) if rng.random() < 0.7 else ()
            events.append(
                NaiveEvent(
                    Kind.PREDICTION, model, id_, time_ms, p, -1, version=str(rng.integers(1, 3)), segments=segments
                )
            )
        elif draw < 0.9:
            late = int(rng.integers(-policy.lateness_ms, policy.horizon_ms))
            events.append(NaiveEvent(Kind.OUTCOME, model, id_, time_ms + late, math.nan, int(rng.integers(2))))
        else:
            events.append(NaiveEvent(Kind.LABELLED, model, id_, time_ms, float(rng.random()), int(rng.integers(2))))
    return events


class LogRecord(NamedTuple):
    """A message as a source hands it over."""

    offset: int
    timestamp: int
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
