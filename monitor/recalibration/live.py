"""The shadow: raw and recalibrated scores side by side on live events, before a promotion and after it.

One thread goes over the versions of models that a map serves, or could serve, and measures each map on the sampled
events since the newest ones that a refit of these maps saw. What it finds is one immutable state, swapped in version
by version: REST, Prometheus and the trigger by verdict only read it.

What goes wrong:

- The store does not answer: the last state stays, the log says so once, and the next look tries again.
- A map cannot be read, or does not fit the events: its place in the document says why; the others are measured.
- Anything else about one version: the log has it once, its last document stays, and the others are looked at.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import structlog

from monitor.clock import Clock, SystemClock
from monitor.errors import CorruptMap, StoreUnavailable, UnknownRecalibration
from monitor.maps.artifact import from_bytes
from monitor.recalibration.comparison import Evaluate
from monitor.recalibration.live_document import CANDIDATE, CHAMPION, Shown, live_document
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Champion, Overview, Sample, SampleStore, Tally

INTERVAL_SECONDS: Final = 30.0
LIMIT: Final = 20_000
"""Events of a version that are measured at the most: a second's work for each map, and enough to tell them apart."""
DRAWS: Final = 99
"""Fewer than a report's: what is looked at all the time need not know its p-values to the third digit."""

_REST: Final = 3.0
"""After each version the thread rests so many times as long as it worked: events and windows come first."""

Version = tuple[str, str]
"""(model, version)."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LiveState:
    """What was found. Never changed once it is there.

    Attributes
    ----------
    documents
        (model, version) -> its document (docs/recalibration.md, "live"), of each that a map serves or could serve.
    champions
        What serves, of every model and version that ever had a map.
    tallies
        How many refits there are.
    looked_ms
        When all were last looked at, milliseconds since the epoch; 0 before the first time.
    duration_seconds
        What that took, without the rests.
    """

    documents: Mapping[Version, Mapping[str, Any]] = field(default_factory=dict)
    champions: Sequence[Champion] = ()
    tallies: Sequence[Tally] = ()
    looked_ms: int = 0
    duration_seconds: float = 0.0


class _Basis(NamedTuple):
    """What a document was made of: as long as it is the same, so is the document."""

    maps: tuple[tuple[str, str], ...]
    content: str
    population: int
    left_out: tuple[tuple[str, int], ...]


class LiveMonitor:
    """Keeps the live documents. One thread runs it: ``run``, ``stop``; any thread reads.

    Parameters
    ----------
    store, samples
        Maps and what serves, and the events.
    evaluate_of
        Model -> what makes the report of one map's predictions, by the model's tolerance.
    interval_seconds
        Between two looks, above 0.
    limit
        Events of a version that are measured at the most: a deterministic, stratified part of what there is.
    draws
        Resamples for intervals and levels, at least 19; 0 leaves both out.
    clock
        The one clock.
    """

    def __init__(
        self,
        store: RecalibrationStore,
        samples: SampleStore,
        *,
        evaluate_of: Callable[[str], Evaluate],
        interval_seconds: float = INTERVAL_SECONDS,
        limit: int = LIMIT,
        draws: int = DRAWS,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._samples = samples
        self._evaluate_of = evaluate_of
        self._interval_seconds = interval_seconds
        self._limit = limit
        self._draws = draws
        self._clock = clock or SystemClock()
        self._stopping = threading.Event()
        self._state = LiveState()
        self._bases: dict[Version, _Basis] = {}
        self._until_ms: dict[str, int] = {}
        """Refit -> end of the events that it saw. It never changes, so that no comparison is read twice."""
        self._said: dict[Version | None, str] = {}
        """What was last said to be wrong, of a version or of the store, so that it is said once."""

    @property
    def latest(self) -> LiveState:
        """The last state."""
        return self._state

    def document(self, model: str, version: str) -> Mapping[str, Any] | None:
        """The live document of a model's version; None where no map serves it or could, or it is not looked at yet."""
        return self._state.documents.get((model, version))

    def run(self) -> None:
        """Look now and after each interval, until :meth:`stop`."""
        while not self._stopping.is_set():
            self.look()
            self._stopping.wait(self._interval_seconds)

    def stop(self) -> None:
        """Let :meth:`run` return, at the latest when the version at hand is measured. Any thread."""
        self._stopping.set()

    def look(self) -> None:
        """Look at all versions, and measure those whose events or maps changed."""
        try:
            overview = self._store.overview()
        except Exception as error:  # noqa: BLE001 - the thread goes on, and the log says what happened
            self._trouble(None, error)
            return
        self._said.pop(None, None)
        shown = _shown(overview)
        self._forget(shown)
        self._state = replace(
            self._state,
            champions=overview.champions,
            tallies=overview.tallies,
            documents={version: told for version, told in self._state.documents.items() if version in shown},
        )
        worked = 0.0
        for version, maps in sorted(shown.items()):
            if self._stopping.is_set():
                return
            began = self._clock.monotonic()
            try:
                document = self._examine(version, maps)
            except StoreUnavailable as error:
                self._trouble(None, error)
                return
            except Exception as error:  # noqa: BLE001 - one version's trouble is not the next one's
                self._trouble(version, error)
            else:
                self._said.pop(version, None)
                self._state = replace(self._state, documents={**self._state.documents, version: document})
            took = self._clock.monotonic() - began
            worked += took
            self._stopping.wait(_REST * took)
        self._state = replace(self._state, looked_ms=self._clock.now_ms(), duration_seconds=worked)

    def _examine(self, version: Version, maps: Mapping[str, str]) -> Mapping[str, Any]:
        """The document of a version; the one that there is where nothing changed."""
        since_ms = max(self._saw_until_ms(map_id) for map_id in maps.values())
        sample = self._samples.read_sample(*version, from_ms=since_ms, limit=self._limit)
        basis = _basis(maps, sample)
        known = self._state.documents.get(version)
        if known is not None and self._bases.get(version) == basis:
            return known
        loaded = {name: self._load(map_id) for name, map_id in maps.items()}
        document = live_document(
            sample,
            loaded,
            since_ms=since_ms,
            changed_ms=self._clock.now_ms(),
            evaluate=self._evaluate_of(version[0]),
            draws=self._draws,
        )
        if all(each.map is not None for each in loaded.values()):
            self._bases[version] = basis
        else:
            # Whoever mends the map shall not have to wait for the next event.
            self._bases.pop(version, None)
        return document

    def _saw_until_ms(self, refit: str) -> int:
        """End of the events that a refit was fitted on or compared on, milliseconds since the epoch."""
        if refit not in self._until_ms:
            comparison = self._store.job(refit).comparison
            if comparison is None:
                raise CorruptMap(f"the refit {refit} has a map and no comparison: which events it saw is not known")
            until = datetime.fromisoformat(comparison["held_out"]["to"])
            self._until_ms[refit] = round(until.timestamp() * 1000)
        return self._until_ms[refit]

    def _load(self, map_id: str) -> Shown:
        try:
            return Shown(map_id, from_bytes(self._store.artifact(map_id).artifact).map)
        except (CorruptMap, UnknownRecalibration) as error:
            return Shown(map_id, None, f"the map cannot be read: {error}")

    def _forget(self, shown: Mapping[Version, Mapping[str, str]]) -> None:
        """Keep nothing of what is not shown any more."""
        ids = {map_id for maps in shown.values() for map_id in maps.values()}
        self._until_ms = {map_id: until_ms for map_id, until_ms in self._until_ms.items() if map_id in ids}
        self._bases = {version: basis for version, basis in self._bases.items() if version in shown}
        self._said = {version: told for version, told in self._said.items() if version is None or version in shown}

    def _trouble(self, version: Version | None, error: Exception) -> None:
        """Say it once, and not at every look."""
        told = repr(error)
        if self._said.get(version) == told or self._stopping.is_set():
            return
        self._said[version] = told
        about = {} if version is None else {"model": version[0], "version": version[1]}
        if isinstance(error, StoreUnavailable):
            _log.warning("live events cannot be read; what was found last stays", detail=str(error), **about)
        else:
            _log.error("live events could not be measured; what was found last stays", exc_info=error, **about)


def _shown(overview: Overview) -> dict[Version, dict[str, str]]:
    """(model, version) -> ``champion`` and ``candidate``, where there is one -> its map."""
    shown: dict[Version, dict[str, str]] = {}
    for champion in overview.champions:
        if champion.map_id is not None:
            shown[champion.model, champion.version] = {CHAMPION: champion.map_id}
    for candidate in overview.candidates:
        shown.setdefault((candidate.model, candidate.version), {})[CANDIDATE] = candidate.map_id
    return shown


def _basis(maps: Mapping[str, str], sample: Sample) -> _Basis:
    return _Basis(
        tuple(sorted(maps.items())),
        sample.events.content_hash(),
        sample.population,
        tuple(sorted(sample.left_out.items())),
    )
