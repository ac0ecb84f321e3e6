"""The limits of requests, and how many of them are worked on at one time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import anyio
import anyio.to_thread

from monitor.http.problems import Problem

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a request may ask for.

    Attributes
    ----------
    report_bytes, event_bytes
        Largest body of POST /v1/reports (and of predictions to be recalibrated) and of POST /v1/events.
    body_seconds
        How long a request may take to send its body.
    computations
        Reports that are computed at one time; those of the latest snapshot are not computed and do not count.
    writes
        Requests of POST /v1/events that are written at one time.
    wait_seconds
        How long a request waits until it is computed or written.
    request_seconds
        How long a request may take, its body included.
    failures_per_minute
        Wrong keys and tokens of one address, after which its further ones are not checked.
    requests_per_second
        Requests of one API key, or of one token's owner.
    """

    report_bytes: int = 32 * 1024 * 1024
    event_bytes: int = 4 * 1024 * 1024
    body_seconds: float = 30.0
    computations: int = 2
    writes: int = 8
    wait_seconds: float = 10.0
    request_seconds: float = 120.0
    failures_per_minute: int = 30
    requests_per_second: int = 500


class ConcurrencyLimit:
    """Runs at most so many functions in threads at one time, so that quick answers stay quick.

    Parameters
    ----------
    max_running
        How many run at one time.
    wait_seconds
        How long a further one waits for a free place.
    """

    def __init__(self, max_running: int, wait_seconds: float) -> None:
        self._max_running = max_running
        self._wait_seconds = wait_seconds
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, compute: Callable[[], T], *, before: Callable[[], None] | None = None) -> T:
        """The result of ``compute``, run in a thread.

        Parameters
        ----------
        before
            Called in the event loop's thread just before ``compute`` starts; what it raises is raised.

        Raises
        ------
        Problem
            503: no place was free in time.
        """
        if self._limiter is None:  # a limiter belongs to the event loop that runs when it is made
            self._limiter = anyio.CapacityLimiter(self._max_running)
        limiter, borrower = self._limiter, object()
        try:
            async with asyncio.timeout(self._wait_seconds):
                await limiter.acquire_on_behalf_of(borrower)
        except TimeoutError:
            raise Problem(
                503,
                "busy",
                f"{self._max_running} requests like this are worked on at one time, and none was done within "
                f"{self._wait_seconds:g} seconds; try again later",
            ) from None
        try:
            if before is not None:
                before()
            work = asyncio.ensure_future(anyio.to_thread.run_sync(compute))
        except BaseException:
            limiter.release_on_behalf_of(borrower)
            raise

        def release(done: "asyncio.Future[T]") -> None:
            limiter.release_on_behalf_of(borrower)
            if not done.cancelled():
                # Mark the error as retrieved: the request may have ended before.
                done.exception()

        work.add_done_callback(release)
        # A request may end before its thread does, which cannot be stopped: the place is the thread's.
        return await asyncio.shield(work)
