"""Server-sent events: answers that stay open, of which there are only so many, and the change that they wait for."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from monitor.http.limits import ConcurrencyLimit, Shares
from monitor.http.problems import Problem
from monitor.http.responses import Responses
from monitor.store.alerts import AlertStore

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.5
"""Less than the grace that requests have at the end."""


def event_response(example: str) -> Responses:
    """The ``responses`` entry of a stream. Its schema is empty: that would be of one event."""
    return {200: {"description": "Events", "content": {EVENT_STREAM: {"schema": {}, "example": example}}}}


class EventStream(StreamingResponse):
    """Holds one of the caller's share of streams for as long as it is open; 503 if the caller has its share.

    Parameters
    ----------
    streams
        How many are open, by caller.
    caller
        Whose stream it is.
    events
        The text of the stream, whole events at a time.
    otherwise
        What a client can do instead.
    """

    def __init__(self, streams: Shares, caller: str, events: AsyncIterator[str], otherwise: str) -> None:
        super().__init__(
            events,
            media_type=EVENT_STREAM,
            # Or nginx keeps events back.
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        self._streams = streams
        self._caller = caller
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        streams = self._streams
        with streams.held_by(self._caller) as acquire:
            if not acquire(1):
                raise Problem(
                    503,
                    "busy",
                    f"{streams.total} streams of events are open of the {streams.max_places} that there may be, and"
                    f" one caller may have as many as it leaves free; close one, or {self._otherwise}",
                )
            await super().__call__(scope, receive, send)


class NewestChange:
    """Reads the number of the newest change of any alert. Use it in the event loop's thread.

    Parameters
    ----------
    alerts
        The alerts and their changes.
    lookups
        Limits the queries at one time.
    """

    def __init__(self, alerts: AlertStore, lookups: ConcurrencyLimit) -> None:
        self._alerts = alerts
        self._lookups = lookups
        self._reading: asyncio.Future[int] | None = None
        self._due = 0.0

    async def read(self) -> int:
        """The number, as it was at most ``POLL_SECONDS`` ago; 0 if there is no change.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        Problem
            503: other queries left no place in time.
        """
        now = asyncio.get_running_loop().time()
        if self._reading is None or (self._reading.done() and now >= self._due):
            self._reading = asyncio.ensure_future(self._lookups.run(self._alerts.newest_change))
            self._due = now + POLL_SECONDS
        # A stream that ends does not end the query for the others.
        return await asyncio.shield(self._reading)
