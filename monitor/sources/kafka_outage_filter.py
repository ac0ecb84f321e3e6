"""Log lines of brokers that are away, in place of kafka-python's own."""

import logging
import threading
from typing import Final

import structlog

from monitor.clock import Clock
from monitor.outage_log import Outage

_QUIET_SECONDS: Final = 60.0
"""Time without a warning of kafka-python after which the next one starts a new outage."""


class KafkaOutageFilter(logging.Filter):
    """A filter for log handlers: drops the warnings and errors of kafka-python, and logs outages instead.

    While brokers restart, each client logs several errors for every connection and attempt; sources and writers report
    the effect themselves. So the first of these lines is logged, as a warning, and later ever fewer, with their count.
    An exception that is neither a network error nor a Kafka error is a bug, and is logged unchanged.

    Parameters
    ----------
    clock
        Measures how long an outage lasts.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.Lock()
        self._outage = self._new_outage()
        self._last = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the handler writes this record."""
        if not record.name.startswith("kafka.") or record.levelno < logging.WARNING:
            return True
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, OSError | _kafka_error()):
            return True
        with self._lock:
            now = self._clock.monotonic()
            if now - self._last > _QUIET_SECONDS:
                self._outage = self._new_outage()
            self._last = now
            because = f": {error}" if error is not None else ""
            self._outage.failed(f"{record.name}: {record.getMessage()}{because}")
        return False

    def _new_outage(self) -> Outage:
        # Not below "kafka.", so that its lines pass this filter.
        return Outage(structlog.get_logger("kafka"), "kafka-python reports trouble", "", self._clock)


def _kafka_error() -> type[Exception]:
    # Here, because services without Kafka have this filter, too: it takes a tenth of a second, and logs nothing there.
    from kafka.errors import KafkaError  # noqa: PLC0415

    error: type[Exception] = KafkaError
    return error
