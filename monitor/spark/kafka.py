"""Topics of Kafka as a streaming DataFrame, by the settings that the service reads them with."""

from collections.abc import Collection
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from monitor.errors import SettingsError
from monitor.sources.base import LogStart
from monitor.sources.kafka_connection import KafkaConnection

_LOG_INS: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def read_topics(
    spark: SparkSession,
    connection: KafkaConnection,
    topics: Collection[str],
    start: LogStart,
    max_records: int,
) -> DataFrame:
    """Read topics from the offsets of the query's checkpoint folder on.

    Parameters
    ----------
    start
        Where to begin without a checkpoint folder; and what to do about records that the broker has removed: Spark
        either goes on with those that are there, or the query fails.
    max_records
        How many records a batch reads at most, of all topics.

    Raises
    ------
    SettingsError
        The log-in is of another kind than PLAIN and SCRAM.
    """
    reader = spark.readStream.format("kafka").options(**kafka_options(connection))
    return (
        reader.option("subscribe", ",".join(topics))
        .option("startingOffsets", start.when_new)
        .option("failOnDataLoss", str(start.when_purged == "stop").lower())
        .option("maxOffsetsPerTrigger", max_records)
        .option("includeHeaders", "true")
        .load()
    )


def kafka_options(connection: KafkaConnection) -> dict[str, str]:
    """The options of Spark's Kafka source. Certificates are passed on by value: executors need no files."""
    options = {
        "bootstrap.servers": connection.servers,
        "security.protocol": connection.security_protocol,
        "isolation.level": "read_committed",
        "request.timeout.ms": str(round(connection.request_seconds * 1000)),
    }
    if connection.ssl_cafile is not None:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _text(connection.ssl_cafile)}
    if connection.ssl_certfile is not None:
        chain = _text(connection.ssl_certfile)
        key = chain if connection.ssl_keyfile is None else _text(connection.ssl_keyfile)
        options |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
        if connection.ssl_password is not None:
            options["ssl.key.password"] = connection.ssl_password
    if not connection.ssl_check_hostname:
        options["ssl.endpoint.identification.algorithm"] = ""
    if connection.security_protocol.startswith("SASL"):
        mechanism = connection.sasl_mechanism or "PLAIN"
        if mechanism not in _LOG_INS:
            raise SettingsError(
                f"source.kafka.sasl_mechanism must be one of {', '.join(_LOG_INS)} for Spark, got {mechanism}"
            )
        name, password = (
            _quoted(text or "") for text in (connection.sasl_plain_username, connection.sasl_plain_password)
        )
        options["sasl.mechanism"] = mechanism
        options["sasl.jaas.config"] = f"{_LOG_INS[mechanism]} required username={name} password={password};"
    return {f"kafka.{name}": value for name, value in options.items()}


def _text(path: str) -> str:
    return Path(path).read_text(encoding="ascii")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
