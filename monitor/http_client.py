"""Asks a running service, over HTTP: for commands, and for the client of scorers."""

import os
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

import httpx

from monitor.errors import (
    Conflict,
    Forbidden,
    InputError,
    MonitorError,
    ServiceUnavailable,
    Unauthenticated,
    UnknownRecalibration,
    UnknownSeries,
)

API_KEY: Final = "MONITOR_API_KEY"
"""The environment variable that holds the API key, where none is given otherwise."""

ApiKey = str | Callable[[], str]
"""An API key or token; or what gives the one that holds now, where it changes while the process runs."""

_KINDS: Final[Mapping[str, type[MonitorError]]] = {
    "unauthenticated": Unauthenticated,
    "forbidden": Forbidden,
    "unknown-series": UnknownSeries,
    "unknown-recalibration": UnknownRecalibration,
    "conflict": Conflict,
}


def key_of_environment() -> str | None:
    """The API key of the environment, or None. A file of which it was made may have ended in a newline."""
    return os.environ.get(API_KEY, "").strip() or None


def connect(
    base_url: str,
    *,
    timeout_seconds: float,
    api_key: ApiKey | None = None,
    headers: Mapping[str, str] | None = None,
    transport: httpx.BaseTransport | None = None,
) -> httpx.Client:
    """A client of the service at this address; ``localhost:8000`` is ``http://localhost:8000``.

    Raises
    ------
    InputError
        It is no address of HTTP, or the key is none.
    """
    try:
        url = httpx.URL(base_url if "://" in base_url else f"http://{base_url}")
    except httpx.InvalidURL as error:
        raise InputError(f"the service's address {base_url!r} is no URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise InputError(f"the service's address must be like http://localhost:8000, got {base_url!r}")
    return httpx.Client(
        base_url=url,
        timeout=timeout_seconds,
        # Redirected to another host, httpx leaves the key behind.
        auth=None if api_key is None else _Bearer(api_key),
        headers=dict(headers or {}),
        transport=transport,
        follow_redirects=True,
    )


class _Bearer(httpx.Auth):
    """Shows an API key, or a token, with each request."""

    def __init__(self, api_key: ApiKey) -> None:
        if isinstance(api_key, str):
            _check_key(api_key)
        self._api_key = api_key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Add the header."""
        key = self._api_key if isinstance(self._api_key, str) else _check_key(self._api_key())
        request.headers["authorization"] = f"Bearer {key}"
        yield request


def _check_key(key: str) -> str:
    """The key. Raises InputError where it can be none, without repeating it."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(
            f"the API key must be one word of ASCII letters, as `monitor keys create` prints it, got {len(key)} "
            "characters of which some are others"
            if key
            else "the API key is empty; `monitor keys create` makes one"
        )
    return key


def ask(http: httpx.Client, method: str, path: str, **options: Any) -> httpx.Response:
    """One request; what the service refuses becomes an error of this package.

    Raises
    ------
    UnknownSeries, UnknownRecalibration, Conflict, InputError, Unauthenticated, Forbidden
        The service says so. Its own words.
    ServiceUnavailable
        It does not answer, or cannot.
    """
    try:
        answer = http.request(method, path, **options)
    except httpx.TimeoutException as error:
        raise ServiceUnavailable(f"the service at {http.base_url} did not answer in time") from error
    except httpx.HTTPError as error:
        raise ServiceUnavailable(f"the service at {http.base_url} does not answer: {error}") from error
    if answer.status_code < 400:
        return answer
    kind, detail = _problem(answer)
    if answer.status_code >= 500 or answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
        raise ServiceUnavailable(f"the service at {http.base_url} cannot answer: {detail}")
    raise _KINDS.get(kind, InputError)(detail)


def _problem(answer: httpx.Response) -> tuple[str, str]:
    """Kind and detail of a problem; of what is none, as something between here and the service may say, its status."""
    try:
        told = answer.json()
        return str(told["type"]).rpartition(":")[2], str(told["detail"])
    except (ValueError, KeyError, TypeError):
        return "", f"{answer.request.method} {answer.url} is answered {answer.status_code} {answer.reason_phrase}"
