"""HTTP client for a running service, used by the CLI and RecalibrationClient."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx

from monitor.errors import (
    Conflict,
    Forbidden,
    InputError,
    MonitorError,
    ServiceUnavailable,
    Unauthenticated,
    UnknownAlert,
    UnknownRecalibration,
    UnknownSeries,
)
from monitor.urls import wrong_address

API_KEY: Final = "MONITOR_API_KEY"
"""The environment variable with the default API key."""

ApiKey = str | Callable[[], str]
"""An API key or token; or a function that returns the current one."""

_KINDS: Final[Mapping[str, type[MonitorError]]] = {
    "unauthenticated": Unauthenticated,
    "forbidden": Forbidden,
    "unknown-series": UnknownSeries,
    "unknown-recalibration": UnknownRecalibration,
    "unknown-alert": UnknownAlert,
    "conflict": Conflict,
}


def key_of_environment() -> str | None:
    """Return the API key from the environment, or None. A trailing newline, as from a file, is removed."""
    return os.environ.get(API_KEY, "").strip() or None


def connect(
    base_url: str,
    *,
    timeout_seconds: float,
    api_key: ApiKey | None = None,
    headers: Mapping[str, str] | None = None,
    transport: httpx.BaseTransport | None = None,
) -> httpx.Client:
    """Create a client for the service at this address; ``localhost:8000`` means ``http://localhost:8000``.

    Raises
    ------
    InputError
        The address is not an HTTP URL, or the key is malformed.
    """
    try:
        url = httpx.URL(base_url if "://" in base_url else f"http://{base_url}")
    except httpx.InvalidURL as error:
        raise InputError(f"the service's address {base_url!r} is no URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise InputError(f"the service's address must be like http://localhost:8000, got {base_url!r}")
    wrong = wrong_address(url.host, url.port)
    if wrong:
        raise InputError(f"the service's address {wrong}: {base_url!r}")
    return httpx.Client(
        base_url=url,
        timeout=timeout_seconds,
        # httpx does not send the key to another host after a redirect.
        auth=None if api_key is None else _bearer(api_key),
        headers=dict(headers or {}),
        transport=transport,
        follow_redirects=True,
    )


def _bearer(api_key: ApiKey) -> Callable[[httpx.Request], httpx.Request]:
    """Return what adds the API key or token to each request."""
    if isinstance(api_key, str):
        _check_key(api_key)

    def add_header(request: httpx.Request) -> httpx.Request:
        key = api_key if isinstance(api_key, str) else _check_key(api_key())
        request.headers["authorization"] = f"Bearer {key}"
        return request

    return add_header


def _check_key(key: str) -> str:
    """Return the key; raise InputError if it is malformed, without repeating it."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(
            f"the API key must be one word of ASCII letters, as `monitor keys create` prints it, got {len(key)} "
            "characters of which some are others"
            if key
            else "the API key is empty; `monitor keys create` makes one"
        )
    return key


def send_request(http: httpx.Client, method: str, path: str, **options: Any) -> httpx.Response:
    """Send a request; convert error responses to exceptions of this package.

    Raises
    ------
    UnknownSeries, UnknownRecalibration, UnknownAlert, Conflict, InputError, Unauthenticated, Forbidden
        The service refused the request; the message is the service's.
    ServiceUnavailable
        It does not respond, or is not able to.
    """
    try:
        response = http.request(method, path, **options)
    except httpx.TimeoutException as error:
        raise ServiceUnavailable(f"the service at {http.base_url} did not answer in time") from error
    except httpx.HTTPError as error:
        raise ServiceUnavailable(f"the service at {http.base_url} does not answer: {error}") from error
    if response.status_code < 400:
        return response
    kind, detail = read_problem(response)
    refusal: MonitorError
    if response.status_code >= 500 or response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        refusal = ServiceUnavailable(f"the service at {http.base_url} cannot answer: {detail}")
    else:
        refusal = _KINDS.get(kind, InputError)(detail)
    refusal.problem = kind
    raise refusal


def request_document(http: httpx.Client, method: str, path: str, **options: Any) -> dict[str, Any]:
    """Send a request and return the JSON object that the service answers; raises as :func:`send_request`."""
    response = send_request(http, method, path, **options)
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ServiceUnavailable(describe_foreign(response))
    return document


def describe_foreign(response: httpx.Response) -> str:
    """Describe a response that is none of the service, such as the page of a proxy."""
    content_type = response.headers.get("content-type", "no content type")
    return (
        f"{_describe_status(response)} with {content_type}, which is no answer of the service: does a proxy or a log-in"
        " page answer in its place?"
    )


def read_problem(response: httpx.Response) -> tuple[str, str]:
    """Return type and detail of a problem document; for other bodies, such as those of a proxy, the status."""
    try:
        problem = response.json()
        return str(problem["type"]).rpartition(":")[2], str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        return "", _describe_status(response)


def _describe_status(response: httpx.Response) -> str:
    return f"{response.request.method} {response.url} is answered {response.status_code} {response.reason_phrase}"
