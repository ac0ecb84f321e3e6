"""Brokers that are down, come late, go and come back, or refuse us."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.errors import SettingsError, SourceError, SourceMisconfigured, SourceUnavailable
from monitor.events.log import Source, Topics
from monitor.events.model import Message, TopicPartition
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection
from monitor.sources.kafka_writer import KafkaWriter
from tests.long import short_of
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.kafka import PASSWORD, USERNAME, KafkaProcess, Protocol
from tests.real.vanishing import broker_vanishes, collected
from tests.sources.logs import KafkaUnderTest, Reading, count, one_by_one, read, run_all, unavailable, when_available

pytestmark = pytest.mark.kafka


@pytest.fixture
def failing(own_broker: KafkaProcess) -> Iterator[KafkaUnderTest]:
    with collected():
        log = KafkaUnderTest(own_broker)
        yield log
        log.close()


def _connection(address: str, **options: Any) -> KafkaConnection:
    # What answers, or refuses, does so at once: nobody waits that long, unless the machine does.
    return KafkaConnection([address], connect_seconds=PATIENCE_SECONDS, **options)


def _source(connection: KafkaConnection, topic: str = "t") -> KafkaSource:
    return KafkaSource(connection, Topics({topic: None}), group_id="g", clock=SystemClock())


def test_a_broker_that_is_down_is_unavailable_at_once() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # It does not listen, and nobody else can.
        port = nobody.getsockname()[1]
        # Who waited for a broker would wait for a day.
        connection = KafkaConnection([f"127.0.0.1:{port}"], connect_seconds=86_400)
        source, writer = _source(connection), KafkaWriter(connection)
        for _ in range(2):
            with pytest.raises(SourceUnavailable, match=rf"cannot connect to Kafka at 127\.0\.0\.1:{port}: .*refused"):
                source.poll(0.1, 10)
        with pytest.raises(SourceUnavailable, match="cannot connect"):
            writer.write([Message("t", b"x")])
        source.close()
        writer.close()


def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(SourceUnavailable, match=r"cannot connect to Kafka at no-such-host\.invalid:9092"):
        _source(_connection("no-such-host.invalid")).poll(0.1, 10)


@broker_vanishes
def test_a_broker_that_comes_late(own_broker: KafkaProcess) -> None:
    connection = _connection(own_broker.bootstrap)
    own_broker.stop()
    with collected():
        source = KafkaSource(connection, Topics({"late": None}), group_id="g", clock=SystemClock())
        try:
            with pytest.raises(SourceUnavailable):
                source.poll(0.1, 10)
        finally:
            own_broker.start()
        unavailable(lambda: source.poll(0.1, 10), "waiting for topics that do not exist yet: late")
        own_broker.create_topic("late", 2)
        own_broker.produce("late", [b"a", b"b"], partition=1)
        assert run_all(source) == {0, 1}
        assert read(source, count(2)).values("late", 1) == [b"a", b"b"]
        source.close()


@broker_vanishes
@pytest.mark.parametrize("how", short_of(["kill", "stop"], 1))
def test_a_broker_that_goes_and_comes_back(failing: KafkaUnderTest, own_broker: KafkaProcess, how: str) -> None:
    topic = failing.topic()
    # One that never gives up writes what is compared; of one that does, nobody knows whether it wrote.
    writer, impatient = failing.writer(), failing.writer(connect_seconds=0.5, request_seconds=2)
    one_by_one(writer, topic, [b"%d" % n for n in range(10)])
    when_available(lambda: impatient.write([Message(topic, b"before", partition=2)]))
    source = failing.source(topic)
    run_all(source)
    reading = read(source, lambda reading: len(reading.records[topic, 0]) == 10)
    getattr(own_broker, how)()
    unavailable(lambda: source.poll(0.2, 1_000), r"no broker of Kafka at .* is connected")
    unavailable(lambda: impatient.write([Message(topic, b"lost", partition=1)]), r"did not take 1 messages")
    own_broker.start()
    when_available(lambda: impatient.write([Message(topic, b"after", partition=2)]))
    one_by_one(writer, topic, [b"%d" % n for n in range(10, 20)])
    when_available(lambda: _read_to(source, topic, 20, reading))
    assert reading.values(topic, 0) == [b"%d" % n for n in range(20)]
    assert [record.offset for record in reading.records[topic, 0]] == list(range(20))
    source.commit({TopicPartition(topic, 0): 20})


def _read_to(source: Source, topic: str, records: int, reading: Reading) -> None:
    read(source, lambda reading: len(reading.records[topic, 0]) >= records, reading=reading)


@pytest.mark.long
@broker_vanishes
def test_after_a_long_silence_the_brokers_are_looked_for_anew(
    failing: KafkaUnderTest, own_broker: KafkaProcess
) -> None:
    topic = failing.topic()
    one_by_one(failing.writer(), topic, [b"a", b"b"])
    clock = ManualClock()
    # So long the broker, once it is back, waits for the member that it remembers.
    source = failing.source(topic, session_timeout_seconds=12, clock=clock)
    run_all(source)
    read(source, count(2))
    consumer = source._consumer
    own_broker.stop()

    def a_moment_later() -> None:
        clock.advance(0.5)
        source.poll(0, 1_000)

    unavailable(a_moment_later, r"no broker of Kafka at .* is connected")
    assert source._consumer is consumer
    clock.advance(12)
    unavailable(a_moment_later, r"no broker of Kafka at .* is connected")
    assert source._consumer is None
    # The group went on without us, and that is the first thing it says.
    assert source.poll(0.1, 10).revoked == {0, 1, 2}
    own_broker.start()
    reading = Reading()

    def look() -> set[int]:
        when_available(lambda: reading.assigned.update(source.poll(0, 10).assigned))
        return reading.assigned

    eventually(look)
    source.start(0, {topic: 1})
    assert read(source, count(1)).values(topic, 0) == [b"b"]


LOG_IN = {"sasl_plain_username": USERNAME, "sasl_plain_password": PASSWORD}


@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        ("SASL_PLAINTEXT", {"sasl_mechanism": "PLAIN", **LOG_IN}),
        ("SASL_PLAINTEXT", {"sasl_mechanism": "SCRAM-SHA-256", **LOG_IN}),
        ("SSL", {}),
        ("SASL_SSL", {"sasl_mechanism": "PLAIN", **LOG_IN}),
        ("SASL_SSL", {"sasl_mechanism": "SCRAM-SHA-256", **LOG_IN}),
    ],
)
def test_encrypted_and_authenticated(kafka: KafkaUnderTest, protocol: Protocol, options: dict[str, Any]) -> None:
    topic = kafka.topic()
    if "SSL" in protocol:
        options = {**options, "ssl_cafile": str(kafka.broker.ca_file)}
    connection = _connection(kafka.broker.address(protocol), security_protocol=protocol, **options)
    writer = KafkaWriter(connection)
    writer.write([Message(topic, b"a", partition=0)])
    source = KafkaSource(connection, Topics({topic: None}), group_id=kafka.group_id, clock=SystemClock())
    run_all(source)
    assert read(source, count(1)).values(topic, 0) == [b"a"]
    source.close()
    writer.close()


@pytest.mark.parametrize(
    ("protocol", "options", "expected"),
    [
        (
            "SASL_PLAINTEXT",
            {"sasl_mechanism": "PLAIN", "sasl_plain_username": USERNAME, "sasl_plain_password": "wrong-one"},
            "refuses the log-in by PLAIN: .*Invalid username or password; check sasl_plain_username",
        ),
        (
            "SASL_PLAINTEXT",
            {"sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": USERNAME, "sasl_plain_password": "wrong-one"},
            "refuses the log-in by SCRAM-SHA-256: .*invalid credentials",
        ),
        (
            "SASL_PLAINTEXT",
            {"sasl_mechanism": "SCRAM-SHA-512", **LOG_IN},
            "does not offer sasl_mechanism SCRAM-SHA-512; it offers PLAIN, SCRAM-SHA-256",
        ),
        (
            "SSL",
            {"ssl_cafile": None},
            "certificate of Kafka at .* is not trusted: .*ssl_cafile must hold the authority",
        ),
        (
            "SASL_SSL",
            {"security_protocol": "SSL"},
            "wants a log-in .it offers PLAIN, SCRAM-SHA-256.; set security_prot",
        ),
        (
            "SSL",
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", **LOG_IN},
            "takes no log-in; set security",
        ),
        ("SSL", {"security_protocol": "PLAINTEXT"}, "hangs up at the first request; security_protocol must be"),
        ("PLAINTEXT", {"security_protocol": "SSL"}, "no TLS with Kafka at .*does security_protocol fit the listener"),
    ],
    ids=["PLAIN", "SCRAM", "mechanism", "certificate", "no log-in", "needless log-in", "no TLS", "needless TLS"],
)
def test_a_refusal_says_what_to_mend(
    kafka: KafkaUnderTest, protocol: Protocol, options: dict[str, Any], expected: str
) -> None:
    settings = {"security_protocol": protocol, "ssl_cafile": str(kafka.broker.ca_file), **options}
    connection = _connection(kafka.broker.address(protocol), **settings)
    refused: list[SourceError] = []
    for attempt in (
        lambda: _source(connection).poll(0.1, 1),
        lambda: KafkaWriter(connection).write([Message("t", b"x")]),
    ):
        with pytest.raises(SourceMisconfigured, match=expected) as raised:
            attempt()
        refused.append(raised.value)
    assert "wrong-one" not in f"{refused} {connection}"
    assert PASSWORD not in f"{refused} {connection}"


def test_certificates_are_looked_at_when_they_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"ssl_cafile must name a PEM file, got .*missing"):
        KafkaConnection(["localhost:9092"], security_protocol="SSL", ssl_cafile=str(tmp_path / "missing.pem"))
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")
    with pytest.raises(SettingsError, match="must be readable PEM that fits together"):
        KafkaConnection(["localhost:9092"], security_protocol="SSL", ssl_cafile=str(nonsense))
