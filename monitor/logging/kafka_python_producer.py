"""A producer of kafka-python: it needs nothing else, and its thread competes for the interpreter's lock."""

import time
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaProducer
from kafka import errors as kafka_errors

from monitor.logging.destination import EncodedEvent
from monitor.logging.kafka import DELIVERY_SECONDS, Failure
from monitor.sources.kafka_connection import KafkaConnection

_TOO_LARGE: Final = (kafka_errors.MessageSizeTooLargeError, kafka_errors.RecordListTooLargeError)
_CLOSE_SECONDS: Final = 5.0


class KafkaPythonProducer:
    """See :class:`~monitor.logging.kafka.Producer`."""

    def __init__(self, connection: KafkaConnection) -> None:
        self.failures: list[Failure] = []
        self._sent: list[tuple[Any, EncodedEvent]] = []
        """Futures of the batch."""
        self._unavailable = ""
        """Why an event of the batch could not be sent: the next ones would wait as long for the same."""
        with connection.translated():
            self._producer = KafkaProducer(
                **connection.options(),
                acks="all",
                enable_idempotence=True,
                delivery_timeout_ms=round(DELIVERY_SECONDS * 1000),
                max_block_ms=round(connection.connect_seconds * 1000),
                linger_ms=5,
                metrics_enabled=False,
            )

    def send(self, topic: str, event: EncodedEvent) -> None:
        """Send an event without waiting for the acknowledgement."""
        if self._unavailable:
            self.failures.append(Failure(event, self._unavailable, too_large=False))
            return
        try:
            self._sent.append((self._producer.send(topic, event.value, event.key), event))
        except _TOO_LARGE as error:
            self.failures.append(Failure(event, str(error), too_large=True))
        except kafka_errors.KafkaError as error:
            self._unavailable = str(error)
            self.failures.append(Failure(event, self._unavailable, too_large=False))

    def wait(self, seconds: float) -> int:
        """Wait that long for acknowledgements; return how many events have none."""
        began = time.monotonic()
        with suppress(kafka_errors.KafkaError):  # each event has an answer of its own
            self._producer.flush(seconds)
        waiting = sum(not future.is_done for future, _ in self._sent)
        if waiting:
            # A flush fails at once for batches that were divided because the topic allows only smaller ones.
            time.sleep(max(0.0, seconds - (time.monotonic() - began)))
        else:
            self._finish()
        return waiting

    def _finish(self) -> None:
        for future, event in self._sent:
            if not future.is_done or future.failed():
                error = future.exception or "not acknowledged"
                self.failures.append(Failure(event, str(error), isinstance(error, _TOO_LARGE)))
        self._sent = []
        self._unavailable = ""

    def abandon(self) -> None:
        """End at once: what is not acknowledged becomes a failure."""
        # close() waits for what is pending, and closes nothing if that takes longer than its timeout.
        self._producer._sender.force_close()  # noqa: SLF001
        self._producer._closed = True  # noqa: SLF001
        self._producer.close()
        self._finish()

    def close(self) -> None:
        """Disconnect."""
        self._producer.close(_CLOSE_SECONDS)

    def keep_forever(self) -> None:
        """Let nothing wait for the producer's thread, which this process does not have."""
        self._producer._closed = True  # noqa: SLF001


def make(connection: KafkaConnection) -> KafkaPythonProducer:
    """Make a producer.

    Raises
    ------
    SourceUnavailable, SourceMisconfigured
        The brokers do not answer, or refuse us.
    """
    return KafkaPythonProducer(connection)
