"""What holds for every answer: HEAD is GET without the body, and what a browser may make of it."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ALWAYS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

_UNLESS_SET: Final = (
    # Pages bring their own policy. Everything else runs nothing, loads nothing, and stands in no frame.
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
)

_NO_STORE: Final = (b"cache-control", b"no-store")

_HTTPS_ONLY: Final = (b"strict-transport-security", b"max-age=31536000")

Headers = list[tuple[bytes, bytes]]


class Everywhere:
    """Middleware: answers HEAD, and adds the headers that browsers heed."""

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


def _completed(headers: Headers, *, https: bool) -> Headers:
    names = {name for name, _ in headers}
    headers += _ALWAYS
    headers += (each for each in _UNLESS_SET if each[0] not in names)
    # An answer with a tag is asked for again with it. Whatever else does not say how long it lasts is not kept.
    if b"cache-control" not in names and b"etag" not in names:
        headers.append(_NO_STORE)
    if https:
        headers.append(_HTTPS_ONLY)
    return headers
