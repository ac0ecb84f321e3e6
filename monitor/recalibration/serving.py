"""Cache of the maps that serve, which recalibrates batches of predictions."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog
from numpy.typing import ArrayLike

from monitor.clock import Clock
from monitor.errors import StoreUnavailable
from monitor.maps import RecalibrationMap, apply_serving_map
from monitor.maps.artifact import from_bytes
from monitor.outage_log import Outage
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Champion

REFRESH_SECONDS: Final = 2.0
"""How often the champions should be read again: another replica's promotion is visible here after this time."""

MAX_MAPS: Final = 64
"""Maximum number of loaded maps; the least recently used is evicted."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RecalibratedBatch:
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


class ServingMaps:
    """Champions and their maps, in memory. Any thread.

    :meth:`refresh` reads the champions periodically, and requests do not wait for it; only the next request after a
    change made here reads them itself. While the store does not answer, the last known ones stay in use.

    Parameters
    ----------
    store
        Maps and champions.
    clock
        The clock.
    """

    def __init__(self, store: RecalibrationStore, *, clock: Clock) -> None:
        self._store = store
        self._reading = threading.Lock()
        """Held while the champions are read, so that a later read is not overwritten by an earlier one."""
        self._champions: Mapping[tuple[str, str], Champion] | None = None
        self._methods: dict[str, str] = {}
        """Map's id -> its method, which never changes, for maps that serve or served."""
        self._is_changed = False
        self._outage = Outage(
            _log,
            "champions cannot be read; the last known ones stay in use",
            "champions can be read again",
            clock,
        )
        self._lock = threading.Lock()
        """Guards the loaded maps; never held during a query of the store."""
        self._maps: dict[str, RecalibrationMap] = {}
        """Maps by id, the most recently used last."""
        self._loading = threading.Lock()
        """Held while a map is loaded."""

    def champion(self, model: str, version: str) -> Champion:
        """Return what serves; ``map_id`` is None and ``revision`` 0 if no map was ever promoted."""
        return self._read().get((model, version), Champion(model, version, None, 0, 0))

    def revision(self, model: str, version: str) -> int:
        """Return the revision of what serves, as it was last read: never waits for the store."""
        champion = (self._champions or {}).get((model, version))
        return 0 if champion is None else champion.revision

    def served(self, model: str) -> list[Champion]:
        """Return the champion of each version of a model that ever had a map."""
        return [champion for (name, _), champion in self._read().items() if name == model]

    def map_of(self, model: str, version: str) -> tuple[str, str] | None:
        """Return the map that serves, its id and method; None if none does."""
        map_id = self.champion(model, version).map_id
        return None if map_id is None else (map_id, self._methods[map_id])

    def refresh(self) -> None:
        """Read the champions again."""
        with self._reading:
            self._refresh()

    def note_change(self) -> None:
        """Let the next request read the champions, because this process has changed one."""
        self._is_changed = True

    def apply(
        self,
        model: str,
        version: str,
        prediction: ArrayLike,
        *,
        features: ArrayLike | None = None,
        segments: Mapping[str, ArrayLike] | None = None,
    ) -> RecalibratedBatch:
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
        return RecalibratedBatch(
            apply_serving_map(chosen, prediction, features=features, segments=segments, name=name).tolist(), map_id
        )

    def _read(self) -> Mapping[tuple[str, str], Champion]:
        if self._champions is None or self._is_changed:
            with self._reading:
                if self._champions is None:
                    self._champions = self._query()
                elif self._is_changed:
                    self._refresh()
        return self._champions

    def _refresh(self) -> None:
        # Before the query: what changes meanwhile needs another one.
        self._is_changed = False
        try:
            self._champions = self._query()
        except StoreUnavailable as error:
            self._outage.failed(error)
        else:
            self._outage.over()

    def _query(self) -> Mapping[tuple[str, str], Champion]:
        champions = {(champion.model, champion.version): champion for champion in self._store.champions()}
        new = {one.map_id for one in champions.values() if one.map_id is not None} - self._methods.keys()
        if new:
            self._methods |= self._store.methods(new)
        return champions

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
