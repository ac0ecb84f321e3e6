"""Limits the rate of hits for each key, such as a client's address, in a sliding window."""

import ipaddress
import math
import time
from collections import OrderedDict
from typing import Final

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

MAX_KEYS: Final = 1024
"""Keys that are counted at one time. The least recently used one is evicted: a client with more addresses than these is
not stopped by counting them."""

_IPV6_NETWORK: Final = 64
"""Bits of an IPv6 address that identify one customer."""


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
    """At most so many hits for each key in a window. Use it in the event loop's thread.

    Parameters
    ----------
    amount
        Hits that a key may have in a window.
    seconds
        Length of the window.
    max_keys
        Keys that are counted at one time: the storage of `limits` has no bound of its own.
    """

    def __init__(self, amount: int, seconds: int, *, max_keys: int = MAX_KEYS) -> None:
        self._item = RateLimitItemPerSecond(amount, seconds)
        self._storage = MemoryStorage()
        self._limiter = MovingWindowRateLimiter(self._storage)
        self._max_keys = max_keys
        self._keys: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        """Keys that are counted now."""
        return len(self._keys)

    def hit(self, key: str) -> bool:
        """Count a hit; False, and nothing is counted, if the key has reached its limit."""
        self._keys[key] = None
        self._keys.move_to_end(key)
        while len(self._keys) > self._max_keys:
            self._evict(self._keys.popitem(last=False)[0])
        return self._limiter.hit(self._item, key)

    def wait_seconds(self, key: str) -> int | None:
        """Whole seconds until the key may have another hit; None if it may now."""
        if key not in self._keys or self._limiter.test(self._item, key):
            return None
        return max(1, math.ceil(self._limiter.get_window_stats(self._item, key).reset_time - time.time()))

    def _evict(self, key: str) -> None:
        full = self._item.key_for(key)
        # The storage expires its entries in a thread of its own, which fails on one that vanishes meanwhile.
        with self._storage.locks[full]:
            self._storage.clear(full)
