"""Server-sent events: answers that stay open, of which there are only so many at one time."""

from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from monitor.http.problems import Problem
from monitor.http.responses import Responses
from monitor.http.services import Services

EVENT_STREAM: Final = "text/event-stream"
HEARTBEAT_SECONDS: Final = 15.0


def event_response(example: str) -> Responses:
    """The ``responses`` entry of a stream. Its schema is empty: that would be of one event."""
    return {200: {"description": "Events", "content": {EVENT_STREAM: {"schema": {}, "example": example}}}}


class EventStream(StreamingResponse):
    """Holds one of the caller's share of streams for as long as it is open; 503 if the caller has its share.

    Parameters
    ----------
    services
        Share the streams.
    caller
        Whose stream it is.
    events
        The text of the stream, whole events at a time.
    otherwise
        What a client can do instead.
    """

    def __init__(self, services: Services, caller: str, events: AsyncIterator[str], otherwise: str) -> None:
        super().__init__(
            events,
            media_type=EVENT_STREAM,
            # Or nginx keeps events back.
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        self._streams = services.streams
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
