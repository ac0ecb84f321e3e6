"""Events to Kafka: by confluent-kafka where it is installed, else by kafka-python."""

import importlib
import logging
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, Protocol

from monitor.clock import SystemClock
from monitor.errors import InputError, SourceError
from monitor.events.model import Kind
from monitor.logging.destination import Delivery, EncodedEvent, release_gil
from monitor.outage_log import OncePerMinute
from monitor.sources.kafka_connection import KafkaConnection

_SLICE: Final = 200
_WAIT_SECONDS: Final = 0.1
_QUIET_SECONDS: Final = 10.0
"""Time that a batch may take before it is logged."""

DELIVERY_SECONDS: Final = 24 * 3600.0
"""How long a client tries to deliver a message by itself: without writing it twice, and in order."""

# Not structlog: unconfigured, it would print to the standard output of the scorer.
_log = logging.getLogger(__name__)


class Failure(NamedTuple):
    """Why an event was not accepted."""

    event: EncodedEvent
    reason: str
    too_large: bool
    """Whether it, or what was sent together with it, is larger than the topic allows."""


class Producer(Protocol):
    """A Kafka client. Writing is idempotent, and the key chooses the partition as Kafka's own clients do (murmur2)."""

    failures: list[Failure]
    """Events that were not accepted."""

    def send(self, topic: str, event: EncodedEvent) -> None:
        """Send an event without waiting for the acknowledgement."""
        ...

    def wait(self, seconds: float) -> int:
        """Wait that long for acknowledgements; return how many events have none."""
        ...

    def abandon(self) -> None:
        """End at once: what is not acknowledged becomes a failure."""
        ...

    def close(self) -> None:
        """Disconnect."""
        ...

    def keep_forever(self) -> None:
        """Make sure, in the child of a fork, that nothing ends the client, whose threads are the parent's."""
        ...


class Kafka:
    """Sends events to Kafka, each durable on every in-sync replica, once, keyed by the prediction's id.

    Parameters
    ----------
    bootstrap_servers
        Brokers to connect to first: ``host:port``, several with commas or as a list.
    predictions, outcomes
        The topics; outcomes go to that of predictions if left out. They must have the same number of partitions.
    connection
        As of :class:`~monitor.sources.kafka_connection.KafkaConnection`: ``security_protocol``, ``ssl_cafile``,
        ``sasl_mechanism``, ``sasl_plain_username``, ...

    Raises
    ------
    InputError
        No broker or no topic is named.
    SettingsError
        A file that is named does not exist or holds no certificate.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str], predictions: str, outcomes: str | None = None, **connection: Any
    ) -> None:
        servers = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
        if not all(servers) or not predictions:
            raise InputError(f"Kafka needs bootstrap_servers and a topic, got {bootstrap_servers!r}, {predictions!r}")
        self._connection = KafkaConnection(servers, **connection)
        self._topics = {Kind.PREDICTION: predictions, Kind.OUTCOME: outcomes or predictions}
        self._producer: Producer | None = None

    def deliver(self, events: Sequence[EncodedEvent], seconds_left: Callable[[], float]) -> Delivery:
        """Send the events and wait until each is acknowledged or refused."""
        try:
            producer = self._producer = self._producer or self._connect()
        except SourceError as error:
            return Delivery(events, str(error).removesuffix("; trying again"))
        try:
            for start in range(0, len(events), _SLICE):
                for event in events[start : start + _SLICE]:
                    producer.send(self._topics[event.kind], event)
                release_gil()
            self._wait(producer, seconds_left)
        except BaseException:
            self._producer = None  # it holds part of the batch
            raise
        if not producer.failures:
            return Delivery()
        # After some errors a client accepts nothing more.
        producer.abandon()
        self._producer = None
        return Delivery(
            undelivered=[failure.event for failure in producer.failures],
            error=f"Kafka at {self._connection.servers}: {producer.failures[0].reason}",
            too_large=any(failure.too_large for failure in producer.failures),
        )

    def _wait(self, producer: Producer, seconds_left: Callable[[], float]) -> None:
        """Wait for all acknowledgements; when the time is over, what has none becomes a failure."""
        began = time.monotonic()
        once_per_minute = OncePerMinute(SystemClock())
        while waiting := producer.wait(_WAIT_SECONDS):
            if seconds_left() == 0.0:
                producer.abandon()
                return
            seconds = time.monotonic() - began
            if seconds > _QUIET_SECONDS and once_per_minute.add():
                _log.warning(
                    "Kafka at %s has not acknowledged %d events for %.0f s; trying on",
                    self._connection.servers, waiting, seconds,
                )  # fmt: skip

    def _connect(self) -> Producer:
        # It says at once what is wrong: an unknown host, an untrusted certificate, a wrong password.
        self._connection.check()
        library = "confluent" if find_spec("confluent_kafka") else "kafka_python"
        producer: Producer = importlib.import_module(f"monitor.logging.{library}_producer").make(self._connection)
        return producer

    def close(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def forget_connection(self) -> None:
        """Drop the producer of the parent process."""
        if self._producer is not None:
            self._producer.keep_forever()
            self._producer = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_producer": None}
