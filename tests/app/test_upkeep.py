"""What no replica reads is seen, by any of them."""

import threading
from pathlib import Path

import pytest
import structlog

from monitor.app.settings import Settings
from monitor.app.upkeep import Backlog, Periodic
from monitor.clock import ManualClock, SystemClock
from monitor.events.model import Message, TopicPartition
from monitor.sources.embedded_log import EmbeddedLog
from monitor.store.base import Checkpoint
from monitor.store.sql import SqlStore
from monitor.stream.status import Unread
from tests.patience import PATIENCE_SECONDS
from tests.real.kafka import KafkaBroker


@pytest.mark.kafka
def test_the_ends_of_all_partitions_are_compared_with_what_is_saved(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka_broker.create_topic("backlog", 3)
    for number, count in enumerate((5, 4, 9)):
        kafka_broker.produce(topic, [b"x"] * count, partition=number)
    kafka_broker.delete_records(topic, {2: 7})
    tree = {
        "kind": "kafka",
        "topics": {"events": topic},
        "kafka": {"bootstrap_servers": [kafka_broker.bootstrap], "connect_timeout": "60s"},
    }
    settings = Settings.model_validate({"source": tree})
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        for number, offset in ((0, 5), (2, 6)):
            store.save([Checkpoint(number, store.claim(number), {topic: offset}, [])])
        backlog = Backlog(settings, store, ManualClock())
        assert backlog.unread == {}
        backlog.measure()
        assert backlog.unread == {
            TopicPartition(topic, 0): Unread(0, 5),
            TopicPartition(topic, 1): Unread(4, 0),  # no replica has ever saved anything of it
            TopicPartition(topic, 2): Unread(2, 6),  # one record was purged unread
        }


def test_while_the_log_does_not_answer_nothing_is_known(tmp_path: Path) -> None:
    tree = {"kind": "kafka", "topics": {"events": "e"}, "kafka": {"bootstrap_servers": ["127.0.0.1:9"]}}
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        backlog = Backlog(Settings.model_validate({"source": tree}), store, ManualClock())
        backlog.unread = {TopicPartition("e", 0): Unread(0, 1)}
        backlog.measure()
        assert backlog.unread == {}


def test_an_embedded_log_is_looked_at_again_where_it_grew(tmp_path: Path) -> None:
    tree = {"topics": {"events": "e"}, "embedded": {"directory": str(tmp_path / "log"), "partitions": 2}}
    log = EmbeddedLog(tmp_path / "log", partitions=2, clock=SystemClock())
    log.create_topic("e")
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        backlog = Backlog(Settings.model_validate({"source": tree}), store, ManualClock())
        for read in (0, 3):
            log.write([Message("e", b"x", partition=1)] * 3)
            backlog.measure()
            assert backlog.unread == {
                TopicPartition("e", 0): Unread(0, 0),
                TopicPartition("e", 1): Unread(3, read),
            }
            store.save([Checkpoint(1, store.claim(1), {"e": 3}, [])])
    log.close()


def test_a_periodic_task_that_fails_is_logged_and_run_again() -> None:
    runs: list[int] = []
    again = threading.Event()

    def task() -> None:
        runs.append(len(runs))
        if len(runs) > 1:
            again.set()
        raise ZeroDivisionError("a fault")

    periodic = Periodic("test", 0.001, task)
    with structlog.testing.capture_logs() as lines:
        periodic.start()
        assert again.wait(PATIENCE_SECONDS)
        periodic.stop(PATIENCE_SECONDS)
    count = len(runs)
    assert {(line["event"], line["task"]) for line in lines} == {("a periodic task failed", "test")}
    assert len(runs) == count


def test_a_periodic_task_that_was_never_started_can_be_stopped() -> None:
    Periodic("test", 1.0, lambda: None).stop(0.0)
