"""Serves an app in a thread of its own, with a graceful end."""

import errno
import ipaddress
import socket
import sys
import threading
from typing import Final, Self

import structlog
import uvicorn
from starlette.types import ASGIApp

from monitor.access.oidc import is_loopback
from monitor.errors import SettingsError
from monitor.http.connections import Connections, limited_protocol
from monitor.http.tls import Certificate

_START_SECONDS: Final = 30.0
_MOST_PATIENCE_MS: Final = 2**31 - 1
"""The longest that the system takes, some 25 days."""

_log = structlog.get_logger(__name__)


class ApiServer:
    """An HTTP server. Use once: ``start``, then ``stop``; or as a context manager.

    Parameters
    ----------
    app
        What answers.
    host, port
        Where to listen; port 0 takes a free one, which :attr:`port` names after ``start``.
    grace_seconds
        How long ``stop`` lets requests finish that are under way.
    max_header_bytes, header_seconds
        How large request line and headers may be together, and how long they may take to come; as long, nothing of an
        answer may be taken.
    connections
        Counts those that are held, and refuses further ones.
    certificate
        Shown to whoever connects, over https alone; None: http.
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
        self._untaken_seconds = header_seconds
        config = uvicorn.Config(
            app,
            http=limited_protocol(
                max_header_bytes, header_seconds, Connections() if connections is None else connections
            ),
            ws="none",
            lifespan="off",
            # Logging belongs to the process, and a log of every request to whatever stands in front.
            log_config=None,
            # Whoever sends what is no HTTP shall not fill the log.
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
            **({} if certificate is None else certificate.options),
        )
        # Here, so that it is known in which context certificates are renewed.
        config.load()
        self._certificate = certificate
        self._context = config.ssl
        self._ended = threading.Event()
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; the one asked for before ``start``."""
        return self._port

    @property
    def url(self) -> str:
        """Where a browser on this machine finds the page."""
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
            The address or the port cannot be had. Says why, and what to do.
        """
        listener = self._listen()
        self._port = listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, args=(listener,), name="api", daemon=True)
        self._thread.start()
        if not self._answers():
            self.stop()
            raise RuntimeError(f"the HTTP server did not start: {self._failure or 'no sign of life'}")
        if self._certificate is not None and self._context is not None:
            renewing = (self._context, self._ended)
            threading.Thread(
                target=self._certificate.keep_renewed, args=renewing, name="certificate", daemon=True
            ).start()
        _log.info("listening", url=self.url)

    def stop(self) -> None:
        """Take no more requests, let those under way finish, and return when the thread has ended."""
        if self._thread is None:
            return
        self._ended.set()
        self._server.should_exit = True
        # uvicorn's own grace, and as much again for what does not heed it.
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

    def _listen(self) -> socket.socket:
        where = f"{self._host}:{self._port}"
        try:
            family, _, _, _, address = socket.getaddrinfo(
                self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            if is_loopback(self._host) and not is_loopback(str(address[0])):
                # Without access control, the name is all that keeps others out.
                raise SettingsError(
                    f"api.host {self._host} is {address[0]} on this machine, which others may reach: set 127.0.0.1, or"
                    " mend its entry in /etc/hosts"
                )
            listener = socket.create_server(address[:2], family=family, backlog=2048)
        except socket.gaierror as error:
            raise SettingsError(
                f"api.host {self._host!r} is no address of this machine ({error.strerror}); "
                "127.0.0.1 is this machine alone, 0.0.0.0 all its addresses"
            ) from error
        except OSError as error:
            raise SettingsError(f"api.port: cannot listen on {where}: {_why(error)}") from error
        if sys.platform == "linux":
            # Every connection inherits it: one whose reader takes nothing of an answer for so long is at its end.
            patience_ms = min(round(1000 * self._untaken_seconds), _MOST_PATIENCE_MS)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience_ms)
        return listener

    def _run(self, listener: socket.socket) -> None:
        try:
            with listener:
                self._server.run(sockets=[listener])
        except BaseException as error:  # noqa: BLE001 - a thread's end is otherwise silent
            self._failure = error
            _log.error("the HTTP server ended", exc_info=error)

    def _answers(self) -> bool:
        """Wait until the server has started; False if it has not in time."""
        thread = self._thread
        waited = 0.0
        while thread is not None and thread.is_alive() and waited < _START_SECONDS:
            if self._server.started:
                return True
            thread.join(0.005)
            waited += 0.005
        return False


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is taken; end what listens there, or set another port (0 takes a free one)"
    if error.errno == errno.EACCES:
        return "this user may not; set a port from 1024 on"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address; 127.0.0.1 is this machine alone, 0.0.0.0 all its addresses"
    return str(error.strerror or error)
