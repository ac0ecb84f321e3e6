"""Brokers that are down, come late, go and come back, or refuse us."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor.errors import SettingsError, SourceError, SourceMisconfigured, SourceUnavailable
from monitor.sources.base import Message, Source, TopicPartition, Topics
from monitor.sources.kafka import KafkaSource
from monitor.sources.kafka_connection import KafkaConnection
from monitor.sources.kafka_writer import KafkaWriter
from tests.real.child import free_ports
from tests.real.kafka import PASSWORD, USERNAME, KafkaBroker, Protocol
from tests.real.vanishing import broker_vanishes, collected
from tests.sources.logs import KafkaUnderTest, Reading, count, one_by_one, read, run_all

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that no other test minds being stopped."""
    with KafkaBroker(tmp_path_factory.mktemp("failing-kafka")) as broker:
        yield broker


@pytest.fixture
def failing(own_broker: KafkaBroker) -> Iterator[KafkaUnderTest]:
    with collected():
        log = KafkaUnderTest(own_broker)
        yield log
        log.close()


def _patiently(source: Source, until: int, reading: Reading) -> None:
    """Read on as the service does: what is unavailable is asked again."""
    deadline = time.monotonic() + 60
    while reading.count < until:
        assert time.monotonic() < deadline, reading
        try:
            read(source, count(until), reading=reading, patience_seconds=60)
        except SourceUnavailable:
            time.sleep(0.2)


def _when_available(write: Callable[[], None]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            return write()
        except SourceUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def _connection(address: str, **options: Any) -> KafkaConnection:
    return KafkaConnection([address], connect_seconds=1.5, **options)


def _source(connection: KafkaConnection, topic: str = "t") -> KafkaSource:
    return KafkaSource(connection, Topics({topic: None}), group_id="g")


def test_a_broker_that_is_down_is_unavailable_in_reasonable_time() -> None:
    (port,) = free_ports(1)
    source = _source(_connection(f"127.0.0.1:{port}"))
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(SourceUnavailable, match=rf"cannot connect to Kafka at 127\.0\.0\.1:{port}: .*refused"):
            source.poll(0.1, 10)
    assert time.monotonic() - began < 10
    writer = KafkaWriter(_connection(f"127.0.0.1:{port}"))
    with pytest.raises(SourceUnavailable, match="cannot connect"):
        writer.write([Message("t", b"x")])
    source.close()
    writer.close()


def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(SourceUnavailable, match=r"cannot connect to Kafka at no-such-host\.invalid:9092"):
        _source(_connection("no-such-host.invalid")).poll(0.1, 10)


@broker_vanishes
def test_a_broker_that_comes_late(tmp_path: Path) -> None:
    with collected():
        _comes_late(KafkaBroker(tmp_path))


def _comes_late(broker: KafkaBroker) -> None:
    source = KafkaSource(_connection(broker.bootstrap), Topics({"late": None}), group_id="g")
    with pytest.raises(SourceUnavailable):
        source.poll(0.1, 10)
    with broker:
        with pytest.raises(SourceUnavailable, match="waiting for topics that do not exist yet: late"):
            source.poll(0.1, 10)
        broker.create_topic("late", 2)
        broker.produce("late", [b"a", b"b"], partition=1)
        assert run_all(source) == {0, 1}
        assert read(source, count(2)).values("late", 1) == [b"a", b"b"]
        source.close()


@broker_vanishes
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_that_goes_and_comes_back(failing: KafkaUnderTest, how: str) -> None:
    topic = failing.topic()
    writer = failing.writer(connect_seconds=0.5, request_seconds=2)
    one_by_one(writer, topic, [b"%d" % n for n in range(10)])
    source = failing.source(topic)
    run_all(source)
    reading = read(source, count(10))
    getattr(failing.broker, how)()
    with pytest.raises(SourceUnavailable, match=r"no broker of Kafka at .* is connected"):
        read(source, lambda _: False, patience_seconds=30)
    with pytest.raises(SourceUnavailable, match=r"did not take 1 messages"):
        writer.write([Message(topic, b"lost", partition=1)])
    failing.broker.start()
    _when_available(lambda: one_by_one(writer, topic, [b"%d" % n for n in range(10, 20)]))
    _patiently(source, 20, reading)
    assert reading.values(topic, 0) == [b"%d" % n for n in range(20)]
    assert [record.offset for record in reading.records[topic, 0]] == list(range(20))
    source.commit({TopicPartition(topic, 0): 20})


@broker_vanishes
def test_after_a_long_silence_the_brokers_are_looked_for_anew(failing: KafkaUnderTest) -> None:
    topic = failing.topic()
    one_by_one(failing.writer(), topic, [b"a", b"b"])
    source = failing.source(topic, session_timeout_seconds=3)
    run_all(source)
    read(source, count(2))
    failing.broker.stop()
    deadline = time.monotonic() + 30
    while source._consumer is not None:
        assert time.monotonic() < deadline
        with pytest.raises(SourceUnavailable):
            read(source, lambda _: False, patience_seconds=30)
    # The group went on without us, and that is the first thing it says.
    assert source.poll(0.1, 10).revoked == {0, 1, 2}
    failing.broker.start()
    reading = Reading()
    while not reading.assigned:
        assert time.monotonic() < deadline + 30
        try:
            reading.assigned |= source.poll(0.5, 10).assigned
        except SourceUnavailable:
            time.sleep(0.2)
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
    connection = KafkaConnection([kafka.broker.address(protocol)], security_protocol=protocol, **options)
    writer = KafkaWriter(connection)
    writer.write([Message(topic, b"a", partition=0)])
    source = KafkaSource(connection, Topics({topic: None}), group_id=kafka.group_id)
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
