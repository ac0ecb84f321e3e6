"""The limits of requests: their sizes and times, how many run at one time, and how often a client may send one."""

import asyncio
import ipaddress
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from monitor.clock import Clock
from monitor.http.problems import Problem

MAX_KEYS: Final = 1024
"""Keys that are counted at one time. The least recently used one is evicted: a client with more addresses than these is
not stopped by counting them."""

_IPV6_NETWORK: Final = 64
"""Bits of an IPv6 address that identify one customer."""

T = TypeVar("T")


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
        self._limiter = anyio.CapacityLimiter(max_running)

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


class Shares:
    """Shares places among callers: connections, streams or bytes. Use it in the event loop's thread.

    One caller may hold at most half of the places that the others leave free: alone half of all, beside another one
    that holds its half a quarter, and so on. So a new caller gets a place until many others work together. Places that
    are held stay.

    Parameters
    ----------
    max_places
        How many there are.
    """

    def __init__(self, max_places: int) -> None:
        self.max_places = max_places
        self._held: Counter[str] = Counter()
        self.total = 0
        """Places that are held."""

    def acquire(self, caller: str, places: int = 1) -> bool:
        """Hold places for this caller; False, and nothing is counted, if that is more than its share."""
        if self._held[caller] + places > self.max_places - self.total:
            return False
        self._held[caller] += places
        self.total += places
        return True

    def release(self, caller: str, places: int = 1) -> None:
        """Free places of this caller."""
        self.total -= places
        self._held[caller] -= places
        if not self._held[caller]:
            del self._held[caller]

    @contextmanager
    def held_by(self, caller: str) -> Iterator[Callable[[int], bool]]:
        """Yield :meth:`acquire` for this caller; what it acquired is released at the end of the block."""
        held = 0

        def acquire(places: int) -> bool:
            nonlocal held
            if not self.acquire(caller, places):
                return False
            held += places
            return True

        try:
            yield acquire
        finally:
            self.release(caller, held)


def client_network(host: str) -> str:
    """An IPv4 address, or the /64 network of an IPv6 address, which is one customer's; other texts unchanged."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or "unknown"
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), _IPV6_NETWORK), strict=False))


class RateLimit:
    """At most so many hits for each key in a sliding window. Use it in the event loop's thread.

    Parameters
    ----------
    amount
        Hits that a key may have in a window.
    seconds
        Length of the window.
    clock
        Measures the window.
    """

    def __init__(self, amount: int, seconds: float, clock: Clock) -> None:
        self._amount = amount
        self._seconds = seconds
        self._clock = clock
        self._hits: OrderedDict[str, deque[float]] = OrderedDict()
        """Times of the last hits of each key; the least recently used key first."""

    def __len__(self) -> int:
        """Keys that are counted now."""
        return len(self._hits)

    def hit(self, key: str) -> bool:
        """Count a hit; False, and nothing is counted, if the key has reached its limit."""
        hits = self._hits.setdefault(key, deque(maxlen=self._amount))
        self._hits.move_to_end(key)
        if len(self._hits) > MAX_KEYS:
            self._hits.popitem(last=False)
        if self.wait_seconds(key) is not None:
            return False
        hits.append(self._clock.monotonic())
        return True

    def wait_seconds(self, key: str) -> int | None:
        """Whole seconds until the key may have another hit; None if it may now."""
        hits = self._hits.get(key)
        if hits is None or len(hits) < self._amount:
            return None
        wait = hits[0] + self._seconds - self._clock.monotonic()
        return math.ceil(wait) if wait > 0.0 else None
