"""The join as obvious loops over dictionaries: the oracle for what the kernels do."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import xxhash

from monitor.events.model import Kind, ModelPolicy, SeriesKey, Stratum


@dataclass(frozen=True)
class NaiveEvent:
    """An event with its names spelt out."""

    kind: Kind
    model: str
    id: str
    time_ms: int
    p: float = float("nan")
    y: int = -1
    version: str = "1"
    segments: tuple[tuple[str, str], ...] = ()
    vector: tuple[float, ...] = ()
    """The probabilities of a prediction over several classes, which then is none of ``p``."""
    features: tuple[float, ...] = ()


def id_digest(model: str, identifier: str) -> bytes:
    """The 128-bit hash of (model, id), big-endian: equal ids of two models have different hashes."""
    return xxhash.xxh3_128_digest(identifier.encode(), seed=xxhash.xxh3_64_intdigest(model.encode()))


def normalised(vector: Sequence[float]) -> list[float]:
    """Probabilities divided by their sum, to 12 digits, where that is not 1 but for rounding."""
    total = math.fsum(vector)
    if abs(total - 1.0) <= 1e-6:
        return list(vector)
    return [min(p / round(total, 12), 1.0) for p in vector]


def binary_views(event: NaiveEvent, y: int, classes: Sequence[str]) -> list[tuple[SeriesKey, float, int]]:
    """What a prediction counts as: its series, and in each the probability and the outcome (-1 for none)."""
    stratum = Stratum(event.model, event.version, event.segments)
    if not event.vector:
        return [(series, event.p, y) for series in stratum.series()]
    vector = normalised(event.vector)
    top = vector.index(max(vector))
    views = [(series, vector[top], int(y == top) if y >= 0 else -1) for series in stratum.series()]
    for k, name in enumerate(classes):
        series = SeriesKey(event.model, event.version, f"class={name}")
        views.append((series, vector[k], int(y == k) if y >= 0 else -1))
    return views


@dataclass
class Prediction:
    """What is known of one prediction."""

    event: NaiveEvent
    y: int
    outcome_ms: int


@dataclass
class NaiveJoin:
    """Keeps every prediction for ever; says what became of each event."""

    policy: ModelPolicy
    predictions: dict[tuple[str, str], Prediction] = field(default_factory=dict)
    waiting: dict[tuple[str, str], list[NaiveEvent]] = field(default_factory=lambda: defaultdict(list))
    newest: dict[tuple[str, str], int] = field(default_factory=dict)
    fates: Counter[tuple[str, str]] = field(default_factory=Counter)

    def read(self, event: NaiveEvent) -> None:
        """Take up one event."""
        key = (event.model, event.id)
        type_ = event.kind.name.lower()
        if event.kind is Kind.OUTCOME:
            late = self._late(event, "outcome", self.policy.lateness_ms)
            if late:
                self.fates[type_, "late"] += 1
            elif key in self.predictions:
                self.fates[type_, self._settle(self.predictions[key], event)] += 1
            else:
                self.waiting[key].append(event)
            return
        late = self._late(event, "prediction", self.policy.retention_ms)
        if event.kind is Kind.LABELLED:
            self._late(event, "outcome", 0)
        if late:
            self.fates[type_, "late"] += 1
        elif key not in self.predictions:
            self.predictions[key] = Prediction(event, event.y, event.time_ms)
            self.fates[type_, "accepted"] += 1
            for early in self.waiting.pop(key, []):
                self.fates["outcome", self._settle(self.predictions[key], early)] += 1
        elif event.kind is Kind.PREDICTION:
            self.fates[type_, "duplicate"] += 1
        else:
            self.fates[type_, self._settle(self.predictions[key], event)] += 1

    def counts(self) -> dict[tuple[str, str], int]:
        """Every fate that was met; outcomes that still wait are early."""
        result = dict(self.fates)
        early = sum(len(events) for events in self.waiting.values())
        if early:
            result["outcome", "early"] = early
        return result

    def _late(self, event: NaiveEvent, log: str, allowed_ms: int) -> bool:
        newest = self.newest.get((event.model, log))
        self.newest[event.model, log] = max(event.time_ms, newest if newest is not None else event.time_ms)
        return newest is not None and event.time_ms < newest - allowed_ms

    def _settle(self, known: Prediction, event: NaiveEvent) -> str:
        predicted_ms = known.event.time_ms
        if event.time_ms > predicted_ms + self.policy.horizon_ms:
            return "after_horizon"
        if event.time_ms < predicted_ms - self.policy.lateness_ms:
            return "before_prediction"
        if known.y == -1:
            known.y, known.outcome_ms = event.y, event.time_ms
            return "joined"
        if event.y == known.y:
            known.outcome_ms = max(known.outcome_ms, event.time_ms)
            return "duplicate"
        if event.time_ms < known.outcome_ms:
            return "superseded"
        known.y, known.outcome_ms = event.y, event.time_ms
        return "corrected"
