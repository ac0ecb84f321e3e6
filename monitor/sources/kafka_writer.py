"""Messages to Kafka, each durable on every in-sync replica before `write` returns."""

import threading
from collections.abc import Sequence
from typing import Any, Final

import structlog
from kafka import KafkaProducer
from kafka import errors as kafka_errors

from monitor.errors import SourceMisconfigured, SourceUnavailable
from monitor.events.model import Message
from monitor.events.partitions import choose_partitions
from monitor.sources.kafka_connection import REFUSALS, KafkaConnection
from monitor.sources.kafka_extensions import NULL

_LARGEST_REQUEST: Final = 64 << 20
"""The topic's own limit (max.message.bytes) decides; a dead letter is as long as what it holds."""

_GIVING_UP_SECONDS: Final = 5.0

_TOO_LARGE: Final = (kafka_errors.MessageSizeTooLargeError, kafka_errors.RecordListTooLargeError)

_log = structlog.get_logger(__name__)


class KafkaWriter:
    """Writes to topics that exist. May be called from any thread.

    Writing is idempotent: kafka-python's own retries double nothing.

    Parameters
    ----------
    connection
        How the brokers are reached. Nothing is connected before the first write.
    """

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._delivery_seconds = connection.request_seconds + connection.connect_seconds
        self._producer: KafkaProducer | None = None
        self._lock = threading.Lock()

    def write(self, messages: Sequence[Message]) -> None:
        """Write the messages; they are durable when this returns.

        A message with neither key nor value gets an empty key, since kafka-python sends none without both.

        Raises
        ------
        SourceUnavailable
            The brokers did not accept them. Some may have been written.
        SourceMisconfigured
            A topic or the log-in is refused, or a message is longer than its topic allows.
        """
        if not messages:
            return
        producer = self._connect()
        try:
            # The producer would choose the same partitions by the keys, one at a time in Python.
            partitions = choose_partitions(messages, lambda topic: len(producer.partitions_for(topic)))
            sent = [
                producer.send(
                    message.topic,
                    message.value,
                    key=b"" if message.key is None and message.value is None else message.key,
                    headers=[(name, NULL if value is None else value) for name, value in message.headers],
                    partition=partition,
                    timestamp_ms=message.timestamp_ms,
                )
                for message, partition in zip(messages, partitions, strict=True)
            ]
            # Longer than the delivery timeout: every message is acknowledged or given up, and none is sent later.
            producer.flush(self._delivery_seconds + _GIVING_UP_SECONDS)
            for future in sent:
                if future.failed():
                    raise future.exception
        except kafka_errors.KafkaError as error:
            raise self._translated(error, messages) from error

    def close(self) -> None:
        """Send pending messages, then disconnect."""
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.close(self._connection.connect_seconds)
        except kafka_errors.KafkaError as error:
            _log.warning("could not close the Kafka producer in order", error=str(error))

    def _connect(self) -> KafkaProducer:
        with self._lock:
            if self._producer is None:
                self._connection.check()
                with self._connection.translated():
                    self._producer = KafkaProducer(**self._options())
            return self._producer

    def _options(self) -> dict[str, Any]:
        return {
            **self._connection.options(),
            "acks": "all",
            "enable_idempotence": True,
            "delivery_timeout_ms": round(self._delivery_seconds * 1000),
            "max_block_ms": round(self._connection.connect_seconds * 1000),
            "max_request_size": _LARGEST_REQUEST,
            "batch_size": 256 << 10,
            # write() flushes after a whole batch; until then, waiting fills the requests.
            "linger_ms": 20,
            "metrics_enabled": False,
        }

    def _translated(self, error: Exception, messages: Sequence[Message]) -> Exception:
        servers = self._connection.servers
        if isinstance(error, _TOO_LARGE):
            longest = max(messages, key=lambda message: len(message.value or b""))
            return SourceMisconfigured(
                f"Kafka at {servers} refuses a message of {len(longest.value or b'')} bytes for topic "
                f"{longest.topic}; raise its max.message.bytes"
            )
        if isinstance(error, REFUSALS):
            return SourceMisconfigured(f"Kafka at {servers} refuses: {error}")
        topics = ", ".join(sorted({message.topic for message in messages}))
        return SourceUnavailable(
            f"Kafka at {servers} did not take {len(messages)} messages for {topics}: {error}; does the topic exist?"
        )
