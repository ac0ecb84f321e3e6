"""Counts refused requests; logs at most one line per minute and reason."""

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
    """It had no key or token."""
    WRONG = "wrong"
    """Its key or token is not valid: unknown, revoked, expired or forged."""
    FORBIDDEN = "forbidden"
    """The caller may not do this, or not with this model."""
    CROSS_SITE = "cross_site"
    """A page of another site sent it with somebody's session."""
    FAILURES = "failures"
    """Too many wrong keys came from its address: its credential was not checked."""
    REQUESTS = "requests"
    """The caller sent too many requests within a second."""
    CONNECTIONS = "connections"
    """Too many connections were open, of its address or of all: the connection was closed before a request."""


@dataclass(slots=True)
class _Unlogged:
    logged_at: float
    count: int = 0
    """Refused requests since the last log line."""
    address: str = ""


class RefusedRequests:
    """Counts refused requests and logs them. Any thread.

    Parameters
    ----------
    clock
        Measures the minute.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._unlogged: dict[Reason, _Unlogged] = {}
        self.counts: dict[str, int] = dict.fromkeys(Reason, 0)
        """Reason -> refused requests since the start."""

    def count(self, reason: Reason, address: str) -> None:
        """Count one. The log gets only the client's address, never the credential."""
        now = self._clock.monotonic()
        with self._lock:
            self.counts[reason] += 1
            unlogged = self._unlogged.setdefault(reason, _Unlogged(now - _MINUTE))
            unlogged.count += 1
            unlogged.address = address
            self._log_if_due(reason, unlogged, now)

    def log_due(self) -> None:
        """Log the requests whose minute has passed."""
        now = self._clock.monotonic()
        with self._lock:
            for reason, unlogged in self._unlogged.items():
                if unlogged.count:
                    self._log_if_due(reason, unlogged, now)

    def _log_if_due(self, reason: Reason, unlogged: _Unlogged, now: float) -> None:
        if now - unlogged.logged_at < _MINUTE:
            return
        # A browser without a session sends no key, either: no reason for a warning.
        write = _log.info if reason is Reason.MISSING else _log.warning
        write("requests refused", reason=reason.value, count=unlogged.count, last_address=unlogged.address)
        unlogged.logged_at, unlogged.count = now, 0
