"""A client for scorers, which applies the serving map locally and keeps it up to date.

::

    with RecalibrationClient("http://monitor:8000", "churn", api_key=key) as recalibration:
        better = recalibration.apply(p, features=x)
"""

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, Self

import httpx
import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats
from monitor.clock import Clock, SystemClock
from monitor.errors import CorruptMap, InputError, MonitorError, ServiceUnavailable
from monitor.http_client import ApiKey, connect, describe_foreign, key_of_environment, send_request
from monitor.maps import RecalibrationMap, apply_serving_map
from monitor.maps.artifact import from_bytes
from monitor.urls import path_of

_ARROW: Final = "application/vnd.apache.arrow.file"

_RETRY_SECONDS: Final = 5.0
"""Pause between attempts to fetch the first map, unless ``refresh_seconds`` is shorter."""

# Not structlog: unconfigured, it would print to the standard output of the scorer.
_log = logging.getLogger(__name__)


class _Served(NamedTuple):
    """The serving map, as of the last response."""

    map: RecalibrationMap | None
    """None: predictions stay unchanged."""
    map_id: str | None
    about: Mapping[str, Any]
    etag: str


class RecalibrationClient:
    """Recalibrates predictions with the serving map. Thread-safe; create one per process and keep it.

    The first call of :meth:`apply` fetches the map and waits for it. Later calls apply the current map at once; when
    ``refresh_seconds`` have passed, they also start a thread that checks for a new map. While the service does not
    respond, the last map stays in use: each attempt logs a warning, and :attr:`stale_seconds` grows.

    Parameters
    ----------
    base_url
        Address of the service, such as ``http://monitor:8000``.
    model, version
        Whose predictions; the version with the newest predictions if left out.
    refresh_seconds
        How old the map may be before the next request.
    timeout_seconds
        Timeout for each of connecting, sending and reading.
    without_map
        What :meth:`apply` does until the first response: ``raise`` the error, or leave predictions ``unchanged`` and
        log a warning.
    api_key
        An API key or token that allows to read the model; or a function that returns the current one, called before
        each request. If left out, the environment variable ``MONITOR_API_KEY`` at creation; if that is not set,
        requests have no key.
    headers
        Sent with each request.
    transport
        Of httpx, in place of the default one.
    clock
        The clock.

    Raises
    ------
    InputError
        An argument is not allowed.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        version: str | None = None,
        *,
        refresh_seconds: float = 60.0,
        timeout_seconds: float = 5.0,
        without_map: Literal["raise", "unchanged"] = "raise",
        api_key: ApiKey | None = None,
        headers: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not refresh_seconds > 0.0:
            raise InputError(f"refresh_seconds must be above 0, got {refresh_seconds!r}")
        if without_map not in ("raise", "unchanged"):
            raise InputError(f"without_map must be raise or unchanged, got {without_map!r}")
        self._model = model
        self._path = f"v1/models/{path_of('model', model)}/map"
        self._version = version
        self._refresh_seconds = refresh_seconds
        self._without_map = without_map
        self._clock = clock or SystemClock()
        self._http = connect(
            base_url,
            timeout_seconds=timeout_seconds,
            api_key=api_key or key_of_environment(),
            headers=headers,
            transport=transport,
        )
        self._served: _Served | None = None
        self._confirmed_at = -np.inf
        self._requested_at = -np.inf
        self._start_lock = threading.Lock()
        """Held while a refresh thread is started, never during a request."""
        self._request_lock = threading.Lock()
        """Held during a request."""
        self._attempts = 0
        """Finished attempts to fetch the first map."""
        self._failure: MonitorError | None = None
        """Why the last attempt to fetch the first map failed."""
        self._refresher: threading.Thread | None = None
        self._is_closed = False

    def apply(
        self, p: ArrayLike, features: ArrayLike | None = None, segments: Mapping[str, ArrayLike] | None = None
    ) -> Floats:
        """Recalibrate predictions; if no map serves, return them unchanged.

        Parameters
        ----------
        p
            Shape (n,): P(y = 1); or (n, K): probabilities of K classes.
        features
            Shape (n, D), as in the model's events. Only some maps need them; others ignore them.
        segments
            Key -> text, shape (n,). Only some maps need one.

        Returns
        -------
        float64, of the shape of ``p``.

        Raises
        ------
        InputError
            A value is out of its range, or the map that serves needs other features or segments. Names the map.
        ServiceUnavailable, UnknownSeries, CorruptMap, Unauthenticated, Forbidden
            Only until the first response, and unless ``without_map`` is ``unchanged``.
        """
        served = self._current()
        chosen, map_id = (None, None) if served is None else (served.map, served.map_id)
        name = f"map {map_id} of model {self._model}"
        return apply_serving_map(chosen, p, features=features, segments=segments, name=name)

    @property
    def map_id(self) -> str | None:
        """The map that :meth:`apply` applies; None if none serves or none was fetched yet."""
        return None if self._served is None else self._served.map_id

    @property
    def about(self) -> Mapping[str, Any]:
        """Metadata of the map: model, version, method, the data it was fitted on, ...; empty without a map."""
        return {} if self._served is None else self._served.about

    @property
    def stale_seconds(self) -> float:
        """Seconds since the last successful request; infinite if there was none."""
        return float(self._clock.monotonic() - self._confirmed_at)

    def refresh(self) -> None:
        """Fetch the serving map now and wait for the response.

        Raises
        ------
        ServiceUnavailable, UnknownSeries, CorruptMap, Unauthenticated, Forbidden
            The request failed. The previous map stays in use.
        """
        with self._request_lock:
            self._fetch()

    def close(self) -> None:
        """Close the connections, after a running request."""
        self._is_closed = True
        with self._request_lock:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _current(self) -> _Served | None:
        """Return the serving map; fetch the first one, and start a refresh if it is due."""
        if self._served is None and not self._must_pause():
            attempts = self._attempts
            with self._request_lock:
                if self._served is None:
                    # Threads that waited for the first request share its result instead of repeating it.
                    self._fetch_first(shared=self._attempts > attempts)
            return self._served
        served = self._served
        if served is not None and self._is_due():
            # This call returns the old map, however quick the thread is.
            self._start_refresh()
        return served

    def _must_pause(self) -> bool:
        """Whether the last failed attempt is too recent for another one, and predictions may stay unchanged."""
        pause = min(_RETRY_SECONDS, self._refresh_seconds)
        return self._without_map == "unchanged" and self._clock.monotonic() - self._requested_at < pause

    def _is_due(self) -> bool:
        return not self._is_closed and self._clock.monotonic() - self._requested_at >= self._refresh_seconds

    def _fetch_first(self, *, shared: bool) -> None:
        if shared and self._failure is not None:
            if self._without_map == "raise":
                raise type(self._failure)(str(self._failure)) from self._failure
            return
        self._failure = None
        try:
            self._fetch()
        except MonitorError as error:
            self._failure = error
            if self._without_map == "raise":
                raise
            _log.warning("no map of model %s could be fetched; predictions stay unchanged: %s", self._model, error)
        finally:
            self._attempts += 1

    def _start_refresh(self) -> None:
        with self._start_lock:
            if not self._is_due() or (self._refresher is not None and self._refresher.is_alive()):
                return
            self._refresher = threading.Thread(target=self._try_to_refresh, name="recalibration", daemon=True)
            self._refresher.start()

    def _try_to_refresh(self) -> None:
        try:
            with self._request_lock:
                if not self._is_closed:
                    self._fetch()
        except MonitorError as error:
            _log.warning(
                "map %s of model %s stays in use; the last successful refresh was %.0f s ago: %s",
                self.map_id,
                self._model,
                self.stale_seconds,
                error,
            )
        except Exception:  # noqa: BLE001 - otherwise the thread would end silently
            _log.exception("map %s of model %s stays in use; the refresh failed", self.map_id, self._model)

    def _fetch(self) -> None:
        """Request the serving map. Called by one thread at a time."""
        if self._is_closed:
            raise InputError("this client is closed; create another one")
        self._requested_at = self._clock.monotonic()
        before = self._served
        headers = {"accept": _ARROW} | ({} if before is None else {"if-none-match": before.etag})
        params = {} if self._version is None else {"version": self._version}
        response = send_request(self._http, "GET", self._path, params=params, headers=headers)
        if response.status_code == 200 and response.headers.get("content-type", _ARROW) == _ARROW:
            artifact = from_bytes(response.content)
            map_id = str(artifact.about.get("id", ""))
            self._check_model(map_id, artifact.about)
            self._served = _Served(artifact.map, map_id, artifact.about, response.headers.get("etag", ""))
        elif response.status_code == 204 and "etag" in response.headers:
            self._served = _Served(None, None, {}, response.headers.get("etag", ""))
        elif response.status_code != 304 or before is None:
            raise ServiceUnavailable(describe_foreign(response))
        self._confirmed_at = self._clock.monotonic()
        if self._served is not None and (before is None or before.map_id != self._served.map_id):
            if self._served.map is None:
                _log.info("no map serves model %s: predictions stay unchanged", self._model)
            else:
                _log.info("model %s is recalibrated by map %s", self._model, self.map_id)

    def _check_model(self, map_id: str, about: Mapping[str, Any]) -> None:
        """Refuse a map of another model: a cache or gateway in between may have mixed up two responses."""
        expected = {"model": self._model} | ({} if self._version is None else {"version": self._version})
        for key, value in expected.items():
            if about.get(key, value) != value:
                raise CorruptMap(
                    f"the service at {self._http.base_url} responds with the map {map_id} of {key} {about[key]!r}, "
                    f"the request was for {key} {value!r}"
                )
