"""Requests and refusals, as series."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from monitor.metrics import http_series as series
from monitor.metrics.family import Family


class Traffic(Protocol):
    """Counts requests."""

    @property
    def requests(self) -> Mapping[tuple[str, str, str], int]:
        """(method, route, status) -> requests."""
        ...

    @property
    def seconds(self) -> Mapping[tuple[str, str], float]:
        """(method, route) -> what they took together."""
        ...


class Refusals(Protocol):
    """Counts those refused."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Reason -> refusals. All reasons are there from the start, at 0: so rates work."""
        ...


class HttpFamilies:
    """The series of the HTTP server."""

    def __init__(self, traffic: Traffic, refusals: Refusals) -> None:
        self._traffic = traffic
        self._refusals = refusals

    def __call__(self) -> Iterator[Family]:
        """Read what was counted; requests go on being answered meanwhile."""
        # A dict's items become a list at once: no request comes in between.
        yield Family(series.REQUESTS, sorted(list(self._traffic.requests.items())))  # noqa: C414
        yield Family(series.SECONDS, sorted(list(self._traffic.seconds.items())))  # noqa: C414
        yield Family(series.REFUSALS, [((str(reason),), count) for reason, count in self._refusals.counts.items()])
