"""Server-sent events: answers that stay open, of which there are only so many at one time."""

from collections.abc import AsyncIterator
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from monitor.http.problems import Problem
from monitor.http.responses import Responses
from monitor.http.services import Services

EVENT_STREAM: Final = "text/event-stream"
POLL_SECONDS: Final = 0.5
"""Less than the grace that requests have at the end."""
HEARTBEAT_SECONDS: Final = 15.0


def event_response(example: str) -> Responses:
    """The ``responses`` entry of a stream. Its schema is empty: that would be of one event."""
    return {200: {"description": "Events", "content": {EVENT_STREAM: {"schema": {}, "example": example}}}}


class EventStream(StreamingResponse):
    """Counts the stream for as long as it is open.

    Parameters
    ----------
    services
        Count the streams.
    events
        The text of the stream, whole events at a time.
    otherwise
        What a client can do instead.

    Raises
    ------
    Problem
        503: as many streams are open as may be.
    """

    def __init__(self, services: Services, events: AsyncIterator[str], otherwise: str) -> None:
        if services.open_streams >= services.limits.streams:
            raise Problem(
                503,
                "busy",
                f"{services.limits.streams} streams of events are open, and that is all there may be; close one, or "
                f"{otherwise}",
            )
        super().__init__(
            events,
            media_type=EVENT_STREAM,
            # Or nginx keeps events back.
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        self._services.open_streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._services.open_streams -= 1
