"""The series of the HTTP server. No label holds anything that a client sent: routes are templates."""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from monitor.metrics.series import Family, Series, read_families


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
    """Counts refused requests."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Reason -> refusals. All reasons are there from the start, at 0, so that rates work."""
        ...


# Requests are counted meanwhile: list() copies a dict's items at once, before they are sorted.
TRAFFIC: Final[tuple[Series[Traffic], ...]] = (
    Series(
        "calibration_http_requests_total",
        "HTTP requests since the process started, by the template of the route; HEAD counts as GET. What there is no "
        "route for is `other`; status `none` is of those whose connection ended first.",
        lambda traffic: sorted(list(traffic.requests.items())),  # noqa: C414
        ("method", "route", "status"),
    ),
    Series(
        "calibration_http_request_seconds_total",
        "What these requests took, from their headers to the end of their answer.",
        lambda traffic: sorted(list(traffic.seconds.items())),  # noqa: C414
        ("method", "route"),
    ),
)
REFUSALS: Final[tuple[Series[Refusals], ...]] = (
    Series(
        "calibration_access_refusals_total",
        "Requests that were refused: `missing` without a key or token, `wrong` with one that is nobody's, `forbidden` "
        "for lack of a role, `cross_site` from a page of another site, `failures` unread from an address of too many "
        "wrong ones, `requests` beyond the requests per second of one owner, `connections` closed unheard as too many "
        "were held.",
        lambda refusals: [((str(reason),), count) for reason, count in refusals.counts.items()],
        ("reason",),
    ),
)


class HttpFamilies:
    """The families of the HTTP server."""

    def __init__(self, traffic: Traffic, refusals: Refusals) -> None:
        self._traffic = traffic
        self._refusals = refusals

    def __call__(self) -> Iterator[Family]:
        """Read what was counted."""
        yield from read_families(TRAFFIC, [((), self._traffic)])
        yield from read_families(REFUSALS, [((), self._refusals)])
