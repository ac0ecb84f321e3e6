"""How many connections each address holds, so that none takes those of all others."""

from collections import Counter
from typing import Final

from monitor.http.addresses import origin_of
from monitor.http.refusals import Reason, Refusals

MOST: Final = 768
"""Connections at one time, unless somebody says otherwise: with 256 for logs, store and broker they are within the 1024
files that a process may usually open."""


class Connections:
    """Counts the connections that are held. Belongs to the event loop's thread.

    **An address may hold as many as are left free**: alone half of all, beside another that does so a quarter, and so
    on. So whoever comes new, such as a probe or a scraper, is let in until many addresses have agreed to keep it out,
    and no address needs to be known as a proxy's. What was let in stays.

    Parameters
    ----------
    most
        How many there may be at one time.
    refusals
        Where those that are refused are counted and told of.
    """

    def __init__(self, most: int = MOST, refusals: Refusals | None = None) -> None:
        self._most = most
        self._refusals = refusals or Refusals()
        self._held: Counter[str] = Counter()
        self.total = 0
        """Connections that are held now."""

    def take(self, host: str) -> str | None:
        """Count one from there.

        Returns
        -------
        What :meth:`release` takes; None, and nothing is counted, if there are too many.
        """
        origin = origin_of(host)
        if self._held[origin] >= self._most - self.total:
            self._refusals.note(Reason.CONNECTIONS, origin)
            return None
        self._held[origin] += 1
        self.total += 1
        return origin

    def release(self, origin: str) -> None:
        """One of those has ended."""
        self.total -= 1
        self._held[origin] -= 1
        if not self._held[origin]:
            del self._held[origin]
