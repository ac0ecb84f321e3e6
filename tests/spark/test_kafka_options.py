"""The settings of a connection, as Java's Kafka client takes them; tests/spark/test_stream.py connects with some."""

from pathlib import Path

import pytest
import trustme

from monitor.errors import SettingsError
from monitor.sources.kafka_connection import KafkaConnection
from monitor.spark.kafka import kafka_options


def test_certificates_are_passed_by_value(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    client = authority.issue_cert("client")
    client.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "client.pem"))
    connection = KafkaConnection(
        ("kafka-1:9093", "kafka-2:9093"),
        security_protocol="SSL",
        ssl_cafile=str(tmp_path / "ca.pem"),
        ssl_certfile=str(tmp_path / "client.pem"),
        ssl_check_hostname=False,
    )
    options = kafka_options(connection)
    pem = (tmp_path / "client.pem").read_text()
    assert options["kafka.bootstrap.servers"] == "kafka-1:9093,kafka-2:9093"
    assert options["kafka.ssl.truststore.certificates"] == (tmp_path / "ca.pem").read_text()
    assert options["kafka.ssl.keystore.certificate.chain"] == options["kafka.ssl.keystore.key"] == pem
    assert options["kafka.ssl.endpoint.identification.algorithm"] == ""
    assert options["kafka.isolation.level"] == "read_committed"
    assert "kafka.sasl.mechanism" not in options


def test_a_password_is_quoted() -> None:
    connection = KafkaConnection(
        ("kafka:9092",),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="reader",
        sasl_plain_password='a"b\\c',
    )
    jaas = kafka_options(connection)["kafka.sasl.jaas.config"]
    assert jaas.endswith(r'PlainLoginModule required username="reader" password="a\"b\\c";')


def test_a_log_in_by_ticket_is_refused() -> None:
    connection = KafkaConnection(("kafka:9092",), security_protocol="SASL_SSL", sasl_mechanism="GSSAPI")
    with pytest.raises(SettingsError, match=r"sasl_mechanism must be one of PLAIN, .* got GSSAPI"):
        kafka_options(connection)
