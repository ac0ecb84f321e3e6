"""For scorers: applies the map that serves, locally, and keeps it up to date.

::

    with RecalibrationClient("http://monitor:8000", "churn", api_key=key) as recalibration:
        better = recalibration.apply(p, features=x)
"""

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, Self
from urllib.parse import quote

import httpx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.clock import Clock, SystemClock
from monitor.errors import CorruptMap, InputError, MonitorError, ServiceUnavailable
from monitor.http_client import ApiKey, ask, connect, key_of_environment
from monitor.maps import RecalibrationMap, apply_serving_map
from monitor.maps.artifact import from_bytes

Floats = NDArray[np.float64]

_ARROW: Final = "application/vnd.apache.arrow.file"

_RETRY_SECONDS: Final = 5.0
"""How long nobody is asked again where nothing could be had yet, unless maps are refreshed more often."""

# The standard library's: a scorer has logging of its own, and an unconfigured structlog would write to its output.
_log = logging.getLogger(__name__)


class _Served(NamedTuple):
    """What serves, as of the last answer."""

    map: RecalibrationMap | None
    """None: predictions are as they are."""
    map_id: str | None
    about: Mapping[str, Any]
    etag: str


class RecalibrationClient:
    """Recalibrates predictions by the map that serves. Any thread; make one in each process, and keep it.

    The first call of :meth:`apply` fetches the map and waits for it. Every later one applies what is there at once;
    when ``refresh_seconds`` have passed, it also lets a thread ask whether another map serves. While the service does
    not answer, the last map goes on: a warning is logged at each attempt, and :attr:`stale_seconds` grows.

    Parameters
    ----------
    base_url
        Where the service answers, such as ``http://monitor:8000``.
    model, version
        Whose predictions; without a version, the one with the newest predictions.
    refresh_seconds
        How old the map may be before the service is asked again.
    timeout_seconds
        How long the service may take to answer, and so the longest that the first call waits for each of connecting,
        sending and reading.
    without_map
        What :meth:`apply` does as long as no answer was ever had: ``raise`` the error, or leave predictions
        ``unchanged`` and log a warning.
    api_key
        An API key of the service, or a token, that allows to read the model; or a function that gives the one that
        holds now, which is called before each request. Without it, the environment variable ``MONITOR_API_KEY`` as it
        is when the client is made; where that is not set, the service is asked without one.
    headers
        Sent with each request.
    transport
        Of httpx, where the usual one does not do.
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
        if not model:
            raise InputError("model must not be empty")
        if not refresh_seconds > 0.0:
            raise InputError(f"refresh_seconds must be above 0, got {refresh_seconds!r}")
        if without_map not in ("raise", "unchanged"):
            raise InputError(f"without_map must be raise or unchanged, got {without_map!r}")
        self._model = model
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
        self._asked_at = -np.inf
        self._lock = threading.Lock()
        """Held while a thread is chosen to ask, and never while it asks."""
        self._fetching = threading.Lock()
        """Held while the service is asked."""
        self._attempts = 0
        """To have a first map, that are over."""
        self._failure: MonitorError | None = None
        """Why no map was had the last time, as long as there was none."""
        self._refresher: threading.Thread | None = None
        self._is_closed = False

    def apply(
        self, p: ArrayLike, features: ArrayLike | None = None, segments: Mapping[str, ArrayLike] | None = None
    ) -> Floats:
        """Recalibrated predictions; where no map serves, the predictions themselves.

        Parameters
        ----------
        p
            Shape (n,): P(y = 1); or (n, K): probabilities of K classes.
        features
            Shape (n, D), as the model's events have them. Only some maps need them; others leave them alone.
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
            Only while no map was ever had, and unless ``without_map`` is ``unchanged``.
        """
        served = self._current()
        chosen, map_id = (None, None) if served is None else (served.map, served.map_id)
        name = f"map {map_id} of model {self._model}"
        return apply_serving_map(chosen, p, features=features, segments=segments, name=name)

    @property
    def map_id(self) -> str | None:
        """Which map :meth:`apply` applies; None: none, as far as is known."""
        return None if self._served is None else self._served.map_id

    @property
    def about(self) -> Mapping[str, Any]:
        """What the map says of itself: model, version, method, the data it was fitted on, ...; empty without one."""
        return {} if self._served is None else self._served.about

    @property
    def stale_seconds(self) -> float:
        """Seconds since the service last said what serves; infinite if it never did."""
        return float(self._clock.monotonic() - self._confirmed_at)

    def refresh(self) -> None:
        """Ask now whether another map serves, and wait for the answer.

        Raises
        ------
        ServiceUnavailable, UnknownSeries, CorruptMap, Unauthenticated, Forbidden
            It could not be had. What served before goes on.
        """
        with self._fetching:
            self._fetch()

    def close(self) -> None:
        """Let go of the connections. What a thread is asking for is waited for."""
        self._is_closed = True
        with self._fetching:
            self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _current(self) -> _Served | None:
        """What serves, as far as is known; asks for it, or lets a thread ask, if it is time."""
        if self._served is None and not self._is_early():
            attempts = self._attempts
            with self._fetching:
                if self._served is None:
                    # Those who came while the first one waited have its answer, and do not ask again one by one.
                    self._fetch_first(shared=self._attempts > attempts)
            return self._served
        served = self._served
        if served is not None and self._is_due():
            # The next call has what comes of it: this one does not depend on how quick the thread is.
            self._refresh_behind()
        return served

    def _is_early(self) -> bool:
        """Whether it is too early to ask again for what could not be had, and to be allowed to do without."""
        pause = min(_RETRY_SECONDS, self._refresh_seconds)
        return self._without_map == "unchanged" and self._clock.monotonic() - self._asked_at < pause

    def _is_due(self) -> bool:
        return not self._is_closed and self._clock.monotonic() - self._asked_at >= self._refresh_seconds

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
            _log.warning("no map of model %s could be had; predictions are left as they are: %s", self._model, error)
        finally:
            self._attempts += 1

    def _refresh_behind(self) -> None:
        with self._lock:
            if not self._is_due() or (self._refresher is not None and self._refresher.is_alive()):
                return
            self._refresher = threading.Thread(target=self._try_to_refresh, name="recalibration", daemon=True)
            self._refresher.start()

    def _try_to_refresh(self) -> None:
        try:
            with self._fetching:
                if not self._is_closed:
                    self._fetch()
        except MonitorError as error:
            _log.warning(
                "it is not known since %.0f s whether another map than %s serves model %s; it goes on: %s",
                self.stale_seconds,
                self.map_id,
                self._model,
                error,
            )
        except Exception:  # noqa: BLE001 - a thread's end is otherwise silent
            _log.exception("map %s of model %s cannot be refreshed; it goes on", self.map_id, self._model)

    def _fetch(self) -> None:
        """Ask what serves. Called by one thread at a time."""
        if self._is_closed:
            raise InputError("this client is closed; make another one")
        self._asked_at = self._clock.monotonic()
        before = self._served
        headers = {"accept": _ARROW} | ({} if before is None else {"if-none-match": before.etag})
        params = {} if self._version is None else {"version": self._version}
        answer = ask(self._http, "GET", f"v1/models/{quote(self._model)}/map", params=params, headers=headers)
        if answer.status_code == 200:
            artifact = from_bytes(answer.content)
            map_id = str(artifact.about.get("id", ""))
            self._check_whose(map_id, artifact.about)
            self._served = _Served(artifact.map, map_id, artifact.about, answer.headers.get("etag", ""))
        elif answer.status_code == 204:
            self._served = _Served(None, None, {}, answer.headers.get("etag", ""))
        elif answer.status_code != 304 or before is None:
            raise ServiceUnavailable(f"{answer.url} answers {answer.status_code}, which no such service does")
        self._confirmed_at = self._clock.monotonic()
        if self._served is not None and (before is None or before.map_id != self._served.map_id):
            if self._served.map is None:
                _log.info("no map serves model %s: predictions are as they are", self._model)
            else:
                _log.info("model %s is recalibrated by map %s", self._model, self.map_id)

    def _check_whose(self, map_id: str, about: Mapping[str, Any]) -> None:
        """Refuse a map of another model: a cache or a gateway on the way may have mixed up two answers."""
        wanted = {"model": self._model} | ({} if self._version is None else {"version": self._version})
        for key, value in wanted.items():
            if about.get(key, value) != value:
                raise CorruptMap(
                    f"the service at {self._http.base_url} answers with the map {map_id} of {key} {about[key]!r}, and "
                    f"that of {key} {value!r} was asked for"
                )
