"""A service that reads one partition of a topic of its own from a real broker, step by step."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import uuid4

import numpy as np

from monitor.clock import SystemClock
from monitor.events.codec import Decoder
from monitor.events.log import Topics
from monitor.events.model import Kind, ModelPolicy, SeriesKey
from monitor.scores import GridTable
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.pipeline import DeadLetterSettings, Pipeline, PipelineSettings
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.kafka import KafkaBroker
from tests.stream.support import tables_of

POLICY: Final = ModelPolicy(horizon_ms=3_600_000, lateness_ms=600_000)
PARTITIONS: Final = PartitionSettings(policy=lambda _: POLICY, kept_ms={3_600_000: 86_400_000})
MODEL: Final = "m"


class OneTopic:
    """A service that reads one partition in small polls, and may be started again from what it saved.

    Parameters
    ----------
    folder
        Where its store is.
    broker
        Where its topic, which it creates, is.
    ignore_tombstones
        Whether messages without a value are ignored.
    configs
        Of the topic.
    """

    def __init__(self, folder: Path, broker: KafkaBroker, *, ignore_tombstones: bool = False, **configs: str) -> None:
        self.broker, self.group = broker, f"group-{uuid4().hex[:8]}"
        self.topic = broker.create_topic(f"events-{uuid4().hex[:8]}", 1, **configs)
        self._decoder = Decoder(ignore_tombstones={self.topic} if ignore_tombstones else ())
        self.store = SqlStore.open(f"sqlite:///{folder}/state.db", clock=SystemClock())
        self.start()

    def start(self) -> None:
        """Start from what is saved; unsaved events of an earlier start are read again."""
        kinds: dict[str, Kind | None] = {self.topic: None}
        connection = KafkaConnection([self.broker.bootstrap], connect_seconds=PATIENCE_SECONDS)
        self.source = KafkaSource(connection, Topics(kinds), group_id=self.group, clock=SystemClock())
        self.pipeline = Pipeline(
            self.source,
            self.store,
            self._decoder,
            partitions=PARTITIONS,
            settings=PipelineSettings(checkpoint_interval=timedelta(seconds=0.1), max_poll_records=11),
            dead_letters=DeadLetterSettings(),
            kinds=kinds,
            clock=SystemClock(),
        )

    @property
    def saved_offset(self) -> int:
        """Up to where the log is read and saved, after one more step."""
        self.pipeline.step()
        return self.store.saved_offsets().get((self.topic, 0), 0)

    def read_to(self, offset: int) -> None:
        """Go on until the log is read and saved up to there."""
        eventually(lambda: self.saved_offset == offset, shown=lambda: self.pipeline.status, pause_seconds=0)

    def restart(self) -> None:
        """End in the middle of whatever was not saved, and start again."""
        self.source.close()
        self.start()

    def close(self) -> None:
        """End for good."""
        self.source.close()
        self.store.close()

    def counted(self) -> dict[tuple[str, str], int]:
        """The saved results of events."""
        partition = Partition(0, 0, PARTITIONS, self.store.load(0))
        return {key: number for key, number in partition.event_counters().items() if number}

    def assert_holds(self, events: Sequence[tuple[float, int]]) -> None:
        """The saved predictions with their outcomes are exactly these."""
        partition = Partition(0, 0, PARTITIONS, self.store.load(0))
        scores, labels = np.array(events).T
        whole = SeriesKey(MODEL, "unversioned", "all")
        tables = [table for (_, series), table in tables_of(partition.unsettled(cells=True)).items() if series == whole]
        assert sum(tables, GridTable.zero()) == GridTable.from_events(scores, labels.astype(int))
