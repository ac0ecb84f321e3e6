"""Request ids, counts of requests, and their log lines.

The id is in the answer, in every log line of the request and in problem details. The caller may give it, as
``X-Request-ID``; one that is not safe to log is replaced. Requests that changed something have a line of their own
(``request``), and so have those that could not be answered (``request failed``), once a minute for each route and
status: request_id, method, route, status, duration_ms, principal.
"""

import re
import uuid
from collections import defaultdict
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.clock import Clock

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

_FAILURE_SECONDS: Final = 60.0
"""Time between two log lines of a route that goes on failing."""

OTHER: Final = "other"
"""The route of unknown paths and of the files of /docs: a stranger's paths must not become labels."""

_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_UNANSWERED: Final = "none"
"""In place of a status: the connection ended before there was one."""

_log = structlog.get_logger(__name__)


class Traffic:
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


@dataclass(slots=True)
class RequestContext:
    """The request that is being answered: its id, and the caller's name once it is known."""

    request_id: str
    principal: str = ""


@dataclass(slots=True)
class _Failures:
    logged_at: float
    unlogged: int = 0
    """Failures since the last log line."""


_current: ContextVar[RequestContext | None] = ContextVar("monitor_request", default=None)


def current_request() -> RequestContext | None:
    """The request that this thread or task works on, if any."""
    return _current.get()


def note_principal(name: str) -> None:
    """Add the caller's name to the log lines of the current request, if there is one."""
    context = _current.get()
    if context is not None:
        context.principal = name
        structlog.contextvars.bind_contextvars(principal=name)


class RequestLog:
    """Middleware: gives each request an id, counts it, and logs it if it changed something or failed."""

    def __init__(self, app: ASGIApp, traffic: Traffic, clock: Clock) -> None:
        self._app = app
        self._traffic = traffic
        self._clock = clock
        self._failures: dict[tuple[str, int], _Failures] = {}
        """By route and status: as many as there are routes, times a few."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = RequestContext(_given_id(scope) or uuid.uuid4().hex)
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], (HEADER.encode(), context.request_id.encode())]}
            await send(message)

        began = self._clock.monotonic()
        token = _current.set(context)
        try:
            with structlog.contextvars.bound_contextvars(request_id=context.request_id):
                await self._app(scope, receive, noting)
        finally:
            _current.reset(token)
            structlog.contextvars.unbind_contextvars("principal")
            # The template, such as /v1/models/{model}/report, and not the path, which a stranger chooses.
            route = getattr(scope.get("route"), "path_format", OTHER)
            seconds = self._clock.monotonic() - began
            self._traffic.count(scope["method"], route, status, seconds)
            # The handler of an unexpected error has logged it.
            if status != HTTPStatus.INTERNAL_SERVER_ERROR:
                self._log_request(scope["method"], route, status, seconds, context)

    def _log_request(self, method: str, route: str, status: int, seconds: float, context: RequestContext) -> None:
        entry: dict[str, Any] = {
            "request_id": context.request_id,
            "method": method,
            "route": route,
            "status": status,
            "duration_ms": round(seconds * 1000, 1),
        }
        if context.principal:
            entry["principal"] = context.principal
        if status > HTTPStatus.INTERNAL_SERVER_ERROR and route not in _PROBES:
            self._log_failure((route, status), entry)
        elif not status or method in _READS or route in _COMPUTATIONS or status >= 400 or route in _FREQUENT:
            _log.debug("request", **entry)
        else:
            _log.info("request", **entry)

    def _log_failure(self, kind: tuple[str, int], entry: dict[str, Any]) -> None:
        now = self._clock.monotonic()
        earlier = self._failures.get(kind)
        if earlier is not None and now - earlier.logged_at < _FAILURE_SECONDS:
            earlier.unlogged += 1
            return
        if earlier is not None and earlier.unlogged:
            entry["untold"] = earlier.unlogged
        self._failures[kind] = _Failures(now)
        _log.warning("request failed", **entry)


def _given_id(scope: Scope) -> str:
    """The id that the caller gave, if it is safe to log."""
    for name, value in scope["headers"]:
        if name.lower() == HEADER.encode():
            text: str = value.decode("latin-1")
            return text if _SAFE.fullmatch(text) else ""
    return ""
