"""Where access control is off: who asks must have meant this machine.

Then every page that somebody opens in a browser on this machine may ask here. Of other sites' pages the browser shows
them no answer, unless their site's name leads to this machine meanwhile (DNS rebinding): the header Host tells.
"""

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from monitor.access.oidc import is_loopback
from monitor.http.problems import Problem

_MOST_SHOWN: Final = 80


class LocalOnly:
    """Middleware: answers those alone who ask for ``localhost``, or a loopback address.

    Parameters
    ----------
    app
        What answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 421."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        hosts = Headers(scope=scope).getlist("host")
        # HTTP/1.0 needs none, and no browser speaks that.
        if all(_is_local(host) for host in hosts):
            await self._app(scope, receive, send)
            return
        await _misdirected(hosts[0]).response(scope["path"])(scope, receive, send)


def _is_local(host: str) -> bool:
    try:
        # Of names that end in .localhost browsers ask nobody else either, but resolvers may.
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _misdirected(host: str) -> Problem:
    return Problem(
        421,
        "misdirected",
        "access control is off (access.mode), so that only requests for localhost, 127.0.0.1 or [::1] are answered, got"
        f" Host {host[:_MOST_SHOWN]!r}; ask there, or set access.mode to required",
    )
