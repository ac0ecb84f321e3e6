"""A million records of a real broker, joined, accumulated and durable, in one process; and reports meanwhile."""

import gc
import json
import sqlite3
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from kafka import KafkaConsumer, TopicPartition

from monitor.app.service import tune_interpreter
from monitor.app.warmup import warm_up
from monitor.clock import SystemClock
from monitor.store.sql import SqlStore
from monitor.stream.pipeline import Pipeline
from tests.benchmarks.budgets import note
from tests.benchmarks.test_api_benchmark import RATE, latencies_of, shown
from tests.cli.kafka_service import Served, write_settings
from tests.patience import PATIENCE_SECONDS, eventually, joined
from tests.real.kafka import KafkaBroker
from tests.real.mixed_log import MixedLog
from tests.real.produce import produce
from tests.real.stream_worker import pipeline, topics

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

SUFFIX: Final = "speed"
RECORDS: Final = 1_000_000
NAIVE_RECORDS: Final = 100_000
POLL: Final = 20_000
CHECKPOINT_SECONDS: Final = 2.0
LOAD_SECONDS: Final = 2.0


@pytest.fixture(scope="module")
def records(kafka_broker: KafkaBroker) -> int:
    """The log is written; how many records it has."""
    log = MixedLog(RECORDS)
    for topic in topics(SUFFIX):
        kafka_broker.create_topic(topic, log.partitions)
    produce(kafka_broker.bootstrap, log.lines, SUFFIX)
    return len(log.lines)


@contextmanager
def tuned() -> Iterator[None]:
    """The interpreter as the service tunes it."""
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    tune_interpreter()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)


def pipeline_seconds(broker: KafkaBroker, records: int, folder: Path, group: str) -> float:
    """Processor time from the first partition to the last checkpoint."""
    with SqlStore.open(f"sqlite:///{folder / group}.db", clock=SystemClock()) as store:
        instance = pipeline(broker.bootstrap, group, store, topics(SUFFIX), CHECKPOINT_SECONDS)
        thread = threading.Thread(target=instance.run)
        thread.start()
        try:
            wait_until(instance, lambda: bool(instance.status.partitions))
            began = time.process_time()
            wait_until(instance, lambda: instance.status.records_read >= records)
        finally:
            instance.stop()
            joined(thread)
        seconds = time.process_time() - began
        assert sum(instance.status.counters.values()) == records
        return seconds


def wait_until(instance: Pipeline, holds: Any) -> None:
    def look() -> bool:
        assert instance.failure is None, instance.failure
        return bool(holds())

    eventually(look, shown=lambda: instance.status, pause_seconds=0.005)


@contextmanager
def plain_consumer(broker: KafkaBroker) -> Iterator[KafkaConsumer]:
    """kafka-python by itself, from the beginning of both topics."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, fetch_max_wait_ms=100)
    try:
        parts = [TopicPartition(topic, number) for topic in topics(SUFFIX) for number in range(4)]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        yield consumer
    finally:
        consumer.close()


def poll_seconds(broker: KafkaBroker, records: int) -> float:
    """What kafka-python takes to hand over the records, and nothing else."""
    with plain_consumer(broker) as consumer:
        began, count = time.process_time(), 0
        while count < records:
            count += sum(map(len, consumer.poll(timeout_ms=1000, max_records=POLL).values()))
        return time.process_time() - began


def naive_seconds(broker: KafkaBroker, records: int, folder: Path) -> float:
    """The peer: json, a dictionary, a row an event, a commit every two seconds."""
    database = sqlite3.connect(folder / "naive.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute(
        "CREATE TABLE events (model TEXT, id TEXT, ts INTEGER, p REAL, y INTEGER, PRIMARY KEY (model, id))"
    )
    known: dict[tuple[str, str], dict[str, Any]] = {}
    count = 0
    with plain_consumer(broker) as consumer:
        began, saved = time.process_time(), time.perf_counter()
        database.execute("BEGIN")
        while count < records:
            for fetched in consumer.poll(timeout_ms=1000, max_records=POLL).values():
                count += len(fetched)
                for record in fetched:
                    try:
                        event = json.loads(record.value)
                        key = event["model"], event["id"]
                    except (ValueError, TypeError, KeyError):
                        continue
                    entry = known.setdefault(key, {})
                    entry |= event
                    database.execute(
                        "INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?, ?)",
                        (*key, event["ts"], entry.get("p"), entry.get("y")),
                    )
            if time.perf_counter() - saved > CHECKPOINT_SECONDS:
                database.execute("COMMIT")
                database.execute("BEGIN")
                saved = time.perf_counter()
        database.execute("COMMIT")
        seconds = time.process_time() - began
    database.close()
    return seconds * records / count


def test_records_a_second_to_joined_accumulated_and_durable(
    kafka_broker: KafkaBroker, records: int, tmp_path: Path
) -> None:
    warm_up()
    naive = NAIVE_RECORDS / naive_seconds(kafka_broker, NAIVE_RECORDS, tmp_path)
    plain = records / poll_seconds(kafka_broker, records)
    untuned = records / pipeline_seconds(kafka_broker, records, tmp_path, "untuned")
    with tuned():
        ours = records / pipeline_seconds(kafka_broker, records, tmp_path, "tuned")
    print(f"\n{records:,} records, joined, accumulated and durable: {ours:,.0f} records per processor second")
    note("one series", f"{ours:,.0f} per processor second")
    print(f"without the interpreter's tuning: {untuned:,.0f} records/s ({ours / untuned:.2f} times as fast with it)")
    print(f"kafka-python's poll by itself: {plain:,.0f} records/s; the whole pipeline runs at {ours / plain:.2f} of it")
    print(f"json, a dictionary and a row an event: {naive:,.0f} records/s ({ours / naive:.1f} times as fast)")
    assert ours > naive


def test_reports_at_200_a_second_while_a_backlog_is_read(
    kafka_broker: KafkaBroker, records: int, tmp_path: Path
) -> None:
    write_settings(
        tmp_path, kafka_broker, SUFFIX, source={"kafka": {"group_id": "asked"}}, evaluation={"interval": "1s"},
        pipeline={"checkpoint_interval": "2s"},
    )  # fmt: skip
    path = "/v1/models/churn/report"
    with Served(tmp_path) as served:
        # One that the latest evaluation does not have is computed for each request.
        served.eventually(lambda: any(report["model"] == "churn" for report in served.reports()))
        before, began = read(served), time.perf_counter()
        latencies = latencies_of(int(served.url.rpartition(":")[2]), [path], RATE, LOAD_SECONDS)
        after, seconds = read(served), time.perf_counter() - began
    print(f"\n{RATE} reports a second while a backlog is read at {(after - before) / seconds:,.0f} records/s:")
    print(shown(latencies))
    note("reports", f"p99 {np.quantile(latencies, 0.99):.1f} ms at {RATE}/s")
    assert after < records, "the backlog ended before the requests did"


def read(served: Served) -> float:
    with urllib.request.urlopen(f"{served.url}/metrics", timeout=PATIENCE_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("calibration_records_read_total "))
