"""What a call of a scorer costs, beside what scorers do without a client: a producer's send, a line of a log."""

import gc
import logging
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from monitor.events.encode import encode_prediction
from monitor.logging import File, Kafka, PredictionLogger
from tests.patience import PATIENCE_SECONDS
from tests.real.child import free_ports
from tests.real.kafka import KafkaBroker

pytestmark = pytest.mark.benchmark

BURSTS = 300
CALLS = 100
PAUSE_SECONDS = 0.002


def nothing() -> None: ...


def microseconds(call: Callable[[], object]) -> list[float]:
    """The time of each call, in bursts with pauses as between requests."""
    times = []
    for _ in range(BURSTS):
        for _ in range(CALLS):
            began = time.perf_counter()
            call()
            times.append((time.perf_counter() - began) * 1e6)
        time.sleep(PAUSE_SECONDS)
    return times


def encoded() -> tuple[bytes, bytes]:
    identifier = uuid.uuid4().hex
    return encode_prediction("churn", identifier, time.time_ns() // 1_000_000, 0.83, version="7"), identifier.encode()


def test_a_call_beside_a_producer_and_a_log(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka_broker.create_topic("logging-benchmark", 4)
    settings = {"bootstrap.servers": kafka_broker.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 200_000}
    confluent = Producer(settings)
    python = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, linger_ms=20)
    line = logging.getLogger("benchmark")
    line.propagate = False
    line.setLevel(logging.INFO)
    line.addHandler(logging.FileHandler(tmp_path / "log"))

    def send_confluent() -> None:
        value, key = encoded()
        confluent.produce(topic, value, key)

    def send_python() -> None:
        value, key = encoded()
        python.send(topic, value, key)

    to_kafka = PredictionLogger("churn", "7", to=Kafka(kafka_broker.bootstrap, topic))
    to_file = PredictionLogger("churn", "7", to=File(tmp_path / "events.jsonl"))
    features = np.arange(10.0)
    region = {"region": "eu"}
    calls: dict[str, Callable[[], object]] = {
        "nothing (the noise of the machine)": nothing,
        "log(p), to Kafka": lambda: to_kafka.log(0.83),
        "log(p), to a file": lambda: to_file.log(0.83),
        "log(p, features, segments), to a file": lambda: to_file.log(0.83, features=features, segments=region),
        "encode, confluent_kafka.Producer.produce": send_confluent,
        "encode, kafka.KafkaProducer.send": send_python,
        "logging.FileHandler, a line of JSON": lambda: line.info(encoded()[0].decode()),
    }
    send_python()
    confluent.flush(PATIENCE_SECONDS)
    to_kafka.log(0.5)
    assert to_kafka.flush(PATIENCE_SECONDS)

    rows = {name: np.sort(microseconds(call)) for name, call in calls.items()}
    base = float(np.median(rows["log(p), to Kafka"]))
    print(f"\n{'microseconds a call':45} {'median':>8} {'mean':>8} {'99.9%':>8} {'largest':>9} {'ratio':>6}")
    for name, times in rows.items():
        high = times[int(0.999 * len(times))]
        median = float(np.median(times))
        print(f"{name:45} {median:8.2f} {times.mean():8.2f} {high:8.1f} {times[-1]:9.1f} {median / base:6.1f}")

    to_many = PredictionLogger("churn", "7", to=File(tmp_path / "many.jsonl"), max_events=1_000_000)
    began = time.perf_counter()
    to_many.log_many(np.full(100_000, 0.83))
    print(f"log_many: {(time.perf_counter() - began) * 10:.2f} microseconds a prediction")
    for logger in (to_kafka, to_file, to_many):
        assert logger.flush(PATIENCE_SECONDS)
        logger.close()
        assert logger.stats().dropped == {}
    confluent.flush(PATIENCE_SECONDS)
    python.close()


def test_the_waits_of_a_scorer_while_the_broker_is_away() -> None:
    """100,000 calls a second in bursts of a millisecond, for LOGGING_OUTAGE_SECONDS; beside them as many of nothing.

    What the garbage collector took is measured by its own callbacks: it runs in the thread that allocates. A call that
    took long without using the processor waited for one, or for the interpreter's lock.
    """
    seconds = float(os.environ.get("LOGGING_OUTAGE_SECONDS", "10"))
    (port,) = free_ports(1)
    predictions = PredictionLogger("churn", "7", to=Kafka(f"127.0.0.1:{port}", "away"), exit_seconds=0.1)
    collections: list[float] = []
    began_collecting = 0.0

    def note(phase: str, _: object) -> None:
        nonlocal began_collecting
        if phase == "start":
            began_collecting = clock()
        else:
            collections.append((clock() - began_collecting) * 1e6)

    clock = time.perf_counter
    waits: list[float] = []
    used: list[float] = []
    noise: list[float] = []
    gc.callbacks.append(note)
    end = clock() + seconds
    while (began := clock()) < end:
        for _ in range(100):
            processor = time.thread_time()
            before = clock()
            predictions.log(0.83)
            between = clock()
            used.append((time.thread_time() - processor) * 1e6)
            after = clock()
            nothing()
            noise.append((clock() - after) * 1e6)
            waits.append((between - before) * 1e6)
        time.sleep(max(0.0, began + 0.001 - clock()))
    gc.callbacks.remove(note)
    stats = predictions.stats()
    predictions.close()
    shares = (0.5, 0.99, 0.999, 0.9999, 1.0)
    print(f"\n{seconds:g} s without a broker, {len(waits):,} calls; {stats}")
    print(f"{'microseconds':24}" + "".join(f"{share:>11.2%}" for share in shares) + f"{'over 1 ms':>11}")
    for name, times in (
        ("log(p)", waits),
        ("its processor time", used),
        ("nothing", noise),
        ("garbage collections", collections),
    ):
        ordered = np.sort(times)
        row = "".join(f"{ordered[int(share * (len(ordered) - 1))]:11.1f}" for share in shares)
        print(f"{name:24}{row}{int((ordered > 1000).sum()):11}")
    assert stats.logged == len(waits)
    assert stats.delivered == 0
    assert set(stats.dropped) <= {"buffer_full"}
