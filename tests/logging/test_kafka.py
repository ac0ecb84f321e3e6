"""A scorer's events through a real broker, by each of the two clients: once, in order, in the right partition."""

import json
import signal
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from kafka import KafkaConsumer, TopicPartition

from monitor.events.partitions import partitions_of
from monitor.logging import Kafka, PredictionLogger
from monitor.logging import kafka as logging_kafka
from tests.long import longer
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.kafka import KafkaBroker, KafkaProcess

PARTITIONS = 4
OUTAGE_SECONDS = longer(4.0, 60.0)
"""How long the broker is away."""
CALLS_PER_SECOND = longer(10_000, 100_000)

pytestmark = pytest.mark.kafka

CLIENTS = ["confluent_kafka", "kafka_python"]


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each client: confluent-kafka is used where it is installed."""
    name = str(request.param)
    monkeypatch.setattr(logging_kafka, "find_spec", lambda _: name == "confluent_kafka" or None)
    return name


@pytest.fixture
def topics(kafka_broker: KafkaBroker) -> tuple[str, str]:
    suffix = uuid.uuid4().hex[:8]
    predictions, outcomes = (kafka_broker.create_topic(f"{name}-{suffix}", PARTITIONS) for name in ("p", "o"))
    return predictions, outcomes


def records(broker: KafkaBroker, topic: str) -> list[tuple[int, str, dict[str, Any]]]:
    """Partition, key and event of all messages, each partition in its order."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", max_poll_records=50_000)
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    read: list[tuple[int, str, dict[str, Any]]] = []
    while any(consumer.position(partition) < end for partition, end in ends.items()):
        for partition, batch in consumer.poll(1000).items():
            read += [(partition.partition, record.key.decode(), json.loads(record.value)) for record in batch]
    consumer.close(autocommit=False)
    return read


def test_a_prediction_and_its_outcome_are_where_kafkas_own_clients_put_them(
    kafka_broker: KafkaBroker, topics: tuple[str, str], client: str
) -> None:
    with PredictionLogger("churn", "7", to=Kafka(kafka_broker.bootstrap, *topics)) as predictions:
        ids = [predictions.log(0.5) for _ in range(500)] + predictions.log_many(np.full(500, 0.25), ids=range(500))
        for identifier in ids:
            predictions.outcome(identifier, 1)
        assert predictions.flush(PATIENCE_SECONDS)
    expected = dict(zip(ids, partitions_of([identifier.encode() for identifier in ids], PARTITIONS), strict=True))
    for topic, kind in zip(topics, ("prediction", "outcome"), strict=True):
        read = records(kafka_broker, topic)
        assert {key: partition for partition, key, _ in read} == expected
        assert len(read) == 1_000
        assert all(event["id"] == key and event["type"] == kind for _, key, event in read)
    assert predictions.stats().delivered == 2_000


def test_a_topic_that_does_not_exist_yet_is_waited_for(
    kafka_broker: KafkaBroker, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = f"later-{uuid.uuid4().hex[:8]}"
    to = Kafka(kafka_broker.bootstrap, topic, connect_seconds=1.0)
    with PredictionLogger("churn", to=to, exit_seconds=PATIENCE_SECONDS) as predictions:
        identifier = predictions.log(0.5)
        predictions.outcome(identifier, 0)
        eventually(lambda: "events cannot be sent" in caplog.text or "has not acknowledged" in caplog.text)
        kafka_broker.create_topic(topic, PARTITIONS)
        assert predictions.flush(PATIENCE_SECONDS)
    read = records(kafka_broker, topic)
    assert [(key, event["type"]) for _, key, event in read] == [(identifier, "prediction"), (identifier, "outcome")]


def test_an_event_that_the_topic_does_not_take_is_counted_and_the_rest_arrives(
    kafka_broker: KafkaBroker, client: str
) -> None:
    topic = kafka_broker.create_topic(f"small-{uuid.uuid4().hex[:8]}", PARTITIONS, max_message_bytes="2000")
    with PredictionLogger("churn", to=Kafka(kafka_broker.bootstrap, topic)) as predictions:
        before = predictions.log_many(np.full(20, 0.5))
        predictions.log(0.5, id="long", features=np.random.default_rng(1).random(1_000))
        after = predictions.log_many(np.full(20, 0.5))
        assert predictions.flush(PATIENCE_SECONDS)
    assert sorted(key for _, key, _ in records(kafka_broker, topic)) == sorted(before + after)
    assert predictions.stats().dropped == {"rejected": 1}


def test_a_log_in_that_is_refused_is_said_at_once(
    kafka_broker: KafkaBroker, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    to = Kafka(
        kafka_broker.address("SASL_SSL"), "any",
        security_protocol="SASL_SSL", ssl_cafile=str(kafka_broker.ca_file),
        sasl_mechanism="PLAIN", sasl_plain_username="reader", sasl_plain_password="wrong",
    )  # fmt: skip
    predictions = PredictionLogger("churn", to=to)
    predictions.log(0.5)
    eventually(lambda: "check sasl_plain_username" in caplog.text)
    predictions.close(0.1)
    assert predictions.stats().dropped == {"unsent": 1}


def test_it_logs_in_over_tls(kafka_broker: KafkaBroker, topics: tuple[str, str], client: str) -> None:
    to = Kafka(
        kafka_broker.address("SASL_SSL"), *topics,
        security_protocol="SASL_SSL", ssl_cafile=str(kafka_broker.ca_file),
        sasl_mechanism="SCRAM-SHA-256", sasl_plain_username="reader", sasl_plain_password="reader-secret",
    )  # fmt: skip
    with PredictionLogger("churn", to=to) as predictions:
        predictions.log(0.5)
        assert predictions.flush(PATIENCE_SECONDS)


FORK = """
import os, sys
from monitor.logging import Kafka, PredictionLogger
from monitor.logging import kafka

if sys.argv[1] == "kafka_python":
    kafka.find_spec = lambda _: None
predictions = PredictionLogger("churn", to=Kafka(sys.argv[2], sys.argv[3]))
for number in range(1000):
    predictions.log(0.5, id=f"before-{number}")
if len(sys.argv) > 4:
    assert predictions.flush(60)
pid = os.fork()
name = "parent" if pid else "child"
for number in range(1000):
    predictions.log(0.5, id=f"{name}-{number}")
assert predictions.flush(60)
if pid:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, status
"""


@pytest.mark.parametrize("connected", [[], ["connected"]])
def test_a_fork_has_a_connection_of_its_own_and_both_end(
    kafka_broker: KafkaBroker, topics: tuple[str, str], client: str, connected: list[str]
) -> None:
    subprocess.run(
        [sys.executable, "-c", FORK, client, kafka_broker.bootstrap, topics[0], *connected],
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    names = [key for _, key, _ in records(kafka_broker, topics[0])]
    assert sorted(names) == sorted(f"{name}-{n}" for name in ("before", "child", "parent") for n in range(1_000))


@pytest.mark.longer
def test_a_broker_that_is_away_holds_no_call_and_what_is_not_dropped_arrives_once(
    own_broker: KafkaProcess, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Calls in bursts of a millisecond, before, during and after the outage; 100,000 a second in the long form.

    The waits are printed. Asserted is what a busy machine does not change: no call waits for the broker.
    """
    topic = own_broker.create_topic(f"outage-{client}", PARTITIONS)
    predictions = PredictionLogger("churn", to=Kafka(own_broker.bootstrap, topic), max_events=CALLS_PER_SECOND // 2)
    waits: list[float] = []
    noise: list[float] = []
    """What the machine makes of nothing at all."""
    accepted_by_id: list[str] = []

    def score(seconds: float) -> None:
        clock = time.perf_counter
        end = clock() + seconds
        burst = CALLS_PER_SECOND // 1000
        while (began := clock()) < end:
            for _ in range(burst):
                before = clock()
                accepted_by_id.append(predictions.log(0.5))
                between = clock()
                waits.append(between - before)
                noise.append(clock() - between)
            time.sleep(max(0.0, began + 0.001 - clock()))

    accepted_by_id.append(predictions.log(0.5))
    assert predictions.flush(PATIENCE_SECONDS)
    score(1.0)
    own_broker.kill()
    score(OUTAGE_SECONDS)
    during = predictions.stats()
    own_broker.start()
    score(1.0)
    assert predictions.flush(PATIENCE_SECONDS)
    stats = predictions.stats()
    predictions.close()

    waits_sorted = np.sort(waits) * 1e6
    at = {share: waits_sorted[int(share * (len(waits) - 1))] for share in (0.5, 0.99, 0.999, 1.0)}
    print(f"\n{client}: {len(waits):,} calls, {OUTAGE_SECONDS:g} s without a broker; a call took, in microseconds:")
    print(", ".join(f"{share:.1%}: {value:,.1f}" for share, value in at.items()))
    largest = max(noise) * 1e6
    print(f"{(waits_sorted > 1000).sum()} calls took more than a millisecond; {stats}")
    print(f"of as many calls of nothing, {(np.array(noise) > 1e-3).sum()} did; the longest took {largest:,.1f}")

    # An outage does not flood the scorer's log.
    ours = [record for record in caplog.records if record.name.startswith("monitor.")]
    assert len(ours) <= 4 * (1 + (OUTAGE_SECONDS + 60) / 60)
    assert during.dropped.get("buffer_full", 0) > 0
    assert waits_sorted[-1] < OUTAGE_SECONDS * 1e6 / 2
    assert waits_sorted[len(waits) // 2] < 100
    assert set(stats.dropped) == {"buffer_full"}
    assert stats.pending == 0
    assert stats.logged == len(accepted_by_id)
    delivered: defaultdict[str, int] = defaultdict(int)
    for _, key, _ in records(own_broker, topic):
        delivered[key] += 1
    assert set(delivered.values()) == {1}
    assert len(delivered) == stats.delivered == stats.logged - stats.dropped["buffer_full"]
    assert delivered.keys() <= set(accepted_by_id)


TERMINATED = """
import signal, sys
from monitor.logging import Kafka, PredictionLogger
from monitor.logging import kafka

if sys.argv[1] == "kafka_python":
    kafka.find_spec = lambda _: None
predictions = PredictionLogger("churn", to=Kafka(sys.argv[2], sys.argv[3]), exit_seconds=60)
for number in range(1000):
    predictions.log(0.5, id=f"event-{number}")
print("ready", flush=True)
while True:
    signal.pause()
"""


def test_sigterm_without_a_handler_loses_nothing(
    kafka_broker: KafkaBroker, topics: tuple[str, str], client: str
) -> None:
    """The scorer has not even connected when it comes."""
    command = [sys.executable, "-c", TERMINATED, client, kafka_broker.bootstrap, topics[0]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == -signal.SIGTERM
    assert sorted(key for _, key, _ in records(kafka_broker, topics[0])) == sorted(f"event-{n}" for n in range(1_000))
