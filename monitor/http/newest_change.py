"""The newest change of any alert: read from the store once, however many streams of events wait for it."""

import asyncio
from typing import Final

from monitor.http.limits import ConcurrencyLimit
from monitor.store.alerts import AlertStore

POLL_SECONDS: Final = 0.5
"""Less than the grace that requests have at the end."""


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
