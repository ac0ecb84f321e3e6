"""A name for every request: in its answer, in every line that the log tells of it, and in problem details.

Who calls may give the name, as ``X-Request-ID``; one that would not be safe to write to a log is replaced. Requests
that changed something get a line of their own (``request``), and so do those that could not be answered (``request
failed``), once a minute for each route and status: request_id, method, route, status, duration_ms, principal.
"""

import re
import uuid
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.clock import Clock

HEADER: Final = "x-request-id"

_SANE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}")
"""What ids of gateways and tracers look like. No space, quote or control character gets into a log from here."""

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_COMPUTATIONS: Final = frozenset({"/v1/reports", "/v1/models/{model}/recalibrate"})
"""Asked for by POST, and yet nothing is changed."""

_FREQUENT: Final = frozenset({"/v1/events"})
"""Changes that a producer makes a thousand times a minute: they are counted, and told at the level debug alone."""

_PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Where 503 is an answer like any other, to somebody who asks every few seconds."""

_MOST_OFTEN_SECONDS: Final = 60.0
"""How often a route that goes on failing is told of."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class RequestContext:
    """What is known of the request that is being answered.

    Attributes
    ----------
    request_id
        Its name.
    principal
        Who asks, in the words of the audit trail; empty while nobody has said so.
    """

    request_id: str
    principal: str = ""


_current: ContextVar[RequestContext | None] = ContextVar("monitor_request", default=None)


def current_request() -> RequestContext | None:
    """The request that this thread or task works on, if it does."""
    return _current.get()


def note_principal(name: str) -> None:
    """Let the log know who asks, from now on. Outside of a request, nothing happens."""
    context = _current.get()
    if context is not None:
        context.principal = name
        structlog.contextvars.bind_contextvars(principal=name)


class RequestIds:
    """Middleware: names each request, and tells the log of those that changed something or failed.

    Parameters
    ----------
    app
        What answers.
    clock
        Measures how long it takes.
    """

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._told: dict[tuple[str, int], _Told] = {}
        """(route, status) -> when it was told of last. As many as there are routes, times a few."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = RequestContext(_given(scope) or uuid.uuid4().hex)
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
            self._tell(scope, context, status, began)

    def _tell(self, scope: Scope, context: RequestContext, status: int, began: float) -> None:
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            return  # Whoever caught the error has told already.
        # The template, not the path: what a stranger asks for gets into no log.
        route = getattr(scope.get("route"), "path_format", "other")
        now = self._clock.monotonic()
        about: dict[str, Any] = {
            "request_id": context.request_id,
            "method": scope["method"],
            "route": route,
            "status": status,
            "duration_ms": round((now - began) * 1000, 1),
        }
        if context.principal:
            about["principal"] = context.principal
        if status > HTTPStatus.INTERNAL_SERVER_ERROR and route not in _PROBES:
            self._tell_of_failure((route, status), now, about)
        elif not status or scope["method"] in _READS or route in _COMPUTATIONS or status >= 400 or route in _FREQUENT:
            _log.debug("request", **about)
        else:
            _log.info("request", **about)

    def _tell_of_failure(self, kind: tuple[str, int], now: float, about: dict[str, Any]) -> None:
        earlier = self._told.get(kind)
        if earlier is not None and now - earlier.at < _MOST_OFTEN_SECONDS:
            earlier.since += 1
            return
        if earlier is not None and earlier.since:
            about["untold"] = earlier.since
        self._told[kind] = _Told(now)
        _log.warning("request failed", **about)


@dataclass(slots=True)
class _Told:
    at: float
    since: int = 0
    """How many like it were not told of since."""


def _given(scope: Scope) -> str:
    """The id that the caller gave, if it is a sane one."""
    for name, value in scope["headers"]:
        if name.lower() == HEADER.encode():
            text: str = value.decode("latin-1")
            return text if _SANE.fullmatch(text) else ""
    return ""
