"""What the HTTP server says of itself, as series. No label is anything that a client sent: routes are templates."""

from typing import Final

from monitor.metrics.series import Series

REQUESTS: Final = Series(
    "calibration_http_requests_total",
    "counter",
    ("method", "route", "status"),
    "",
    "HTTP requests since the process started, by the template of the route; HEAD counts as GET. What there is no route "
    "for is `other`; status `none` is of those whose connection ended first.",
)
SECONDS: Final = Series(
    "calibration_http_request_seconds_total",
    "counter",
    ("method", "route"),
    "seconds",
    "What these requests took, from their headers to the end of their answer.",
)
REFUSALS: Final = Series(
    "calibration_access_refusals_total",
    "counter",
    ("reason",),
    "",
    "Requests that were refused: `missing` without a key or token, `wrong` with one that is nobody's, `forbidden` for "
    "lack of a role, `cross_site` from a page of another site, `failures` unread from an address of too many wrong "
    "ones, `requests` beyond the requests per second of one owner, `connections` closed unheard as too many were held.",
)

HTTP: Final = (REQUESTS, SECONDS, REFUSALS)
