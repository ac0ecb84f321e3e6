"""A partition whose schema cannot be had waits, says so, and loses nothing; the others are read meanwhile."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.errors import SchemaUnavailable
from monitor.events.codec import Decoder
from monitor.events.encode import encode_outcome
from monitor.events.formats.avro import make_format
from monitor.events.log import Topics
from monitor.events.model import Kind, Message, ModelPolicy, Reason
from monitor.events.schemas import Framed, Schema, SchemaId
from monitor.sources.embedded import EmbeddedSource
from monitor.sources.embedded_log import EmbeddedLog
from monitor.store.sql import SqlStore
from monitor.stream.partition import PartitionSettings
from monitor.stream.pipeline import DeadLetterSettings, Pipeline, PipelineSettings
from monitor.stream.status import Phase
from tests import patience
from tests.events.test_avro import encode, framed, record
from tests.patience import eventually

POLICY = ModelPolicy(horizon_ms=60_000, lateness_ms=60_000)
START_MS = 1_760_000_000_000
KINDS = {"scores": Kind.PREDICTION, "outcomes": Kind.OUTCOME}
SCHEMA = record(type=None, y=None, version=None, segments=None, features=None)


class Registry:
    """A registry that knows id 1, and is away or back as the test says."""

    def __init__(self) -> None:
        self.away = threading.Event()
        self.asked = 0

    def schema(self, identifier: SchemaId) -> Schema | None:
        self.asked += 1
        if self.away.is_set():
            raise SchemaUnavailable("the registry is away")
        return Schema("AVRO", json.dumps(SCHEMA)) if identifier == 1 else None


class Bench:
    """A log with Avro predictions and JSON outcomes in two partitions, a store, and pipelines between them."""

    def __init__(self, folder: Path) -> None:
        self.log = EmbeddedLog(folder / "log", partitions=2, clock=SystemClock())
        self.store = SqlStore.open(f"sqlite:///{folder / 'state.db'}", patience_seconds=0.2, clock=SystemClock())

    def pipeline(self, registry: Registry) -> Pipeline:
        return Pipeline(
            EmbeddedSource(self.log, Topics(KINDS)),
            self.store,
            Decoder(formats={"scores": make_format(Framed(registry))}),
            partitions=PartitionSettings(policy=lambda _: POLICY, kept_ms={1_000: 3_600_000}),
            settings=PipelineSettings(checkpoint_interval=timedelta(seconds=0.05)),
            dead_letters=DeadLetterSettings(),
            kinds=KINDS,
            poll_seconds=0.02,
            clock=SystemClock(),
        )

    def predict(self, first: int, count: int, partition: int, schema_id: int = 1) -> None:
        events = [
            {"model": "m", "id": str(number), "ts": START_MS + number, "p": 0.5}
            for number in range(first, first + count)
        ]
        self.log.write(
            [Message("scores", framed(encode(SCHEMA, event), schema_id), partition=partition) for event in events]
        )

    def answer(self, first: int, count: int, partition: int) -> None:
        outcomes = [
            encode_outcome("m", str(number), START_MS + number + 5, number % 2)
            for number in range(first, first + count)
        ]
        self.log.write([Message("outcomes", value, partition=partition) for value in outcomes])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.log.close()
    made.store.close()


@contextmanager
def running(pipeline: Pipeline) -> Iterator[Pipeline]:
    thread = threading.Thread(target=pipeline.run)
    thread.start()
    try:
        yield pipeline
    finally:
        pipeline.stop()
        patience.joined(thread)


def joined(pipeline: Pipeline) -> int:
    return pipeline.status.counters.get(("outcome", "joined"), 0)


def test_it_waits_for_the_registry_and_then_counts_each_event_once(bench: Bench) -> None:
    registry = Registry()
    registry.away.set()
    bench.predict(0, 100, partition=0)
    bench.answer(0, 100, partition=0)
    bench.answer(200, 50, partition=1)
    with running(bench.pipeline(registry)) as pipeline:
        eventually(lambda: pipeline.status.phase is Phase.SCHEMA_UNAVAILABLE)
        assert pipeline.status.detail == "scores partition 0 waits: the registry is away"
        assert not pipeline.status.ready
        # More comes, of the waiting topic and of another partition.
        bench.predict(100, 100, partition=0)
        eventually(lambda: pipeline.status.early_outcomes >= 50)
        asked = registry.asked
        eventually(lambda: registry.asked > asked + 2)
        assert pipeline.status.counters.get(("prediction", "accepted"), 0) == 0
        assert pipeline.status.dead_letters == {}
        registry.away.clear()
        eventually(lambda: pipeline.status.ready and joined(pipeline) == 100)
        bench.answer(100, 100, partition=0)
        eventually(lambda: joined(pipeline) == 200)
        assert pipeline.status.counters["prediction", "accepted"] == 200
        assert pipeline.status.dead_letters == {}


def test_what_waits_when_it_stops_is_read_at_the_next_start(bench: Bench) -> None:
    registry = Registry()
    bench.predict(0, 50, partition=0)
    with running(bench.pipeline(registry)) as first:
        eventually(lambda: first.status.counters.get(("prediction", "accepted")) == 50)
        registry.away.set()
        bench.predict(50, 50, partition=0, schema_id=2)
        bench.predict(100, 50, partition=0)
        eventually(lambda: first.status.phase is Phase.SCHEMA_UNAVAILABLE)
    registry.away.clear()
    with running(bench.pipeline(registry)) as second:
        eventually(lambda: second.status.counters.get(("prediction", "accepted")) == 100)
        assert second.status.dead_letters == {Reason.UNKNOWN_SCHEMA: 50}
        assert second.status.ready
