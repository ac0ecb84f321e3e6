"""Who was refused, counted; in the log a line a minute for each reason, however many there are."""

import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import structlog

from monitor.clock import Clock, SystemClock

_MINUTE: Final = 60.0

_log = structlog.get_logger(__name__)


class Reason(StrEnum):
    """Why a request was refused: the label `reason` of calibration_access_refusals_total."""

    MISSING = "missing"
    """It brought no key or token."""
    WRONG = "wrong"
    """Its key or token is nobody's: unknown, revoked, expired or forged."""
    FORBIDDEN = "forbidden"
    """Who asked may not do this, or not with this model."""
    CROSS_SITE = "cross_site"
    """A page of another site asked with somebody's session."""
    FAILURES = "failures"
    """Too many wrong keys came from its address: it was not looked at."""
    REQUESTS = "requests"
    """Who asked has asked too often within a second."""
    CONNECTIONS = "connections"
    """Too many connections were held, by its address or by all: it was closed before it could ask."""


@dataclass(slots=True)
class _Told:
    at: float
    since: int = 0
    """Refusals that were not told of."""
    address: str = ""


class Refusals:
    """Counts refusals and tells the log of them. Any thread.

    Parameters
    ----------
    clock
        Says when a minute is over.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._told: dict[Reason, _Told] = {}
        self.counts: dict[str, int] = dict.fromkeys(Reason, 0)
        """Reason -> refusals since the start."""

    def note(self, reason: Reason, address: str) -> None:
        """Count one. Of what was refused nothing is told but where it came from."""
        now = self._clock.monotonic()
        with self._lock:
            self.counts[reason] += 1
            told = self._told.setdefault(reason, _Told(now - _MINUTE))
            told.since += 1
            told.address = address
            self._tell(reason, told, now)

    def tell(self) -> None:
        """Tell of those that waited for the end of their minute."""
        now = self._clock.monotonic()
        with self._lock:
            for reason, told in self._told.items():
                if told.since:
                    self._tell(reason, told, now)

    def _tell(self, reason: Reason, told: _Told, now: float) -> None:
        if now - told.at < _MINUTE:
            return
        # A browser that is not logged in yet asks without a key, too: that alone is no reason to look.
        write = _log.info if reason is Reason.MISSING else _log.warning
        write("requests refused", reason=reason.value, count=told.since, last_address=told.address)
        told.at, told.since = now, 0
