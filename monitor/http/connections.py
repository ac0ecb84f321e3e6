"""Limits of connections: how many an address may have, and how long and large the headers of a request may be.

uvicorn limits connections in total only (``limit_concurrency``), and the parser that it uses takes headers of any size
for as long as they come: see docs/decisions/0016-http-and-its-libraries.md.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from monitor.clock import SystemClock
from monitor.http.limits import Shares, client_network
from monitor.http.request_log import RefusalReason, RefusedRequests

MAX_CONNECTIONS: Final = 768
"""The default: with 256 files for logs, store and broker they are within the usual 1024 of a process."""


class Connections:
    """Shares connections among addresses, and counts those that are refused. Use it in the event loop's thread.

    So a new client, such as a probe or a scraper, is accepted until many addresses work together, and no address has to
    be declared as a proxy's.

    Parameters
    ----------
    max_connections
        How many there may be at one time.
    refused
        Counts refused connections.
    """

    def __init__(self, max_connections: int = MAX_CONNECTIONS, refused: RefusedRequests | None = None) -> None:
        self._refused = refused or RefusedRequests(clock=SystemClock())
        self._open = Shares(max_connections)
        self.release = self._open.release
        """Count the end of a connection of a network."""

    @property
    def total(self) -> int:
        """Open connections."""
        return self._open.total

    def acquire(self, host: str) -> str | None:
        """Count a connection from this host.

        Returns
        -------
        The argument of ``release``; None, and nothing is counted, if there are too many.
        """
        network = client_network(host)
        if self._open.acquire(network):
            return network
        self._refused.count(RefusalReason.CONNECTIONS, network)
        return None


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits. :class:`ApiServer` gives uvicorn a partial of it as its class.

    Parameters
    ----------
    max_header_bytes
        Of request line and headers together.
    header_seconds
        How long they may take to arrive, and how long after an answer the next request may take to begin. If no byte
        arrives at all, uvicorn's own limit between requests is shorter; any byte ends that one, such as one of a body
        that was answered before it was read.
    open_connections
        Counts the connections, and refuses further ones.
    """

    def __init__(
        self,
        *args: Any,
        max_header_bytes: int,
        header_seconds: float,
        open_connections: Connections,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._max_header_bytes = max_header_bytes
        self._header_seconds = header_seconds
        self._open_connections = open_connections
        self._network: str | None = None
        """The argument of ``Connections.release``; None if the connection is not counted."""
        self._answering: RequestResponseCycle | None = None
        """The request that is being answered; ``cycle`` is the last one that came."""
        self._reading_head = True
        self._received_bytes = 0
        """Bytes received of the head that is being read, at least."""
        self._parsed_bytes = 0
        """Likewise, bytes parsed: a head may come in one piece with its body."""
        self._timer: asyncio.TimerHandle | None = None
        """Ends the connection: while a head is read, or while the next one is awaited."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection, or close it if there are too many."""
        super().connection_made(transport)  # type: ignore[arg-type]  # uvicorn narrows the type that asyncio passes
        self._network = self._open_connections.acquire(self.client[0] if self.client is not None else "")
        if self._network is None:
            # Without an answer, because sending one would keep the connection open until the client has read it.
            self.transport.abort()
            return
        self._start_timer(self._refuse, HTTPStatus.REQUEST_TIMEOUT)

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._stop_timer()
        if self._network is not None:
            self._open_connections.release(self._network)
            self._network = None
        if self._answering is not None:
            # uvicorn marks only the last request that came. The one that is being answered would write on, and fail.
            self._answering.disconnected = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes, and count those of a head."""
        began_in_head = self._reading_head
        super().data_received(data)
        if began_in_head and self._reading_head:
            self._received_bytes += len(data)
            if self._received_bytes > self._max_header_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._received_bytes = self._parsed_bytes = 0
        if not self._reading_head:  # else the timer runs since the connection was made
            self._reading_head = True
            self._start_timer(self._refuse, HTTPStatus.REQUEST_TIMEOUT)

    def on_url(self, url: bytes) -> None:
        """Read a part of the request line."""
        self._count_parsed(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header."""
        self._count_parsed(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End the head."""
        self._reading_head = False
        self._stop_timer()
        super().on_headers_complete()
        if not self.pipeline:
            self._answering = self.cycle

    def on_response_complete(self) -> None:
        """End an answer."""
        self._answering = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self._reading_head or not self.cycle.response_complete or self.transport.is_closing():
            # The next request is here already, and has limits of its own.
            return
        self._start_timer(self.transport.close)

    def _count_parsed(self, size: int) -> None:
        self._parsed_bytes += size
        if self._parsed_bytes > self._max_header_bytes:
            # Ends the parser; uvicorn answers 400 and closes.
            raise httptools.HttpParserError("the headers are too large")

    def _start_timer(self, end: Callable[..., None], *args: object) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(self._header_seconds, end, *args)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: HTTPStatus) -> None:
        self._stop_timer()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            # Never into the middle of an answer to the request before.
            line = f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(line.encode())
        self.transport.close()
