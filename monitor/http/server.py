"""The HTTP server: uvicorn in a thread of its own, with a graceful end."""

import asyncio
import errno
import ipaddress
import socket
import ssl
import sys
import threading
from functools import partial
from typing import Final, Self, cast

import structlog
import uvicorn
from starlette.types import ASGIApp

from monitor.errors import PortTaken, SettingsError
from monitor.http.connections import Connections, LimitedProtocol
from monitor.http.tls import Certificate
from monitor.urls import is_loopback

_START_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.005
_MAX_USER_TIMEOUT_MS: Final = 2**31 - 1
"""The longest that the system accepts, some 25 days."""

_REASONS: Final = {
    errno.EADDRINUSE: "the port is taken; end what listens there, or set another port (0 takes a free one)",
    errno.EACCES: "this user may not; set a port from 1024 on",
    errno.EADDRNOTAVAIL: "this machine has no such address; 127.0.0.1 is this machine alone, 0.0.0.0 all its addresses",
}

_log = structlog.get_logger(__name__)


def listen(host: str, port: int) -> socket.socket:
    """Listen at an address. Raises SettingsError or PortTaken, which says why that is not possible and what to do."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        if is_loopback(host) and not is_loopback(str(address[0])):
            # Without access control, the loopback address alone keeps others out.
            raise SettingsError(
                f"api.host {host} is {address[0]} on this machine, which others may reach: set 127.0.0.1, or"
                " fix its entry in /etc/hosts"
            )
        return socket.create_server(address[:2], family=family, backlog=2048)
    except socket.gaierror as error:
        raise SettingsError(
            f"api.host {host!r} is no address of this machine ({error.strerror}); "
            "127.0.0.1 is this machine alone, 0.0.0.0 all its addresses"
        ) from error
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, error.strerror or error)
        kind = PortTaken if error.errno == errno.EADDRINUSE else SettingsError
        raise kind(f"api.port: cannot listen on {host}:{port}: {reason}") from error


class ApiServer:
    """An HTTP server. Use once: ``start``, then ``stop``; or as a context manager.

    Parameters
    ----------
    app
        The ASGI app.
    host, port
        Where to listen; port 0 takes a free one, which is in :attr:`port` after ``start``.
    grace_seconds
        How long ``stop`` waits for running requests.
    max_header_bytes, header_seconds
        Limits of request line and headers together. A client that reads nothing of an answer for ``header_seconds`` is
        disconnected, too.
    connections
        Counts open connections, and refuses further ones.
    certificate
        For https, which is then the only scheme; None: http.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        grace_seconds: float = 5.0,
        max_header_bytes: int = 32 * 1024,
        header_seconds: float = 30.0,
        connections: Connections | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._grace_seconds = grace_seconds
        self._user_timeout_seconds = header_seconds
        config = uvicorn.Config(
            app,
            http=cast(
                "type[asyncio.Protocol]",
                partial(
                    LimitedProtocol,
                    max_header_bytes=max_header_bytes,
                    header_seconds=header_seconds,
                    open_connections=Connections() if connections is None else connections,
                ),
            ),
            ws="none",
            lifespan="off",
            # The process configures logging, and a proxy in front may log every request.
            log_config=None,
            # Clients that do not speak HTTP must not fill the log.
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
            **({} if certificate is None else certificate.options),
        )
        # Loaded here, so that the context in which certificates are renewed exists.
        config.load()
        self._certificate = certificate
        self._context = config.ssl
        if self._context is not None:
            # Python's own default, which some distributions leave to the system's OpenSSL.
            self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._ended = threading.Event()
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    @property
    def port(self) -> int:
        """The port of the listener; before ``start``, the configured one."""
        return self._port

    @property
    def url(self) -> str:
        """The URL of the page for a browser on this machine."""
        scheme = "http" if self._certificate is None else "https"
        try:
            address = ipaddress.ip_address(self._host)
        except ValueError:
            return f"{scheme}://{self._host}:{self._port}"
        if address.is_unspecified:
            return f"{scheme}://localhost:{self._port}"
        return f"{scheme}://[{address}]:{self._port}" if address.version == 6 else f"{scheme}://{address}:{self._port}"

    def start(self) -> None:
        """Listen, and return once requests are answered.

        Raises
        ------
        SettingsError
            The address or the port is not available. Says why, and what to do.
        """
        listener = listen(self._host, self._port)
        if sys.platform == "linux":
            # Inherited by every connection: it ends when the client reads nothing of an answer for so long.
            timeout_ms = min(round(1000 * self._user_timeout_seconds), _MAX_USER_TIMEOUT_MS)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, timeout_ms)
        self._port = listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, args=(listener,), name="api", daemon=True)
        self._thread.start()
        if not self._answers(self._thread):
            self.stop()
            raise RuntimeError(f"the HTTP server did not start: {self._failure or 'it did not answer in time'}")
        if self._certificate is not None and self._context is not None:
            renewing = (self._context, self._ended)
            threading.Thread(
                target=self._certificate.keep_renewed, args=renewing, name="certificate", daemon=True
            ).start()
        _log.info("listening", url=self.url)

    def stop(self) -> None:
        """Accept no more requests, wait for running ones, and return when the thread has ended."""
        if self._thread is None:
            return
        self._ended.set()
        self._server.should_exit = True
        # uvicorn's own grace period, and as long again for requests that exceed it.
        self._thread.join(2 * self._grace_seconds + 1)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(self._grace_seconds)
        self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _run(self, listener: socket.socket) -> None:
        try:
            with listener:
                self._server.run(sockets=[listener])
        except BaseException as error:  # noqa: BLE001 - otherwise the thread would end silently
            self._failure = error
            _log.error("the HTTP server ended", exc_info=error)

    def _answers(self, thread: threading.Thread) -> bool:
        """Wait until the server has started; False if it has not in time."""
        for _ in range(round(_START_SECONDS / _POLL_SECONDS)):
            if self._server.started or not thread.is_alive():
                break
            thread.join(_POLL_SECONDS)
        return self._server.started and thread.is_alive()
