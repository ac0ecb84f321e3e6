"""Cache of the maps that serve, which recalibrates batches of predictions."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

import structlog
from numpy.typing import ArrayLike

from monitor.clock import Clock, SystemClock
from monitor.errors import StoreUnavailable
from monitor.maps import RecalibrationMap, apply_serving_map
from monitor.maps.artifact import from_bytes
from monitor.outage_log import Outage
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Champion

REFRESH_SECONDS: Final = 2.0
"""Maximum age of the cached champions: another replica's promotion is visible here after this time."""

PATIENCE_SECONDS: Final = 2.0
"""How long a request waits for the store when cached champions exist."""

MAX_MAPS: Final = 64
"""Maximum number of loaded maps; the least recently used is evicted."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Applied:
    """Recalibrated predictions.

    Attributes
    ----------
    prediction
        Shape (n,) or (n, K), as a list of numbers or of lists.
    map_id
        The map that was applied; None: no map serves, the predictions are unchanged.
    """

    prediction: list[Any]
    map_id: str | None


class Serving:
    """Champions and their maps, at most a few seconds old. Any thread.

    While the store does not answer, the last known champions stay in use.

    Parameters
    ----------
    store
        Maps and champions.
    patience_seconds
        How long a caller waits for the store when cached champions exist.
    clock
        The clock.
    """

    def __init__(
        self,
        store: RecalibrationStore,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._patience_seconds = patience_seconds
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        """Guards the fields below; never held during a query of the store."""
        self._champions: Mapping[tuple[str, str], Champion] | None = None
        self._read_at = 0.0
        self._changes = 0
        """Number of changes made by this process."""
        self._read_changes = 0
        """How many of these changes the cached champions include."""
        self._outage = Outage(
            _log,
            "champions cannot be read; the last known ones stay in use",
            "champions can be read again",
            self._clock,
        )
        self._maps: dict[str, RecalibrationMap] = {}
        """By id, the most recently used last."""
        self._query: Future[Mapping[tuple[str, str], Champion]] | None = None
        """The running query of the champions."""
        self._loading = threading.Lock()
        """Held while a map is loaded."""

    def champion(self, model: str, version: str) -> Champion:
        """Return what serves; ``map_id`` is None and ``revision`` 0 if no map was ever promoted."""
        return self._read().get((model, version), Champion(model, version, None, 0, 0))

    def served(self, model: str) -> list[Champion]:
        """Return the champion of each version of a model that ever had a map."""
        return [champion for (name, _), champion in self._read().items() if name == model]

    def refresh(self) -> None:
        """Let the next read query the store, because a champion was just changed."""
        with self._lock:
            self._changes += 1

    def apply(
        self,
        model: str,
        version: str,
        prediction: ArrayLike,
        *,
        features: ArrayLike | None = None,
        segments: Mapping[str, ArrayLike] | None = None,
    ) -> Applied:
        """Recalibrate with the map that serves; if none serves, check the predictions and return them unchanged.

        Raises
        ------
        InputError
            A value is out of range, or the map needs features or segments that are missing or do not fit. Names the
            map.
        CorruptMap
            The map cannot be read.
        StoreUnavailable
            The store does not answer and no champions are cached.
        """
        map_id = self.champion(model, version).map_id
        chosen = None if map_id is None else self._map(map_id)
        name = f"map {map_id} of model {model}"
        return Applied(
            apply_serving_map(chosen, prediction, features=features, segments=segments, name=name).tolist(), map_id
        )

    def _read(self) -> Mapping[tuple[str, str], Champion]:
        with self._lock:
            cached = self._champions
            is_changed = self._read_changes < self._changes
            is_old = self._clock.monotonic() - self._read_at >= REFRESH_SECONDS
            if cached is not None and not is_changed and not is_old:
                return cached
            query, is_first = self._query, self._query is None
            if query is None:
                # A thread of its own, because a store may hang for ever.
                query = self._query = Future()
                threading.Thread(target=self._run_query, args=(query,), name="champions", daemon=True).start()
        if cached is None:
            return query.result()
        # Changes of this process must be visible in its next read; changes of others within a few seconds.
        if not is_first and not is_changed:
            return cached
        try:
            return query.result(self._patience_seconds)
        except TimeoutError:
            return cached

    def _run_query(self, query: Future[Mapping[tuple[str, str], Champion]]) -> None:
        """Read the champions until they include all changes of this process."""
        try:
            while True:
                with self._lock:
                    champions, changes = self._champions, self._changes
                try:
                    champions = {(champion.model, champion.version): champion for champion in self._store.champions()}
                    self._outage.over()
                except StoreUnavailable as error:
                    if champions is None:
                        raise
                    self._outage.failed(error)
                with self._lock:
                    # After a failure too, and with the time of its end: not every request has to wait for the store.
                    self._champions, self._read_changes, self._read_at = champions, changes, self._clock.monotonic()
                    if changes == self._changes:
                        self._query = None
                        break
        except Exception as error:  # noqa: BLE001 - raised to those who wait for the result
            with self._lock:
                self._query = None
            query.set_exception(error)
        else:
            query.set_result(champions)

    def _map(self, map_id: str) -> RecalibrationMap:
        loaded = self._cached_map(map_id)
        if loaded is not None:
            return loaded
        with self._loading:
            loaded = self._cached_map(map_id)
            if loaded is None:
                loaded = from_bytes(self._store.artifact(map_id).artifact).map
                with self._lock:
                    while len(self._maps) >= MAX_MAPS:
                        del self._maps[next(iter(self._maps))]
                    self._maps[map_id] = loaded
        return loaded

    def _cached_map(self, map_id: str) -> RecalibrationMap | None:
        with self._lock:
            cached = self._maps.pop(map_id, None)
            if cached is not None:
                self._maps[map_id] = cached
            return cached
