"""Request ids, counts of requests and of refused ones, and their log lines.

The id is in the answer, in every log line of the request and in problem details. The caller may give it, as
``X-Request-ID``; one that is not safe to log is replaced. Requests that changed something have a line of their own
(``request``), and so have those that could not be answered (``request failed``), once a minute for each route and
status: request_id, method, route, status, duration_ms, principal.
"""

import re
import threading
import uuid
from collections import defaultdict
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.clock import Clock
from monitor.outage_log import OncePerMinute
from monitor.tracing import span

HEADER: Final = "x-request-id"

_SAFE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}")
"""The form of ids of gateways and tracers: no space, quote or control character."""

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_COMPUTATIONS: Final = frozenset({"/v1/reports", "/v1/models/{model}/recalibrate"})
"""Routes of POST that change nothing."""

_FREQUENT: Final = frozenset({"/v1/events"})
"""Changes that a producer makes a thousand times a minute: logged at the level debug only."""

_PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Routes where 503 is a usual answer, requested every few seconds."""

OTHER: Final = "other"
"""The route of unknown paths and of the files of /docs: paths that clients choose must not become labels."""

_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_UNANSWERED: Final = "none"
"""Status of a request whose connection ended before it had one."""

_log = structlog.get_logger(__name__)


class RequestTraffic:
    """Requests since the start. Written in the event loop's thread, read in any.

    Attributes
    ----------
    requests
        (method, route, status) -> requests. HEAD counts as GET, whose answer it is.
    seconds
        (method, route) -> their total duration.
    """

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, str], int] = defaultdict(int)
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; status 0 if it had no answer."""
        method = method if method in _METHODS else OTHER
        self.requests[method, route, str(status) if status else _UNANSWERED] += 1
        self.seconds[method, route] += seconds


class RefusalReason(StrEnum):
    """Why a request was refused: the label `reason` of calibration_access_refusals_total."""

    MISSING = "missing"
    """The request had no key or token."""
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


class RefusedRequests:
    """Counts refused requests; logs at most one line per minute and reason. Any thread.

    Parameters
    ----------
    clock
        Measures the minute.
    """

    def __init__(self, clock: Clock) -> None:
        self._lock = threading.Lock()
        self._lines = OncePerMinute(clock)
        self.counts: dict[str, int] = dict.fromkeys(RefusalReason, 0)
        """Reason -> refused requests since the start."""

    def count(self, reason: RefusalReason, address: str) -> None:
        """Count one. The log gets only the client's address, never the credential."""
        with self._lock:
            self.counts[reason] += 1
        count = self._lines.add(reason)
        if count:
            # A browser without a session sends no key, either: no reason for a warning.
            write = _log.info if reason is RefusalReason.MISSING else _log.warning
            write("requests refused", reason=reason.value, count=count, last_address=address)


class RequestLog:
    """Middleware: gives each request an id, counts it, and logs it if it changed something or failed."""

    def __init__(self, app: ASGIApp, traffic: RequestTraffic, clock: Clock) -> None:
        self._app = app
        self._traffic = traffic
        self._clock = clock
        self._failures = OncePerMinute(clock)
        """Failures by route and status, a few for each route."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        request_id = _given_id(scope) or uuid.uuid4().hex
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], (HEADER.encode(), request_id.encode())]}
            await send(message)

        began = self._clock.monotonic()
        # The id, and the caller once authorization has bound them, are in every log line of the request.
        traced = span("request", Headers(scope=scope), request_id=request_id)
        with structlog.contextvars.bound_contextvars(request_id=request_id), traced as current:
            try:
                await self._app(scope, receive, send_with_id)
            finally:
                principal = structlog.contextvars.get_contextvars().get("principal", "")
                structlog.contextvars.unbind_contextvars("principal")
                # The template, such as /v1/models/{model}/report, and not the path, which a stranger chooses.
                route = getattr(scope.get("route"), "path_format", OTHER)
                seconds = self._clock.monotonic() - began
                self._traffic.count(scope["method"], route, status, seconds)
                current.update_name(f"{scope['method']} {route}")
                current.set_attribute("http.response.status_code", status)
                # The handler of an unexpected error has logged it.
                if status != HTTPStatus.INTERNAL_SERVER_ERROR:
                    entry = {
                        "request_id": request_id,
                        "method": scope["method"],
                        "route": route,
                        "status": status,
                        "duration_ms": round(seconds * 1000, 1),
                    }
                    self._log_request(entry | ({"principal": principal} if principal else {}))

    def _log_request(self, entry: dict[str, Any]) -> None:
        method, route, status = entry["method"], entry["route"], entry["status"]
        if status > HTTPStatus.INTERNAL_SERVER_ERROR and route not in _PROBES:
            failures = self._failures.add((route, status))
            if failures:
                _log.warning("request failed", **entry, **({"unlogged": failures - 1} if failures > 1 else {}))
        elif not status or method in _READS or route in _COMPUTATIONS or status >= 400 or route in _FREQUENT:
            _log.debug("request", **entry)
        else:
            _log.info("request", **entry)


def _given_id(scope: Scope) -> str:
    """The id that the caller gave, if it is safe to log."""
    text = Headers(scope=scope).get(HEADER, "")
    return text if _SAFE.fullmatch(text) else ""
