"""A log of mixed events as production has them, and what it comes to by obvious loops.

Duplicates, early and late outcomes, corrections, contradictions, events out of order, orphans and garbage, in two
topics of several partitions. The expectation is computed by :class:`tests.reference.naive_join.NaiveJoin`, event by
event, from the same log.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from monitor.events.model import Kind, ModelPolicy, SeriesKey
from monitor.scores import ClassTable, GridTable
from monitor.scores.sketch import SkceSketch, SketchPlan
from tests.reference.naive_join import NaiveEvent, NaiveJoin, binary_views, normalised
from tests.reference.naive_sample import NaiveSamples

PREDICTIONS: Final = "predictions"
OUTCOMES: Final = "outcomes"
POLICY: Final = ModelPolicy(horizon_ms=1_200_000, lateness_ms=300_000, segments=("region",))
SLIDE_MS: Final = 60_000
START_MS: Final = 1_760_000_000_000
SPAN_MS: Final = 7_200_000
MODELS: Final = ("churn", "fraud", "credit")
OF_CLASSES: Final = "triage"
"""A model that tells classes apart; in a log that asks for it."""
CLASSES: Final = ("green", "yellow", "orange", "red", "none")
PLAN: Final = SketchPlan(len(CLASSES), 16)
"""Of the sketches of its whole vectors."""
REGIONS: Final = ("eu", "us")
_FEATURES: Final[tuple[tuple[float, ...], ...]] = (
    *((at / 8, -at / 4, 1.5, at / 1024) for at in range(1, 11)),
    (),
    (0.1, 7.0),
)
"""In turn: most predictions have four, some none or too few."""
SAMPLE_SPAN_MS: Final = 600_000
SAMPLE_CAPACITY: Final = 40
"""Labelled events a span; fewer than a bucket of the journal has."""
GARBAGE: Final = (b"not json", b'{"type": "prediction"}', b'{"p": 7}', b"\xff\xfe", b"[]", b"")

PaneId = tuple[int, SeriesKey]


def policy_of(model: str) -> ModelPolicy:
    """The policy of a model."""
    if model == OF_CLASSES:
        return replace(POLICY, classes=CLASSES, sketch_features=PLAN.features)
    return POLICY


@dataclass(frozen=True)
class LogLine:
    """One message, and the event that it is; None if it is garbage."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    event: NaiveEvent | None


@dataclass(eq=False)
class MixedLog:
    """The log, in the order in which it is written.

    Parameters
    ----------
    size
        About how many messages.
    partitions
        How many partitions each topic has.
    seed
        Of everything random.
    models
        Whose events it holds.
    features
        Whether most predictions have features.
    settled
        Whether it ends with events by which all others are settled, in every partition.
    """

    size: int
    partitions: int = 4
    seed: int = 1
    models: tuple[str, ...] = MODELS
    features: bool = False
    settled: bool = False
    lines: list[LogLine] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        predictions = self.size // 2
        written: list[tuple[float, LogLine]] = []
        made_ms = START_MS + np.arange(predictions) * SPAN_MS // predictions
        p = rng.beta(0.6, 0.8, predictions)
        y = (rng.random(predictions) < p).astype(int)
        delay = rng.exponential(200_000, predictions)
        draws = rng.random((predictions, 6))
        disorder = rng.exponential(3_000, (predictions, 2))
        models = rng.integers(0, len(self.models), predictions)
        regions = rng.integers(0, len(REGIONS) + 1, predictions)
        vectors = rng.dirichlet(np.ones(len(CLASSES)), predictions if OF_CLASSES in self.models else 0)
        versions = 1 + (np.arange(predictions) > predictions // 2)
        for at in range(predictions):
            model, identifier = self.models[models[at]], f"{self.seed:x}-{at:x}"
            vector: tuple[float, ...] = ()
            truth, mistake = int(y[at]), 1 - int(y[at])
            if model == OF_CLASSES:
                # As printed: they add up to 1 only nearly.
                vector = tuple(round(float(share), 4) for share in vectors[at])
                truth, mistake = at % len(CLASSES), at // 7 % len(CLASSES)
            time_ms = int(made_ms[at])
            region = REGIONS[regions[at]] if regions[at] < len(REGIONS) else None
            event = NaiveEvent(
                Kind.PREDICTION,
                model,
                identifier,
                time_ms,
                round(float(p[at]), 6),
                version=str(versions[at]),
                segments=() if region is None else (("region", region),),
                vector=vector,
                features=_FEATURES[at % len(_FEATURES)] if self.features else (),
            )
            line = self._line(event)
            lost, twice, outcomes, corrected, held_up, garbage = draws[at].tolist()
            arrives = time_ms + float(disorder[at, 0]) + (2e7 * held_up if held_up < 0.05 else 0)
            if lost > 0.01:
                written.append((arrives, line))
            if twice < 0.05:
                written.append((arrives + 2e7 * twice, line))
            if outcomes < 0.9:
                known_ms = time_ms + int(delay[at])
                outcome = self._line(NaiveEvent(Kind.OUTCOME, model, identifier, known_ms, y=truth))
                arrives_then = known_ms + float(disorder[at, 1])
                written.append((arrives_then, outcome))
                if corrected < 0.08:
                    right = mistake if vector else int(corrected < 0.05)
                    later = NaiveEvent(Kind.OUTCOME, model, identifier, known_ms + 60_000, y=right)
                    written.append((known_ms + 60_000, self._line(later)))
                elif corrected < 0.11:
                    written.append((arrives_then + 5_000, outcome))
                elif corrected < 0.12:
                    older = NaiveEvent(Kind.OUTCOME, model, identifier, known_ms - 10_000, y=mistake)
                    written.append((arrives_then + 5_000, self._line(older)))
            if garbage < 0.01:
                bad = GARBAGE[at % len(GARBAGE)]
                topic = (PREDICTIONS, OUTCOMES)[at % 2]
                written.append((arrives, LogLine(topic, at % self.partitions, line.key, bad, None)))
        written.sort(key=lambda pair: pair[0])
        self.lines = [line for _, line in written]
        if self.settled:
            self.lines += self._last_lines()

    def _last_lines(self) -> Iterator[LogLine]:
        """Predictions and outcomes of every model: so many that every partition has some, wherever ids hash to."""
        time_ms = START_MS + SPAN_MS + POLICY.retention_ms
        for model in self.models:
            for number in range(12 * self.partitions):
                identifier = f"last-{number}"
                prediction = NaiveEvent(Kind.PREDICTION, model, identifier, time_ms, 0.5, version="2")
                yield self._line(prediction)
                yield self._line(NaiveEvent(Kind.OUTCOME, model, identifier, time_ms, y=1))

    def _line(self, event: NaiveEvent) -> LogLine:
        partition = hash_of(event.id) % self.partitions
        head = f'{{"model":"{event.model}","id":"{event.id}","ts":{event.time_ms}'
        if event.kind is Kind.OUTCOME:
            return LogLine(OUTCOMES, partition, event.id.encode(), f'{head},"y":{event.y}}}'.encode(), event)
        segments = "".join(f',"segments":{{"{key}":"{value}"}}' for key, value in event.segments)
        features = f',"features":{list(event.features)}' if event.features else ""
        body = f'{head},"p":{list(event.vector) or event.p!r},"version":"{event.version}"{segments}{features}}}'
        return LogLine(PREDICTIONS, partition, event.id.encode(), body.encode(), event)

    @cached_property
    def joins(self) -> list[NaiveJoin]:
        """What is known of every prediction in the end, by partition."""
        joins = [NaiveJoin(POLICY) for _ in range(self.partitions)]
        for line in self.lines:
            if line.event is not None:
                joins[line.partition].read(line.event)
        return joins

    @cached_property
    def samples(self) -> list[NaiveSamples]:
        """The samples of each partition."""
        return [
            NaiveSamples(join.predictions.values(), policy_of, _width_ms, SAMPLE_SPAN_MS, SAMPLE_CAPACITY)
            for join in self.joins
        ]

    @cached_property
    def expected(self) -> "Expected":
        """What the log comes to."""
        joins = self.joins
        counted = Counter({("unknown", "dead_letter"): sum(line.event is None for line in self.lines)})
        partitions: list[dict[PaneId, GridTable]] = []
        panes: dict[PaneId, GridTable] = {}
        for join in joins:
            counted.update(join.counts())
            grouped: defaultdict[PaneId, tuple[list[float], list[int]]] = defaultdict(lambda: ([], []))
            for known in join.predictions.values():
                event = known.event
                start = event.time_ms - event.time_ms % SLIDE_MS
                for series, score, label in binary_views(event, known.y, CLASSES):
                    scores, labels = grouped[start, series]
                    scores.append(score)
                    labels.append(label)
            of_partition = {key: GridTable.from_events(scores, labels) for key, (scores, labels) in grouped.items()}
            partitions.append(of_partition)
            for key, table in of_partition.items():
                panes[key] = panes[key] + table if key in panes else table
        return Expected(dict(+counted), panes, partitions, sum(len(join.predictions) for join in joins))

    def sketches(self, slide_ms: int, partition: int | None = None) -> dict[PaneId, SkceSketch]:
        """The sketch of every pane of that width that has answered predictions over several classes."""
        grouped: defaultdict[PaneId, list[tuple[list[float], int]]] = defaultdict(list)
        for join in self.joins if partition is None else [self.joins[partition]]:
            for known in join.predictions.values():
                event = known.event
                if event.vector and known.y >= 0:
                    series = SeriesKey(event.model, event.version, "all")
                    start = event.time_ms - event.time_ms % slide_ms
                    grouped[start, series].append((normalised(event.vector), known.y))
        return {
            key: SkceSketch.of(
                ClassTable(np.array([vector for vector, _ in events]), np.array([y for _, y in events], np.int64)), PLAN
            )
            for key, events in grouped.items()
        }


def _width_ms(policy: ModelPolicy) -> int:
    return policy.retention_ms // 24


@dataclass(frozen=True)
class Expected:
    """What a log comes to: the result of every event, every pane, and how many predictions were accepted."""

    counters: dict[tuple[str, str], int]
    panes: dict[PaneId, GridTable]
    partitions: list[dict[PaneId, GridTable]]
    """The panes of each partition."""
    predictions: int


def unjoined_as_one(counters: Mapping[tuple[str, str], int]) -> Counter[tuple[str, str]]:
    """The counts, with the outcomes that have no prediction (any more) under one name.

    Which name they have depends on when the last bucket was dropped: waiting or orphaned; and, for one that comes long
    after its horizon, whether its prediction was still there to tell so.
    """
    merged = Counter(counters)
    for fate in ("orphan", "after_horizon"):
        merged["outcome", "early"] += merged.pop(("outcome", fate), 0)
    return +merged


def hash_of(text: str) -> int:
    """A small hash that does not change from run to run."""
    value = 0
    for byte in text.encode():
        value = (value * 31 + byte) & 0xFFFFFFFF
    return value
