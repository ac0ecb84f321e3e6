"""A producer of confluent-kafka, whose threads are librdkafka's: they never hold the interpreter's lock."""

import ctypes
import logging
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError

from monitor.clock import SystemClock
from monitor.events.model import Kind
from monitor.logging.destination import EncodedEvent
from monitor.logging.kafka import DELIVERY_SECONDS, Failure
from monitor.outage_log import OncePerMinute
from monitor.sources.kafka_connection import KafkaConnection

_NAMES: Final = {
    "client_id": "client.id",
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "sasl_kerberos_service_name": "sasl.kerberos.service.name",
}
"""Settings of a connection -> what librdkafka calls them."""


class _OneLineAMinute(logging.Filter):
    """While a broker is away, librdkafka logs each attempt to connect: two a second."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = OncePerMinute(SystemClock())

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is logged."""
        del record
        return self._lines.add() > 0


_log: Final = logging.getLogger("monitor.logging.librdkafka")
_log.addFilter(_OneLineAMinute())


class ConfluentProducer:
    """See :class:`~monitor.logging.kafka.Producer`."""

    def __init__(self, connection: KafkaConnection) -> None:
        self.failures: list[Failure] = []
        self._kinds: dict[str, Kind] = {}
        options = {theirs: getattr(connection, ours) for ours, theirs in _NAMES.items()}
        self._producer = confluent_kafka.Producer(
            {
                **{name: value for name, value in options.items() if value is not None},
                "bootstrap.servers": connection.servers,
                "ssl.endpoint.identification.algorithm": "https" if connection.ssl_check_hostname else "none",
                "socket.keepalive.enable": True,
                "reconnect.backoff.max.ms": 2_000,
                "enable.idempotence": True,
                "partitioner": "murmur2",
                "linger.ms": 5,
                "message.timeout.ms": round(DELIVERY_SECONDS * 1000),
                "delivery.report.only.error": True,
                "on_delivery": self._on_failure,
            },
            # Its lines go to the scorer's handlers, not to standard error.
            logger=_log,
        )

    def send(self, topic: str, event: EncodedEvent) -> None:
        """Send an event without waiting for the acknowledgement."""
        self._kinds[topic] = event.kind
        try:
            self._producer.produce(topic, event.value, event.key)
        except (BufferError, confluent_kafka.KafkaException) as error:
            self._fail(event, error.args[0])

    def _on_failure(self, error: KafkaError, message: Any) -> None:
        self._fail(EncodedEvent(self._kinds[message.topic()], message.key(), message.value()), error)

    def _fail(self, event: EncodedEvent, error: Any) -> None:
        too_large = isinstance(error, KafkaError) and error.code() == KafkaError.MSG_SIZE_TOO_LARGE
        self.failures.append(Failure(event, str(error), too_large))

    def wait(self, seconds: float) -> int:
        """Wait that long for acknowledgements; return how many events have none."""
        return int(self._producer.flush(seconds))

    def abandon(self) -> None:
        """End at once: what is not acknowledged becomes a failure."""
        self._producer.purge()
        self._producer.flush(1.0)

    def close(self) -> None:
        """Disconnect."""
        del self._producer

    def keep_forever(self) -> None:
        """Never let the producer be deallocated: that would wait for threads that this process does not have."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._producer))


def make(connection: KafkaConnection) -> ConfluentProducer:
    """Make a producer; connects in the background."""
    return ConfluentProducer(connection)
