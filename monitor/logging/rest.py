"""Events to a running service: POST /v1/events."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import httpx
import msgspec

from monitor.errors import MonitorError
from monitor.http_client import ApiKey, connect, describe_foreign, key_of_environment, read_problem
from monitor.logging.destination import Delivery, EncodedEvent

_MIN_SECONDS: Final = 0.1


class _Error(msgspec.Struct):
    detail: str


class _Answer(msgspec.Struct):
    """Answer of the service to a batch of events."""

    rejected: int
    errors: list[_Error]


_read_answer: Final = msgspec.json.Decoder(_Answer).decode


class Rest:
    """Sends events to a running service over HTTP, in batches.

    Parameters
    ----------
    url
        Address of the service, such as ``http://monitor:8000``.
    api_key
        An API key or token that may write the model; or a function that returns the current one. If left out, the
        environment variable ``MONITOR_API_KEY`` when a connection is made; if that is not set, requests have no key.
    timeout_seconds
        Timeout for each of connecting, sending and reading.
    headers
        Sent with each request.

    Raises
    ------
    InputError
        The address is not an HTTP URL, or the key is malformed.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: ApiKey | None = None,
        timeout_seconds: float = 10.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._url = url
        self._api_key = api_key
        self._timeout_seconds = timeout_seconds
        self._headers = headers
        self._http: httpx.Client | None = self._connect()

    def _connect(self) -> httpx.Client:
        return connect(
            self._url,
            timeout_seconds=self._timeout_seconds,
            api_key=self._api_key or key_of_environment(),
            headers=self._headers,
        )

    def deliver(self, events: Sequence[EncodedEvent], seconds_left: Callable[[], float]) -> Delivery:
        """Send the events in one request."""
        if self._http is None:
            self._http = self._connect()
        try:
            response = self._http.post(
                "/v1/events",
                content=b"\n".join(event.value for event in events),
                headers={"content-type": "application/x-ndjson"},
                timeout=max(_MIN_SECONDS, min(self._timeout_seconds, seconds_left())),
            )
        except (httpx.HTTPError, MonitorError) as error:
            return Delivery(events, f"the service at {self._url} does not answer: {error or type(error).__name__}")
        if response.is_success:
            try:
                answer = _read_answer(response.content)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return Delivery(events, describe_foreign(response))
            return Delivery(rejected=answer.rejected, detail=answer.errors[0].detail if answer.errors else "")
        kind, detail = read_problem(response)
        if kind == "invalid-events":
            return Delivery(rejected=len(events), detail=detail)
        return Delivery(events, detail, too_large=response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE)

    def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def forget_connection(self) -> None:
        """Drop the connections of the parent process."""
        self._http = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_http": None}
