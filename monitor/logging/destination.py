"""The contract of a destination: where logged events go."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from monitor.events.model import Kind

_PAUSE_SECONDS: Final = 5e-5


class EncodedEvent(NamedTuple):
    """An event, ready to be sent."""

    kind: Kind
    key: bytes
    """The prediction's id in UTF-8, by which a topic is partitioned."""
    value: bytes
    """JSON."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a batch.

    Attributes
    ----------
    undelivered
        The events to send again.
    error
        Why.
    too_large
        Whether fewer at a time may be accepted; one alone will never be.
    rejected
        How many were refused for good.
    detail
        Why the first of these was.
    """

    undelivered: Sequence[EncodedEvent] = ()
    error: str = ""
    too_large: bool = False
    rejected: int = 0
    detail: str = ""


class Destination(Protocol):
    """Where events go. All calls come from one thread, but for :meth:`forget_connection`."""

    def deliver(self, events: Sequence[EncodedEvent], seconds_left: Callable[[], float]) -> Delivery:
        """Send events, in this order, and wait until they are durable.

        Parameters
        ----------
        events
            The events. What was undelivered is passed again, until it is delivered or the time is over; in halves if it
            was too large.
        seconds_left
            How long the caller can wait: infinite until the scorer ends.
        """
        ...

    def close(self) -> None:
        """Disconnect."""
        ...

    def forget_connection(self) -> None:
        """Drop the connection without using it: it belongs to the parent of this forked process."""
        ...


def release_gil() -> None:
    """Let the scorer's threads run.

    The background thread does so between pieces of less than half a millisecond. Otherwise a thread that comes back
    from waiting for a socket would get the interpreter's lock only after the switch interval (5 ms).
    """
    time.sleep(_PAUSE_SECONDS)
