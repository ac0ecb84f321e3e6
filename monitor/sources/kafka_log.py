"""What kafka-python logs of an outage, in one line instead of one for every socket and every attempt."""

import logging
import threading
from typing import Final

import structlog
from kafka import errors as kafka_errors

from monitor.clock import Clock
from monitor.outage_log import Outage

_QUIET_SECONDS: Final = 60.0
"""After so long without a warning, the next one begins another outage."""


class KafkaOutageFilter(logging.Filter):
    """A filter for log handlers: keeps back the warnings and errors of kafka-python, and logs outages in their place.

    While brokers restart, each of its clients logs several errors for every connection and every attempt. What that
    means for this service, the parts that use the clients report themselves. So of these lines the first is logged, as
    a warning, and then ever fewer, with how many there were. An exception that is neither a network error nor one of
    Kafka's own is a fault of a program, and is logged as it is.

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
        if error is not None and not isinstance(error, OSError | kafka_errors.KafkaError):
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
