"""Samples of labelled events as obvious loops: the oracle for the candidates and the closed samples."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from monitor.events.model import ModelPolicy
from monitor.store.base import Bucket
from monitor.store.closed_samples import ClosedSample
from tests.reference.naive_join import NaiveEvent, Prediction, id_digest, normalised

Item = TypeVar("Item")

EDGES = [round(1 / (1 + math.exp(-logit)), 6) for logit in range(-7, 8)]


class Sampled(NamedTuple):
    """A labelled event as a sample has it. Sorts by hash, then time."""

    id_hash: int
    time_ms: int
    confidence: int
    prediction: tuple[float, ...]
    outcome: int
    segments: tuple[tuple[str, str], ...]
    features: tuple[float, ...]


class NaiveClosed(NamedTuple):
    """A closed sample: labelled events by stratum, and those that are kept, by hash."""

    labelled: dict[int, int]
    events: list[Sampled]


def keep(
    items: Iterable[Item], capacity: int, stratum: Callable[[Item], Hashable], key: Callable[[Item], Any]
) -> list[Item]:
    """The first of each stratum, then the second of each, until there are enough."""
    strata: defaultdict[Hashable, list[Item]] = defaultdict(list)
    for item in sorted(items, key=key):
        strata[stratum(item)].append(item)
    kept: list[Item] = []
    rank = 0
    while len(kept) < capacity:
        level = [of[rank] for of in strata.values() if rank < len(of)]
        if not level:
            break
        kept += sorted(level, key=key)[: capacity - len(kept)]
        rank += 1
    return sorted(kept, key=key)


def confidence(event: NaiveEvent) -> int:
    """How many edges the largest probability has reached; of each class apart."""
    if not event.vector:
        return sum(edge <= event.p for edge in EDGES)
    vector = normalised(event.vector)
    top = vector.index(max(vector))
    return top * (len(EDGES) + 1) + sum(edge <= vector[top] for edge in EDGES)


def sampled(known: Prediction, outcome: int) -> Sampled:
    """A prediction as a sample has it."""
    event = known.event
    return Sampled(
        int.from_bytes(id_digest(event.model, event.id)),
        event.time_ms,
        confidence(event),
        tuple(normalised(event.vector)) if event.vector else (event.p,),
        outcome,
        event.segments,
        tuple(float(np.float32(value)) for value in event.features),
    )


class NaiveSamples:
    """The samples of one partition.

    Parameters
    ----------
    predictions
        Every prediction that the join accepted, with what is known of it in the end.
    policy, width_ms
        Policy of a model, and the width of the buckets of its journal.
    span_ms, capacity
        Width of a span, and how many events of it are kept.

    A bucket keeps four times its even share of them as candidates; at least a quarter of all, at most twice as many.
    """

    def __init__(
        self,
        predictions: Iterable[Prediction],
        policy: Callable[[str], ModelPolicy],
        width_ms: Callable[[ModelPolicy], int],
        span_ms: int,
        capacity: int,
    ) -> None:
        self._policy = policy
        self._span_ms = span_ms
        self._capacity = capacity
        cells: defaultdict[tuple[Bucket, str], list[Sampled]] = defaultdict(list)
        for known in predictions:
            event = known.event
            start_ms = event.time_ms - event.time_ms % width_ms(policy(event.model))
            cells[Bucket(event.model, start_ms), event.version].append(sampled(known, known.y))
        self._cells = cells
        self.candidates = {}
        for (bucket, version), items in cells.items():
            even = math.ceil(capacity * width_ms(policy(bucket.model)) / span_ms)
            waiting = min(2 * capacity, max(4 * even, math.ceil(capacity / 4)))
            self.candidates[bucket, version] = _kept(items, waiting)

    def closed(self, is_open: Callable[[Bucket], bool]) -> dict[tuple[str, str, int], NaiveClosed]:
        """(model, version, start of the span) -> sample, of the buckets that are dropped."""
        labelled: defaultdict[tuple[str, str, int], Counter[int]] = defaultdict(Counter)
        offered: defaultdict[tuple[str, str, int], list[Sampled]] = defaultdict(list)
        for (bucket, version), items in self._cells.items():
            if is_open(bucket):
                continue
            candidates = {item.id_hash for item in self.candidates[bucket, version]}
            for item in items:
                known = item
                if item.outcome < 0:
                    if not self._policy(bucket.model).implied_negative or len(item.prediction) > 1:
                        continue
                    known = item._replace(outcome=0)
                span = (bucket.model, version, item.time_ms - item.time_ms % self._span_ms)
                labelled[span][item.confidence] += 1
                if item.id_hash in candidates:
                    offered[span].append(known)
        return {
            span: NaiveClosed(dict(counts), _kept(offered[span], self._capacity)) for span, counts in labelled.items()
        }


def naive_closed(sample: ClosedSample) -> NaiveClosed:
    """Convert a closed sample, for comparison."""
    events = [
        Sampled(
            row["id_high"] << 64 | row["id_low"],
            row["time_ms"],
            row["confidence"],
            tuple(row["prediction"]),
            row["outcome"],
            _pairs(row["segments"]),
            tuple(row["features"] or ()),
        )
        for row in sample.table.to_pylist()
    ]
    return NaiveClosed(dict(sample.labelled), events)


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in json.loads(text))


def _kept(items: Iterable[Sampled], capacity: int) -> list[Sampled]:
    return keep(items, capacity, lambda item: item.confidence, lambda item: (item.id_hash, item.time_ms))
