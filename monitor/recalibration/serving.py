"""The maps that serve, kept loaded, and batches recalibrated by them."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

import structlog
from numpy.typing import ArrayLike

from monitor.clock import Clock, SystemClock
from monitor.errors import StoreUnavailable
from monitor.maps import RecalibrationMap, apply_serving_map
from monitor.maps.artifact import from_bytes
from monitor.recalibration.contract import Applied
from monitor.store.recalibrations import Champion, RecalibrationStore

REFRESH_SECONDS: Final = 2.0
"""So old may be what is known of who serves: another replica's promotion is seen here that much later."""

PATIENCE_SECONDS: Final = 2.0
"""So long a request waits for the store to tell who serves, where it is known who served last."""

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
    patience_seconds
        How long whoever asks waits for the store, where it is known what served last.
    clock
        The one clock.
    """

    def __init__(
        self,
        store: RecalibrationStore,
        *,
        refresh_seconds: float = REFRESH_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._refresh_seconds = refresh_seconds
        self._patience_seconds = patience_seconds
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        """Of what follows, and never held while the store is asked."""
        self._champions: Mapping[tuple[str, str], Champion] | None = None
        self._read_at = 0.0
        self._changes = 0
        """What was changed here."""
        self._seen = 0
        """How many of the changes the champions hold."""
        self._is_away = False
        """Whether the store did not answer the last time, so that it is said once."""
        self._maps: dict[str, RecalibrationMap] = {}
        """By id, those used last at the end."""
        self._answer: Future[Mapping[tuple[str, str], Champion]] | None = None
        """Of the store, while it is asked who serves."""
        self._loading = threading.Lock()
        """Held while a map is loaded."""

    def champion(self, model: str, version: str) -> Champion:
        """What serves; ``map_id`` is None, and ``revision`` 0, where nothing ever did."""
        return self._read().get((model, version), Champion(model, version, None, 0, 0))

    def served(self, model: str) -> list[Champion]:
        """What serves of each version of a model that ever had a map."""
        return [each for (name, _), each in self._read().items() if name == model]

    def refresh(self) -> None:
        """Forget who serves: it was just changed, and the next to ask shall know."""
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
        """Recalibrate by the map that serves; without one, predictions are checked and left as they are.

        Raises
        ------
        InputError
            A value is out of its range, or the map needs features or segments that are missing or do not fit it. Names
            the map.
        CorruptMap
            The map that serves cannot be read.
        StoreUnavailable
            The store does not answer, and what serves was never known.
        """
        map_id = self.champion(model, version).map_id
        chosen = None if map_id is None else self._map(map_id)
        name = f"map {map_id} of model {model}"
        return Applied(
            apply_serving_map(chosen, prediction, features=features, segments=segments, name=name).tolist(), map_id
        )

    def _read(self) -> Mapping[tuple[str, str], Champion]:
        with self._lock:
            known = self._champions
            if known is not None and not self._is_due():
                return known
            # What was changed here has to be seen by who asks next; what others changed, within a few seconds.
            is_changed = self._seen < self._changes
            answer, is_first = self._answer, self._answer is None
            if answer is None:
                # A thread of its own: a store may hang for ever, and whoever asked it with it.
                answer = self._answer = Future()
                threading.Thread(target=self._ask, args=(answer,), name="who serves", daemon=True).start()
        if known is None:
            return answer.result()
        if not is_first and not is_changed:
            return known
        try:
            return answer.result(self._patience_seconds)
        except TimeoutError:
            return known

    def _is_due(self) -> bool:
        changed = self._champions is None or self._seen < self._changes
        return changed or self._clock.monotonic() - self._read_at >= self._refresh_seconds

    def _ask(self, answer: Future[Mapping[tuple[str, str], Champion]]) -> None:
        """Ask the store, until its answer holds all that was changed here."""
        try:
            while True:
                with self._lock:
                    known, changes = self._champions, self._changes
                is_away = False
                try:
                    known = {(each.model, each.version): each for each in self._store.champions()}
                    if self._is_away:
                        _log.info("what serves can be read again")
                except StoreUnavailable as error:
                    if known is None:
                        raise
                    is_away = True
                    if not self._is_away:
                        _log.warning("what serves cannot be read; what served last goes on serving", detail=str(error))
                with self._lock:
                    # Also after a failure, and as of its end: not every request shall wait for a store that is away.
                    self._champions, self._seen, self._read_at = known, changes, self._clock.monotonic()
                    self._is_away = is_away
                    if changes == self._changes:
                        self._answer = None
                        break
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            with self._lock:
                self._answer = None
            answer.set_exception(error)
        else:
            answer.set_result(known)

    def _map(self, map_id: str) -> RecalibrationMap:
        found = self._loaded(map_id)
        if found is not None:
            return found
        with self._loading:
            found = self._loaded(map_id)
            if found is None:
                found = from_bytes(self._store.artifact(map_id).artifact).map
                with self._lock:
                    while len(self._maps) >= MOST_MAPS:
                        del self._maps[next(iter(self._maps))]
                    self._maps[map_id] = found
        return found

    def _loaded(self, map_id: str) -> RecalibrationMap | None:
        with self._lock:
            found = self._maps.pop(map_id, None)
            if found is not None:
                self._maps[map_id] = found
            return found
