"""What recalibration says of itself, as series."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from monitor.measures.base import Measure
from monitor.metrics import refit_series as series
from monitor.metrics.catalogue import map_series
from monitor.metrics.family import Family, Labels
from monitor.metrics.levels import LevelSwitch
from monitor.recalibration.live import COMPARED, LiveState
from monitor.store.recalibrations import UNDER_WAY, JobState, Tally

Documents = Sequence[tuple[Labels, Mapping[str, Any]]]
"""(model, version) and the live document."""

MAX_SERIES: Final = 100_000
"""Default cap on time series about maps: those of some 900 versions with a champion and a candidate each."""

RESULTS: Final[Mapping[str, tuple[JobState, ...]]] = {
    "failed": (JobState.FAILED,),
    "rejected": (JobState.REJECTED,),
    # A refit goes on from one of these to another, and is counted once: so the counter never falls.
    "passed": (JobState.CANDIDATE, JobState.CHAMPION, JobState.RETIRED, JobState.ROLLED_BACK),
}


class Maps(Protocol):
    """What looks at maps on live events."""

    @property
    def latest(self) -> LiveState:
        """What it found last."""
        ...


class RefitFamilies:
    """The series of refits, of what serves, and of raw beside recalibrated scores.

    Parameters
    ----------
    maps
        Looks at maps on live events. The store is not asked when Prometheus asks.
    measures
        Those that maps are measured by.
    known
        (model, version) of all that is held now: the store remembers models whose last event is long gone, and their
        series vanish all the same.
    max_series
        At most so many time series about maps. Beyond them, versions are left out and counted, the last by name first.
    levels
        How much is exported of each map's measures: as of windows.
    """

    def __init__(
        self,
        maps: Maps,
        measures: Iterable[Measure],
        known: Callable[[], Collection[tuple[str, str]]],
        *,
        max_series: int = MAX_SERIES,
        levels: LevelSwitch | None = None,
    ) -> None:
        self._levels = levels or LevelSwitch()
        self._max_series = max_series
        self._maps = maps
        self._measures = map_series(measures)
        self._known = known

    def __call__(self) -> Iterator[Family]:
        """Read the last state."""
        state, known = self._maps.latest, frozenset(self._known())
        champions = [each for each in state.champions if (each.model, each.version) in known]
        labels = [(each.model, each.version) for each in champions]
        active = [each.map_id is not None for each in champions]
        yield Family(series.CHAMPION_ACTIVE, list(zip(labels, active, strict=True)))
        since = [each.since_ms / 1000 for each in champions]
        yield Family(series.CHAMPION_TIMESTAMP, list(zip(labels, since, strict=True)))
        documents = [(version, told) for version, told in sorted(state.documents.items()) if version in known]
        kept = self._within_cap(documents)
        yield from self._of_maps(kept)
        yield Family(series.MAPS_LEFT_OUT, [((), len(documents) - len(kept))])
        looked = state.updated_ms > 0
        yield Family(series.MAPS_LOOKED, [((), state.updated_ms / 1000)] if looked else [])
        yield Family(series.MAPS_DURATION, [((), state.duration_seconds)] if looked else [])
        # Before the first look nothing is known of refits, and a counter that begins at 0 anew would look reset.
        yield from _of_refits(sorted({model for model, _ in known}) if looked else [], state.tallies)

    def _within_cap(self, documents: Documents) -> Documents:
        used = 0
        for at, (_, document) in enumerate(documents):
            maps = sum(told is not None for told in document["maps"].values())
            # Whatever is known of them: so the choice does not flicker as events come in.
            used += maps * (len(self._measures) + 2) + len(COMPARED) + 1
            if used > self._max_series:
                return documents[:at]
        return documents

    def _of_maps(self, documents: Documents) -> Iterator[Family]:
        maps = [
            ((*version, name), document, told)
            for version, document in documents
            for name, told in document["maps"].items()
            if told is not None
        ]
        yield Family(
            series.MAP_EVENTS,
            [(labels, document["n"]) for labels, document, told in maps if told["missing"] is None],
        )
        evidence = (
            ((*version, better, other), document["evidence"][f"{better}_against_{other}"])
            for version, document in documents
            for better, other in COMPARED
        )
        yield Family(
            series.MAP_LOG10_E, [(labels, found["log10_e"]) for labels, found in evidence if found is not None]
        )
        yield Family(series.MAP_MISSING, [(labels, told["missing"] is not None) for labels, _, told in maps])
        yield Family(series.MAP_CHANGED, [(version, _seconds(document["changed"])) for version, document in documents])
        level = self._levels.current
        for each in self._measures:
            if each.series.level > level:
                continue
            values = (
                (labels, told["measures"][each.measure][each.statistic])
                for labels, _, told in maps
                if each.measure in told["measures"]
            )
            yield Family(each.series, [(labels, value * each.scale) for labels, value in values if value is not None])


def _of_refits(models: Sequence[str], tallies: Sequence[Tally]) -> Iterator[Family]:
    found = {(each.model, each.state): each for each in tallies}
    ended: dict[Labels, list[Tally]] = {
        (model, result): [found[model, state] for state in states if (model, state) in found]
        for model in models
        for result, states in RESULTS.items()
    }
    last = {
        labels: max(of_result, key=lambda each: each.finished_ms or 0)
        for labels, of_result in ended.items()
        if of_result
    }
    yield Family(
        series.REFITS, [(labels, sum(each.refits for each in of_result)) for labels, of_result in ended.items()]
    )
    yield Family(
        series.REFIT_UNDER_WAY, [((model,), any((model, state) in found for state in UNDER_WAY)) for model in models]
    )
    yield Family(
        series.REFIT_TIMESTAMP,
        [(labels, each.finished_ms / 1000) for labels, each in last.items() if each.finished_ms is not None],
    )
    yield Family(
        series.REFIT_DURATION,
        [
            (labels, (each.finished_ms - each.started_ms) / 1000)
            for labels, each in last.items()
            if each.finished_ms is not None and each.started_ms is not None
        ],
    )


def _seconds(rfc3339: str) -> float:
    return datetime.fromisoformat(rfc3339).timestamp()
