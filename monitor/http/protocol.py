"""HTTP as uvicorn speaks it, with limits to connections, and to how long, and how large, what stands before bodies is.

uvicorn's parser takes headers of any size for as long as they come, before the app hears of the request.
"""

import asyncio
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from monitor.http.connections import Connections


def bounded_protocol(max_header_bytes: int, header_seconds: float, connections: Connections) -> type[asyncio.Protocol]:
    """The protocol with these limits, as uvicorn's configuration takes it.

    Parameters
    ----------
    max_header_bytes
        Request line and headers together.
    header_seconds
        How long they may take to come, and how long after an answer the next request may take to begin. Where nothing
        comes at all, uvicorn's own limit between requests is shorter; any byte ends it, be it of a body that was
        answered before it was read.
    connections
        Counts them, and says whether there may be another.
    """

    class Bounded(_Bounded):
        _max_header_bytes = max_header_bytes
        _header_seconds = header_seconds
        _connections = connections

    return Bounded


class _Bounded(HttpToolsProtocol):
    _max_header_bytes: int
    _header_seconds: float
    _connections: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._counted: str | None = None
        """Among whose connections it is."""
        self._answering: RequestResponseCycle | None = None
        """The request that is answered; ``cycle`` is the last one that came."""
        self._reading_head = True
        self._head_bytes = 0
        """Of the head that is being read: what came in, at least."""
        self._parsed_bytes = 0
        """Likewise, what was parsed: a head may come in one piece with its body."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._rest_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection."""
        super().connection_made(transport)  # type: ignore[arg-type]  # uvicorn narrows it to what asyncio hands over
        self._counted = self._connections.take(self.client[0] if self.client is not None else "")
        if self._counted is None:
            # Unanswered: to be read, an answer would have to wait for whoever is meant to be gone.
            self.transport.abort()
            return
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of a connection."""
        self._stop_waiting()
        self._stop_resting()
        if self._counted is not None:
            self._connections.release(self._counted)
            self._counted = None
        if self._answering is not None:
            # uvicorn tells only the last request that came. The one that is answered would write on, and fail.
            self._answering.disconnected = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        began_in_head = self._reading_head
        super().data_received(data)
        if began_in_head and self._reading_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._max_header_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._stop_resting()
        self._reading_head = True
        self._head_bytes = self._parsed_bytes = 0
        if self._head_timer is None:
            self._await_head()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request line."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End the head."""
        self._reading_head = False
        self._stop_waiting()
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
        self._stop_resting()
        self._rest_timer = self.loop.call_later(self._header_seconds, self.transport.close)

    def _count(self, size: int) -> None:
        self._parsed_bytes += size
        if self._parsed_bytes > self._max_header_bytes:
            # Ends the parser; uvicorn answers 400 and closes.
            raise httptools.HttpParserError("the headers are too large")

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self._header_seconds, self._refuse, HTTPStatus.REQUEST_TIMEOUT)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_resting(self) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    def _refuse(self, status: HTTPStatus) -> None:
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            # Never into the middle of an answer to the request before.
            line = f"HTTP/1.1 {status.value} {status.phrase}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(line.encode())
        self.transport.close()
