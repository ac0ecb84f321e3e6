"""Middleware around all routes: ends slow requests, checks the Host, and sets security headers."""

import asyncio
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.access.oidc import is_loopback
from monitor.http.problems import Problem

_MAX_SHOWN: Final = 80

_ALWAYS: Final = ((b"x-content-type-options", b"nosniff"), (b"cross-origin-resource-policy", b"same-origin"))
_UNLESS_SET: Final = (
    # Pages have a policy of their own. Other answers may run and load nothing, and no frame may show them.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)
_NO_STORE: Final = (b"cache-control", b"no-store")
_HTTPS_ONLY: Final = (b"strict-transport-security", b"max-age=31536000")


class TimeLimit:
    """Answers 503 after so many seconds, the body included. Threads that compute for the request end by themselves."""

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
            too_slow = Problem(
                503,
                "too-slow",
                f"there was no answer within {self._seconds:g} seconds (api.request_timeout); ask for less, or try"
                " again later. If something was to be changed, look first whether it was",
            )
            await too_slow.response(scope["path"])(scope, receive, send)


class LoopbackOnly:
    """Answers 421 unless ``Host`` is ``localhost`` or a loopback address; for a service without access control.

    Otherwise any site that a browser on this machine shows could read the answers under its own name, by making that
    name lead to this machine (DNS rebinding).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        # HTTP/1.0 needs no Host, and no browser speaks that.
        hosts = Headers(scope=scope).getlist("host") if scope["type"] == "http" else []
        if all(_is_loopback_host(host) for host in hosts):
            await self._app(scope, receive, send)
            return
        misdirected = Problem(
            421,
            "misdirected",
            "access control is off (access.mode), so that only requests for localhost, 127.0.0.1 or [::1] are answered,"
            f" got Host {hosts[0][:_MAX_SHOWN]!r}; ask there, or set access.mode to required",
        )
        await misdirected.response(scope["path"])(scope, receive, send)


def _is_loopback_host(host: str) -> bool:
    try:
        # Names that end in .localhost do not count: browsers resolve them to this machine, but other resolvers may not.
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


class SecurityHeaders:
    """Answers HEAD as GET without the body, and adds the headers that protect browsers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        head = scope["method"] == "HEAD"
        https = scope["scheme"] == "https"

        async def outgoing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": _completed(list(message["headers"]), https=https)}
            elif head and message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app({**scope, "method": "GET"} if head else scope, receive, outgoing)


def _completed(headers: list[tuple[bytes, bytes]], *, https: bool) -> list[tuple[bytes, bytes]]:
    names = {name for name, _ in headers}
    headers += _ALWAYS
    headers += (header for header in _UNLESS_SET if header[0] not in names)
    # An answer with an entity tag is revalidated. Any other without an explicit lifetime is not stored.
    if b"cache-control" not in names and b"etag" not in names:
        headers.append(_NO_STORE)
    if https:
        headers.append(_HTTPS_ONLY)
    return headers
