"""How often somebody may ask, in a window that moves with the clock."""

import math
import time
from collections import OrderedDict
from typing import Final

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

MOST_KEYS: Final = 1024
"""Addresses, or names, that are remembered at one time. The one that was not heard of for longest is forgotten first:
whoever has more addresses than these is not stopped by counting them."""


class Throttle:
    """So many hits of each key in a window. Belongs to the event loop's thread.

    Parameters
    ----------
    amount
        Hits that a key may have in a window.
    seconds
        Length of the window.
    most_keys
        Keys that are counted at one time.
    """

    def __init__(self, amount: int, seconds: int, *, most_keys: int = MOST_KEYS) -> None:
        self._item = RateLimitItemPerSecond(amount, seconds)
        self._storage = MemoryStorage()
        self._limiter = MovingWindowRateLimiter(self._storage)
        self._most_keys = most_keys
        self._keys: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        """Keys that are counted now."""
        return len(self._keys)

    def hit(self, key: str) -> bool:
        """Count one; False, and nothing is counted, if the key has had all of its hits."""
        self._keys[key] = None
        self._keys.move_to_end(key)
        while len(self._keys) > self._most_keys:
            self._forget(self._keys.popitem(last=False)[0])
        return self._limiter.hit(self._item, key)

    def wait_seconds(self, key: str) -> int | None:
        """Whole seconds until the key's next hit counts; None if that is now."""
        if key not in self._keys or self._limiter.test(self._item, key):
            return None
        return max(1, math.ceil(self._limiter.get_window_stats(self._item, key).reset_time - time.time()))

    def _forget(self, key: str) -> None:
        full = self._item.key_for(key)
        # The storage ages its entries in a thread of its own, and would stumble over one that vanishes meanwhile.
        with self._storage.locks[full]:
            self._storage.clear(full)
