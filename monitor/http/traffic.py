"""Counts the requests by route and status, and ends those that take too long."""

import asyncio
from collections import defaultdict
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.clock import Clock
from monitor.http.problems import Problem

OTHER: Final = "other"
"""The route of a path that there is none for, and of the files of /docs: what a stranger asks for becomes no label."""

_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_UNANSWERED: Final = "none"
"""In place of a status: the connection ended before there was one."""


class Traffic:
    """What was asked since the start. Written in the event loop's thread, read in any.

    Attributes
    ----------
    requests
        (method, route, status) -> requests. HEAD counts as GET, whose answer it is.
    seconds
        (method, route) -> what they took together.
    """

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, str], int] = defaultdict(int)
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one."""
        method = method if method in _METHODS else OTHER
        self.requests[method, route, str(status) if status else _UNANSWERED] += 1
        self.seconds[method, route] += seconds


def route_of(scope: Scope) -> str:
    """The template of the route that answers: ``/v1/models/{model}/report``."""
    route: str = getattr(scope.get("route"), "path_format", OTHER)
    return route


class Counted:
    """Middleware: counts what is answered.

    Parameters
    ----------
    app
        What answers.
    traffic
        Where it is counted.
    clock
        Measures how long it takes.
    """

    def __init__(self, app: ASGIApp, traffic: Traffic, clock: Clock) -> None:
        self._app = app
        self._traffic = traffic
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = self._clock.monotonic()
        try:
            await self._app(scope, receive, noting)
        finally:
            self._traffic.note(scope["method"], route_of(scope), status, self._clock.monotonic() - began)


class TimeLimit:
    """Middleware: what is not answered in time is answered 503. Threads that compute for it end by themselves.

    Parameters
    ----------
    app
        What answers.
    seconds
        How long a request may take, its body included.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def noting(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            async with asyncio.timeout(self._seconds) as limit:
                await self._app(scope, receive, noting)
        except TimeoutError:
            if started or not limit.expired():
                raise
            await _too_slow(self._seconds).response(scope["path"])(scope, receive, send)


def _too_slow(seconds: float) -> Problem:
    return Problem(
        503,
        "too-slow",
        f"there was no answer within {seconds:g} seconds (api.request_timeout); ask for less, or try again later. If "
        "something was to be changed, look first whether it was",
    )
