"""Measure raw and recalibrated scores side by side on live events, before and after a promotion.

A thread visits the versions that a map serves or could serve, and measures each map on the sampled events that are
newer than any event its refits used. The result is one immutable state, replaced version by version, which REST,
Prometheus and the verdict trigger read.

- The store does not answer: the last state stays, one log entry is written, and the next round tries again.
- A map cannot be read or does not fit the events: its part of the document says why; other maps are measured.
- Any other error of a version: one log entry, its last document stays, and the other versions are measured.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import structlog
from numpy.typing import NDArray

from monitor.clock import Clock
from monitor.errors import CorruptMap, InputError, StoreUnavailable, UnknownRecalibration
from monitor.events.times import format_time
from monitor.maps import RecalibrationMap, apply_map
from monitor.maps.artifact import from_bytes
from monitor.maps.identity import Identity
from monitor.outage_log import LastingProblems
from monitor.recalibration.compare import Evaluate, report_on
from monitor.recalibration.comparison import Comparison, LiveComparison, LiveMap, LiveMaps
from monitor.recalibration.data import shortage
from monitor.recalibration.guard import weigh
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Champion, Overview, ReadSample, Sample, Tally

MAX_EVENTS: Final = 20_000
"""Maximum number of measured events of a version, a deterministic, stratified part of its sample: about a second of
work per map, and enough to compare maps."""
DRAWS: Final = 99
"""Fewer than for a report: values that are always updated need no third digit of their p-values."""

NONE: Final = "none"
CHAMPION: Final = "champion"
CANDIDATE: Final = "candidate"

COMPARED: Final = ((CHAMPION, NONE), (CANDIDATE, NONE), (CANDIDATE, CHAMPION))
"""Pairs of maps; the document has the evidence that the first is better than the second."""

_REST_FACTOR: Final = 3.0
"""Rest of the thread after each version, relative to its work: events and windows come first."""

Version = tuple[str, str]
"""(model, version)."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LiveState:
    """An immutable state of the live measurements.

    Attributes
    ----------
    documents
        (model, version) -> document (docs/recalibration.md, "live"), for versions that a map serves or could serve.
    champions
        The champion of every model and version that ever had a map.
    tallies
        Counts of refits.
    updated_ms
        End of the last complete round, milliseconds since the epoch; 0 before the first.
    duration_seconds
        Working time of that round.
    """

    documents: Mapping[Version, LiveComparison] = field(default_factory=dict)
    champions: Sequence[Champion] = ()
    tallies: Sequence[Tally] = ()
    updated_ms: int = 0
    duration_seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Shown:
    """A map to measure.

    Attributes
    ----------
    id
        Id of its refit; None for no map.
    map
        The map; None if it cannot be read.
    missing
        Why it cannot be read.
    """

    id: str | None
    map: RecalibrationMap | None
    missing: str | None = None


class LiveMonitor:
    """Keeps the live documents up to date. One thread calls ``update``, periodically; any thread may read and ``stop``.

    Parameters
    ----------
    store, read_sample
        Maps and champions, and the events.
    evaluate_of
        Model -> function that reports on predictions, with the model's tolerance.
    draws
        Resamples for intervals and levels, at least 19; 0 leaves both out.
    clock
        The clock.
    """

    def __init__(
        self,
        store: RecalibrationStore,
        read_sample: ReadSample,
        *,
        evaluate_of: Callable[[str], Evaluate],
        draws: int = DRAWS,
        clock: Clock,
    ) -> None:
        self._store = store
        self._read_sample = read_sample
        self._evaluate_of = evaluate_of
        self._draws = draws
        self._clock = clock
        self._stopping = threading.Event()
        self._state = LiveState()
        self._bases: dict[Version, Any] = {}
        """The inputs of each document: while they are the same, so is the document."""
        self._used_until_ms: dict[str, int] = {}
        """Refit -> end of the events that it used; cached, so that no comparison is read twice."""
        self._problems = LastingProblems()
        """Errors of versions, and of the store (None)."""

    @property
    def latest(self) -> LiveState:
        """The last state."""
        return self._state

    def document(self, model: str, version: str) -> LiveComparison | None:
        """Return the live document of a version; None if no map serves it or could, or it is not measured yet."""
        return self._state.documents.get((model, version))

    def stop(self) -> None:
        """Let :meth:`update` return once the current version is measured. Any thread."""
        self._stopping.set()

    def update(self) -> None:
        """Measure the versions whose events or maps changed."""
        try:
            overview = self._store.overview()
        except Exception as error:  # noqa: BLE001 - the thread goes on
            self._log_error(None, error)
            return
        self._problems.over(None)
        shown = _shown(overview)
        self._forget(shown)
        self._state = replace(
            self._state,
            champions=overview.champions,
            tallies=overview.tallies,
            documents={version: document for version, document in self._state.documents.items() if version in shown},
        )
        worked = 0.0
        for version, maps in sorted(shown.items()):
            if self._stopping.is_set():
                return
            started = self._clock.monotonic()
            try:
                document = self._measure(version, maps)
            except StoreUnavailable as error:
                self._log_error(None, error)
                return
            except Exception as error:  # noqa: BLE001 - the other versions go on
                self._log_error(version, error)
            else:
                self._problems.over(version)
                self._state = replace(self._state, documents={**self._state.documents, version: document})
            took = self._clock.monotonic() - started
            worked += took
            self._stopping.wait(_REST_FACTOR * took)
        self._state = replace(self._state, updated_ms=self._clock.now_ms(), duration_seconds=worked)

    def _measure(self, version: Version, maps: Mapping[str, str]) -> LiveComparison:
        """Return the document of a version: the present one if nothing changed."""
        since_ms = max(self._used_until(map_id) for map_id in maps.values())
        sample = self._read_sample(*version, from_ms=since_ms, limit=MAX_EVENTS)
        basis = (maps, sample.events.content_hash(), sample.population, sample.left_out)
        present = self._state.documents.get(version)
        if present is not None and self._bases.get(version) == basis:
            return present
        loaded = {name: self._load(map_id) for name, map_id in maps.items()}
        document = live_document(
            sample,
            loaded,
            since_ms=since_ms,
            changed_ms=self._clock.now_ms(),
            evaluate=self._evaluate_of(version[0]),
            draws=self._draws,
        )
        if all(shown.map is not None for shown in loaded.values()):
            self._bases[version] = basis
        else:
            # Measure again in the next round, in case the map was fixed.
            self._bases.pop(version, None)
        return document

    def _used_until(self, refit: str) -> int:
        """Return the end of the events that a refit used, milliseconds since the epoch."""
        if refit not in self._used_until_ms:
            document = self._store.job(refit).comparison
            used_until_ms = None if document is None else Comparison.of(document).used_until_ms
            if used_until_ms is None:
                raise CorruptMap(f"the refit {refit} has a map but no comparison: which events it used is unknown")
            self._used_until_ms[refit] = used_until_ms
        return self._used_until_ms[refit]

    def _load(self, map_id: str) -> Shown:
        try:
            return Shown(map_id, from_bytes(self._store.artifact(map_id).artifact).map)
        except (CorruptMap, UnknownRecalibration) as error:
            return Shown(map_id, None, f"the map cannot be read: {error}")

    def _forget(self, shown: Mapping[Version, Mapping[str, str]]) -> None:
        """Drop what belongs to versions and maps that are not shown any more."""
        ids = {map_id for maps in shown.values() for map_id in maps.values()}
        self._used_until_ms = {map_id: until_ms for map_id, until_ms in self._used_until_ms.items() if map_id in ids}
        self._bases = {version: basis for version, basis in self._bases.items() if version in shown}
        self._problems.keep({None, *shown})

    def _log_error(self, version: Version | None, error: Exception) -> None:
        """Log an error once, not in every round."""
        if self._stopping.is_set() or not self._problems.is_new(repr(error), version):
            return
        about = {} if version is None else {"model": version[0], "version": version[1]}
        if isinstance(error, StoreUnavailable):
            _log.warning("live events cannot be read; the last documents stay", detail=str(error), **about)
        else:
            _log.error("live events could not be measured; the last documents stay", exc_info=error, **about)


def _shown(overview: Overview) -> dict[Version, dict[str, str]]:
    """Return (model, version) -> ``champion`` or ``candidate`` -> id of its map."""
    shown: dict[Version, dict[str, str]] = {}
    for champion in overview.champions:
        if champion.map_id is not None:
            shown[champion.model, champion.version] = {CHAMPION: champion.map_id}
    for candidate in overview.candidates:
        shown.setdefault((candidate.model, candidate.version), {})[CANDIDATE] = candidate.map_id
    return shown


def live_document(
    sample: Sample,
    shown: Mapping[str, Shown],
    *,
    since_ms: int,
    changed_ms: int,
    evaluate: Evaluate,
    draws: int,
) -> LiveComparison:
    """Measure the maps of one version.

    Parameters
    ----------
    sample
        The events since ``since_ms``.
    shown
        ``champion``, ``candidate`` or both -> the map.
    since_ms
        End of the events that the maps' refits used, milliseconds since the epoch.
    changed_ms
        When these events were first read.
    evaluate
        Makes the report of predictions P(y = 1). For many classes it gets the largest probability, and whether that
        class came true.
    draws
        Resamples for the measures' intervals and levels, at least 19; 0 leaves both out.
    """
    events = sample.events
    insufficient = shortage(events, f"since {format_time(since_ms)}")
    maps: dict[str, LiveMap] = {}
    # Unchanged to the last bit: a map would normalise the probabilities again.
    predictions: dict[str, NDArray[np.float64]] = {NONE: events.prediction} if insufficient is None else {}
    for name, candidate in {NONE: Shown(None, Identity(events.classes)), **shown}.items():
        missing = candidate.missing
        if name != NONE and candidate.map is not None and insufficient is None:
            try:
                predictions[name] = apply_map(
                    candidate.map, events.prediction, features=events.features, segments=events.segments
                )
            except InputError as error:
                missing = f"the map cannot be applied to these events: {error}"
        unmeasured: dict[str, Any] = {"measures": {}, "verdict": None, "insufficient": insufficient, "omitted": {}}
        maps[name] = LiveMap(
            id=candidate.id,
            method=None if candidate.map is None else candidate.map.method,
            describe=None if candidate.map is None else candidate.map.describe(),
            **(report_on(evaluate, predictions[name], events, draws) if name in predictions else unmeasured),
            missing=missing,
        )
    return LiveComparison(
        since=format_time(since_ms),
        until=format_time(int(events.time_ms[-1]) + 1) if len(events) else None,
        changed=format_time(changed_ms),
        n=len(events),
        population=sample.population,
        weighted=not events.is_whole,
        left_out=sample.left_out,
        insufficient=insufficient,
        maps=LiveMaps(**maps),
        evidence={
            f"{better}_against_{other}": weigh(predictions[other], predictions[better], events.outcome, events.weight)
            if better in predictions and other in predictions
            else None
            for better, other in COMPARED
        },
    ).plain()
