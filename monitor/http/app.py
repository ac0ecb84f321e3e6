"""The app: the routes of every file in ``routes/``, and the middleware around them."""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.http.authorization import check_declared
from monitor.http.openapi import DESCRIPTION, complete_openapi
from monitor.http.problems import Problem, add_problem_handlers
from monitor.http.request_log import RequestLog
from monitor.http.services import Services
from monitor.scanning import scan_modules
from monitor.urls import is_loopback
from monitor.version import VERSION

TITLE: Final = "Calibration monitor"

_ASSETS: Final = "/docs-assets"
"""The path of the files of /docs. They come from a package, so that no access to the internet is needed."""

_PROBES: Final = ("/healthz", "/readyz", "/metrics")

_MAX_SHOWN: Final = 80

_ALWAYS: Final = {"x-content-type-options": "nosniff", "cross-origin-resource-policy": "same-origin"}
_UNLESS_SET: Final = {
    # Pages have a policy of their own. Other answers may run and load nothing, and no frame may show them.
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}


def create_api(services: Services, *folders: Path) -> FastAPI:
    """Create the app.

    Parameters
    ----------
    services
        The parts of the service. They are neither started nor stopped here.
    folders
        Further folders whose files declare a ``router``.

    Raises
    ------
    ValueError
        A route does not declare who may use it.
    """
    app = FastAPIOffline(
        docs_url=None,
        redoc_url=None,
        static_url=_ASSETS,
        title=TITLE,
        version=VERSION,
        description=DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        redirect_slashes=False,
    )
    app.state.services = services
    for module in scan_modules("monitor.http.routes", *folders):
        app.include_router(module.router)
    check_declared(app, static=("/openapi.json", _ASSETS))
    add_problem_handlers(app, services.api.request_timeout.total_seconds())
    if "serve" not in services.roles:
        app.add_middleware(_Refusals, problem_of=partial(_probes_only, services.roles))
    if services.access.mode == "off":
        app.add_middleware(_Refusals, problem_of=_loopback_only)
    app.add_middleware(RequestLog, traffic=services.traffic, clock=services.clock)
    app.add_middleware(_SecurityHeaders)
    app.add_middleware(_UnreadBodies, seconds=services.body_seconds)
    complete_openapi(app)
    return app


class _Refusals:
    """Answers with a problem where the function returns one."""

    def __init__(self, app: ASGIApp, problem_of: Callable[[Scope], Problem | None]) -> None:
        self._app = app
        self._problem_of = problem_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = self._problem_of(scope)
        answer = self._app if problem is None else problem.response(scope["path"])
        await answer(scope, receive, send)


def _loopback_only(scope: Scope) -> Problem | None:
    """421 unless ``Host`` is ``localhost`` or a loopback address; for a service without access control.

    Otherwise any site that a browser on this machine shows could read the answers under its own name, by making that
    name lead to this machine (DNS rebinding).
    """
    # HTTP/1.0 needs no Host, and no browser speaks that.
    hosts = Headers(scope=scope).getlist("host")
    if all(_is_loopback_host(host) for host in hosts):
        return None
    return Problem(
        421,
        "misdirected",
        "access control is off (access.mode), so that only requests for localhost, 127.0.0.1 or [::1] are answered,"
        f" got Host {hosts[0][:_MAX_SHOWN]!r}; use one of these, or set access.mode to required",
    )


def _probes_only(roles: Collection[str], scope: Scope) -> Problem | None:
    """503 for all but the probes and /metrics; for a replica without the role ``serve``, which has no reports."""
    if scope["path"] in _PROBES:
        return None
    return Problem(
        503,
        "not-serving",
        f"this replica answers {', '.join(_PROBES)} alone: its roles are [{', '.join(roles)}]; ask one whose "
        "setting roles has serve",
    )


def _is_loopback_host(host: str) -> bool:
    try:
        # Names that end in .localhost do not count: browsers resolve them to this machine, but other resolvers may not.
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


class _SecurityHeaders:
    """Routes HEAD as GET (the server sends no body then), and adds the headers that protect browsers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=list(message["headers"]))
                headers.update(_ALWAYS)
                for name, value in _UNLESS_SET.items():
                    headers.setdefault(name, value)
                # An answer with an entity tag is revalidated. Any other without an explicit lifetime is not stored.
                if "etag" not in headers:
                    headers.setdefault("cache-control", "no-store")
                if scope["scheme"] == "https":
                    headers["strict-transport-security"] = "max-age=31536000"
                message = {**message, "headers": headers.raw}
            await send(message)

        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._app({**scope, "method": method}, receive, send_with_headers)


class _UnreadBodies:
    """Reads and discards the rest of a request's body, for at most ``seconds``, before the connection is closed.

    A connection that is closed while it holds unread bytes is reset, and a client that sends its whole body before it
    reads would see that instead of the answer, such as 413. Of a connection that stays open, the server itself
    discards them.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        stays_open = scope["http_version"] != "1.0" and "close" not in headers.get("connection", "").lower()
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        if stays_open or not has_body:
            await self._app(scope, receive, send)
            return
        complete = answered = False

        async def receive_noting_end() -> Message:
            nonlocal complete
            message = await receive()
            complete = not message.get("more_body", False)
            return message

        async def send_all_but_end(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.body" and not complete and not message.get("more_body", False):
                answered = True
                message = {**message, "more_body": True}
            await send(message)

        await self._app(scope, receive_noting_end, send_all_but_end)
        if answered:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    while not complete:
                        await receive_noting_end()
            await send({"type": "http.response.body"})
