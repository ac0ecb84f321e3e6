"""The maps that serve, kept loaded, and batches recalibrated by them."""

import threading
from collections.abc import Mapping
from typing import Final

import numpy as np
import structlog
from numpy.typing import ArrayLike

from monitor.clock import Clock, SystemClock
from monitor.errors import InputError, StoreUnavailable
from monitor.maps import RecalibrationMap, apply_map
from monitor.maps.artifact import from_bytes
from monitor.maps.identity import Identity
from monitor.recalibration.contract import Applied
from monitor.store.recalibrations import Champion, RecalibrationStore

REFRESH_SECONDS: Final = 2.0
"""So old may be what is known of who serves: another replica's promotion is seen here that much later."""

MOST_MAPS: Final = 64
"""Maps that are kept loaded; beyond them, those that were not used for longest go."""

_log = structlog.get_logger(__name__)


class Serving:
    """What serves, as of a few seconds ago at most. Any thread.

    While the store does not answer, what served last goes on serving.

    Parameters
    ----------
    store
        Where maps are, and what tells who serves.
    refresh_seconds
        How long the answer of the store is good for.
    clock
        The one clock.
    """

    def __init__(
        self,
        store: RecalibrationStore,
        *,
        refresh_seconds: float = REFRESH_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._refresh_seconds = refresh_seconds
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._champions: Mapping[tuple[str, str], Champion] | None = None
        self._read_at = 0.0
        self._maps: dict[str, RecalibrationMap] = {}
        """By id, those used last at the end."""

    def champion(self, model: str, version: str) -> Champion:
        """What serves; ``map_id`` is None, and ``revision`` 0, where nothing ever did."""
        with self._lock:
            return self._champion(model, version)

    def served(self, model: str) -> list[Champion]:
        """What serves of each version of a model that ever had a map."""
        with self._lock:
            return [each for (name, _), each in self._read().items() if name == model]

    def refresh(self) -> None:
        """Forget who serves: it was just changed, and the next to ask shall know."""
        with self._lock:
            self._read_at = self._clock.monotonic() - self._refresh_seconds

    def apply(
        self,
        model: str,
        version: str,
        prediction: ArrayLike,
        *,
        features: ArrayLike | None = None,
        segments: Mapping[str, ArrayLike] | None = None,
    ) -> Applied:
        """Recalibrate by the map that serves; without one, predictions are checked and left as they are.

        Raises
        ------
        InputError
            A value is out of its range, or the map needs features or segments that are missing or do not fit it.
        CorruptMap
            The map that serves cannot be read.
        StoreUnavailable
            The store does not answer, and what serves was never known.
        """
        with self._lock:
            map_id = self._champion(model, version).map_id
            chosen = None if map_id is None else self._map(map_id)
        if chosen is None:
            chosen = Identity(_classes(prediction))
        # Outside the lock: a large batch keeps nobody waiting.
        return Applied(apply_map(chosen, prediction, features=features, segments=segments).tolist(), map_id)

    def _champion(self, model: str, version: str) -> Champion:
        return self._read().get((model, version), Champion(model, version, None, 0, 0))

    def _read(self) -> Mapping[tuple[str, str], Champion]:
        now = self._clock.monotonic()
        if self._champions is None or now - self._read_at >= self._refresh_seconds:
            try:
                self._champions = {(each.model, each.version): each for each in self._store.champions()}
            except StoreUnavailable as error:
                if self._champions is None:
                    raise
                _log.warning("what serves cannot be read; what served last goes on serving", detail=str(error))
            # Also after a failure: not every request shall wait for a store that does not answer.
            self._read_at = now
        return self._champions

    def _map(self, map_id: str) -> RecalibrationMap:
        found = self._maps.pop(map_id, None)
        if found is None:
            found = from_bytes(self._store.artifact(map_id).artifact).map
            while len(self._maps) >= MOST_MAPS:
                del self._maps[next(iter(self._maps))]
        self._maps[map_id] = found
        return found


def _classes(prediction: ArrayLike) -> int:
    try:
        shape = np.shape(prediction)
    except ValueError as error:
        raise InputError("prediction must be a list of numbers, or of lists that are equally long") from error
    return shape[1] if len(shape) == 2 else 2
