"""Events a second of the streaming job, on two cores, beside those of `monitor serve` on the same log.

The time is that from the first batch that is saved to the last one, so starting Spark is not in it. With
``SPARK_STREAM_EVENTS`` another number of events than 400,000.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.store.sql import SqlStore
from tests.cli.kafka_service import Served, topics, write_settings
from tests.patience import eventually
from tests.real.kafka import KafkaBroker
from tests.real.mixed_log import MixedLog
from tests.real.produce import produce
from tests.spark.stream_job import StreamJob

pytestmark = [pytest.mark.benchmark, pytest.mark.kafka, pytest.mark.timeout(3600)]

EVENTS = int(os.environ.get("SPARK_STREAM_EVENTS", "400_000"))
PARTITIONS = 4
BATCHES = 4


def test_rate(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    log = MixedLog(EVENTS, PARTITIONS, settled=True)
    suffix = f"rate-{tmp_path.name}"
    for topic in topics(suffix):
        kafka_broker.create_topic(topic, PARTITIONS)
    produce(kafka_broker.bootstrap, log.lines, suffix)
    write_settings(tmp_path / "by-spark", kafka_broker, suffix, ["evaluate", "serve"])
    write_settings(tmp_path / "by-service", kafka_broker, suffix, ["consume"])
    job = StreamJob(tmp_path / "by-spark", EVENTS // BATCHES)
    with job.running():
        by_spark = rate(tmp_path / "by-spark", len(log.lines), job.tail)
    with Served(tmp_path / "by-service") as served:
        by_service = rate(tmp_path / "by-service", len(log.lines), served.output.read_text)
    print(f"\n{len(log.lines):,} events, {PARTITIONS} partitions, two cores")
    print(f"  streaming job of Spark, local[2]   {by_spark:10,.0f} events/s")
    print(f"  monitor serve, roles: [consume]    {by_service:10,.0f} events/s")
    print(f"  ratio                              {by_service / by_spark:10.1f}")


def rate(folder: Path, events: int, shown: Callable[[], str]) -> float:
    """Events a second between the first save that is seen and the last one."""
    with SqlStore.open(f"sqlite:///{folder}/state.db") as store:

        def saved() -> int:
            return sum(store.saved_offsets().values())

        first = eventually(saved, shown=shown, pause_seconds=0.01)
        began = time.monotonic()
        eventually(lambda: saved() >= events, shown=shown, pause_seconds=0.01)
        return (events - first) / (time.monotonic() - began)
