"""Topics of a real Kafka that change: partitions are added, a topic is deleted and made anew."""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from kafka.errors import TopicAlreadyExistsError

from monitor.clock import SystemClock
from monitor.errors import OffsetPurged
from monitor.events.codec import Decoder
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.log import LogStart, Topics
from monitor.events.model import Kind, ModelPolicy
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection
from monitor.store.sql import SqlStore
from monitor.stream.partition import PartitionSettings
from monitor.stream.pipeline import DeadLetterSettings, Pipeline, PipelineSettings
from monitor.windows.panes import ClosedPanes, read_closings
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.kafka import KafkaBroker
from tests.stream import support

pytestmark = pytest.mark.kafka

MINUTE_MS = 60_000
START_MS = support.START_MS - support.START_MS % MINUTE_MS
POLICY = ModelPolicy(horizon_ms=60 * MINUTE_MS, lateness_ms=10 * MINUTE_MS)
KEPT_MS = {MINUTE_MS: 400 * 86_400_000}
MODEL = "m"


class Running:
    """A service that reads two topics of its own into a store; what its readers make of it."""

    def __init__(self, folder: Path, broker: KafkaBroker, *, partitions: int) -> None:
        self.broker = broker
        self.predictions, self.outcomes = (f"{name}-{uuid4().hex[:8]}" for name in ("predictions", "outcomes"))
        self.kinds: dict[str, Kind | None] = {self.predictions: Kind.PREDICTION, self.outcomes: Kind.OUTCOME}
        self._group = f"group-{uuid4().hex[:8]}"
        self._folder = folder
        for topic in self.kinds:
            broker.create_topic(topic, partitions)
        self.store = SqlStore.open(f"sqlite:///{folder}/state.db", clock=SystemClock())
        self.panes = ClosedPanes(KEPT_MS, lambda _: POLICY)
        self.start()

    def start(self, log_start: LogStart | None = None) -> None:
        connection = KafkaConnection([self.broker.bootstrap], connect_seconds=PATIENCE_SECONDS)
        self.source = KafkaSource(
            connection, Topics(self.kinds), group_id=self._group, log_start=log_start, clock=SystemClock()
        )
        self.pipeline = Pipeline(
            self.source,
            self.store,
            Decoder(),
            partitions=PartitionSettings(policy=lambda _: POLICY, kept_ms=KEPT_MS),
            settings=PipelineSettings(checkpoint_interval=timedelta(seconds=0.1)),
            dead_letters=DeadLetterSettings(),
            kinds=self.kinds,
            clock=SystemClock(),
        )

    def stop(self) -> None:
        self.pipeline.stop()
        self.pipeline.run()

    def write(self, partition: int, minutes: Iterable[int], *, name: str = "", answered: int | None = None) -> None:
        """A prediction in each of these minutes; its outcome a moment later, in another partition if it says so."""
        times = [(f"{name}{partition}-{at}", START_MS + at * MINUTE_MS) for at in minutes]
        predictions = [encode_prediction(MODEL, id_, at, 0.5) for id_, at in times]
        outcomes = [encode_outcome(MODEL, id_, at + 1, 1) for id_, at in times]
        self.broker.produce(self.predictions, predictions, partition=partition)
        self.broker.produce(self.outcomes, outcomes, partition=partition if answered is None else answered)

    def count(self, type_: str, *results: str) -> int:
        return sum(self.pipeline.status.counters[type_, result] for result in results)

    def until(self, look: Callable[[], bool]) -> None:
        """Go on reading until something holds of what is saved."""

        def stepped() -> bool:
            self.pipeline.step()
            read_closings(self.store, self.panes)
            return look()

        shown = lambda: (self.pipeline.status, self.edge(), self.panes.held_back_by(MODEL))  # noqa: E731
        eventually(stepped, shown=shown, pause_seconds=0)

    def until_settled(self, minute: int) -> None:
        self.until(lambda: self.edge() >= minute)

    def edge(self) -> int:
        """The settled edge, in minutes after START_MS."""
        return (self.panes.edge_ms(MODEL) - START_MS) // MINUTE_MS

    def settled(self) -> dict[int, tuple[int, int]]:
        """Minute -> predictions and outcomes, of all that is settled."""
        (series,) = self.panes.series()
        counts = self.panes.counts(series, MINUTE_MS, 0, self.panes.edge_ms(MODEL))
        return {(one.start_ms - START_MS) // MINUTE_MS: (one.predictions, one.labelled) for one in counts}

    def again(self) -> dict[int, tuple[int, int]]:
        """The same, as a replica sums it that starts now."""
        self.panes = ClosedPanes(KEPT_MS, lambda _: POLICY)
        read_closings(self.store, self.panes)
        return self.settled()


@pytest.fixture
def running(tmp_path: Path, kafka_broker: KafkaBroker) -> Iterator[Running]:
    made = Running(tmp_path, kafka_broker, partitions=2)
    yield made
    made.stop()
    made.store.close()


def test_what_is_in_partitions_that_are_added_counts_unless_windows_have_passed_it(running: Running) -> None:
    """And outcomes whose predictions are in an old partition are orphans."""
    for number in range(2):
        running.write(number, range(300))
    running.until_settled(299 - 70)
    before = running.edge()
    with running.broker.admin() as admin:
        admin.create_partitions(dict.fromkeys(running.kinds, 4))
    # A minute that is settled, and one that is not, which come with partitions that had not been read before.
    running.write(2, [before - 1, before], name="first")
    # Outcomes that go to another partition than their predictions did.
    running.write(0, [300, 301], name="moved", answered=3)

    def are_noticed() -> bool:
        # The client asks by itself every five minutes.
        running.source._joined()._cluster.request_update()
        return running.pipeline.status.partitions == {0, 1, 2, 3}

    running.until(are_noticed)
    for number in range(4):
        running.write(number, range(302, 500))
    running.until_settled(499 - 70)
    assert running.count("prediction", "accepted") == 600 + 1 + 2 + 4 * 198
    assert running.count("prediction", "late") == 1
    expected = dict.fromkeys(range(300), (2, 2))
    expected[before] = 3, 3
    expected |= dict.fromkeys((300, 301), (1, 0))
    expected |= dict.fromkeys(range(302, 429), (4, 4))
    assert running.settled() == expected
    assert running.again() == expected
    assert running.count("outcome", "orphan") == 3


def _make_anew(running: Running, topic: str, partitions: int = 2) -> None:
    with running.broker.admin() as admin:
        admin.delete_topics([topic])

    def make() -> bool:
        try:
            running.broker.create_topic(topic, partitions)
        except TopicAlreadyExistsError:  # Its deletion is still under way.
            return False
        return True

    eventually(make)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_topic_that_is_made_anew_stops_the_service_or_begins_anew_and_nothing_counts_twice(
    running: Running, stopped: bool
) -> None:
    """Also where the new topic holds more than was read of the earlier one, so that its offsets would seem right."""
    for number in range(2):
        running.write(number, range(300))
    running.until_settled(299 - 70)
    before = running.settled()
    if stopped:
        running.stop()
    for topic in running.kinds:
        _make_anew(running, topic)
    # What was settled, what was read and is not settled, and what is new.
    if stopped:
        for number in range(2):
            running.write(number, range(150, 700))
        running.start()
    with pytest.raises(OffsetPurged, match="made anew"):
        running.until(lambda: False)
    if not stopped:
        for number in range(2):
            running.write(number, range(150, 700))
    assert running.settled() == before
    running.source.close()
    running.start(LogStart(when_purged="earliest"))
    running.until_settled(699 - 70)
    expected = dict.fromkeys(range(629), (2, 2))
    assert running.settled() == expected
    assert running.again() == expected
    assert running.count("prediction", "accepted") == 2 * 700
    assert running.count("prediction", "late") == 2 * (229 - 150)
    assert running.count("prediction", "duplicate") == 2 * (300 - 229)
