"""The series of recalibration: refits, what serves, and raw beside recalibrated scores.

Refits and what serves are in the store; of each model, the replica that evaluates it exports them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from monitor.measures.base import Measure
from monitor.metrics.measures import MAP_LABELS, map_series
from monitor.metrics.series import VERSION_LABELS, Family, Labels, Level, Rows, Series, read_families
from monitor.recalibration.comparison import LiveComparison
from monitor.recalibration.live import COMPARED, LiveState
from monitor.store.recalibrations import UNDER_WAY, Champion, JobState, Tally

MAX_SERIES: Final = 100_000
"""Default cap on time series about maps: those of some 900 versions with a champion and a candidate each."""

RESULTS: Final[Mapping[str, tuple[JobState, ...]]] = {
    "failed": (JobState.FAILED,),
    "rejected": (JobState.REJECTED,),
    # A refit moves from one of these states to another, and is counted once: so the counter never falls.
    "passed": (JobState.CANDIDATE, JobState.CHAMPION, JobState.RETIRED, JobState.ROLLED_BACK),
}
_RESULT_LABELS: Final = ("model", "result")

Tallies = Mapping[JobState, Tally]
"""The refits of one model, by state."""

CHAMPIONS: Final[tuple[Series[Champion], ...]] = (
    Series(
        "calibration_champion_active",
        "1 where a map serves, 0 where it was taken back and none does. Absent where none ever did.",
        lambda champion: champion.map_id is not None,
        VERSION_LABELS,
    ),
    Series(
        "calibration_champion_timestamp_seconds",
        "When what serves now, a map or none, came to serve, seconds since the epoch. Absent where no map ever served.",
        lambda champion: champion.since_ms / 1000,
        VERSION_LABELS,
    ),
)


def _evidence(live: LiveComparison) -> Rows:
    pairs = ((pair, live.evidence["{}_against_{}".format(*pair)]) for pair in COMPARED)
    return [(pair, evidence.log10_e) for pair, evidence in pairs if evidence is not None]


MAPS: Final[tuple[Series[LiveComparison], ...]] = (
    Series(
        "calibration_map_events",
        "Sampled labelled events that a map is measured on: those that no refit of the maps shown saw.",
        lambda live: [((name,), live.n) for name, shown in live.maps.by_name().items() if shown.missing is None],
        MAP_LABELS,
    ),
    Series(
        "calibration_map_log10_e_value",
        "Decimal logarithm of the e-value that a map is better on these events than the one, or none, that it is "
        "weighed against. From 1.3 on, at one look, chance has less than 1 in 20.",
        _evidence,
        (*MAP_LABELS, "against"),
    ),
    Series(
        "calibration_map_missing",
        "1 where a map cannot be read, or does not fit the events, so that it is not measured; 0 elsewhere.",
        lambda live: [((name,), shown.missing is not None) for name, shown in live.maps.by_name().items()],
        MAP_LABELS,
    ),
    Series(
        "calibration_map_changed_timestamp_seconds",
        "When the events or maps that were measured last changed, seconds since the epoch.",
        lambda live: datetime.fromisoformat(live.changed).timestamp(),
        VERSION_LABELS,
    ),
)


class _Evaluation(NamedTuple):
    """The last evaluation of all maps."""

    state: LiveState
    left_out: int


EVALUATION: Final[tuple[Series[_Evaluation], ...]] = (
    Series(
        "calibration_maps_left_out",
        "Versions of models whose maps are measured, and not exported because there would be too many series.",
        lambda evaluation: evaluation.left_out,
    ),
    Series(
        "calibration_maps_evaluation_timestamp_seconds",
        "When all maps were last looked at, seconds since the epoch. Absent before the first time.",
        lambda evaluation: evaluation.state.updated_ms / 1000 if evaluation.state.updated_ms else None,
    ),
    Series(
        "calibration_maps_evaluation_duration_seconds",
        "What looking at all maps took the last time, without the rests in between. Absent before the first time.",
        lambda evaluation: evaluation.state.duration_seconds if evaluation.state.updated_ms else None,
    ),
)


def _by_result(tallies: Tallies) -> Iterator[tuple[Labels, list[Tally]]]:
    for result, states in RESULTS.items():
        yield (result,), [tallies[state] for state in states if state in tallies]


def _last(tallies: Tallies) -> Iterator[tuple[Labels, int, int | None]]:
    """When the last refit of each result finished and was started."""
    for labels, ended in _by_result(tallies):
        last = max(ended, key=lambda tally: tally.finished_ms or 0, default=None)
        if last is not None and last.finished_ms is not None:
            yield labels, last.finished_ms, last.started_ms


REFITS: Final[tuple[Series[Tallies], ...]] = (
    Series(
        "calibration_refits_total",
        "Refits that ended, over all time and replicas: it is counted in the store, so that it outlives the process. "
        "passed: there is a better map, whether it serves or not; rejected: it is not better; failed: there is none.",
        lambda tallies: [(labels, sum(tally.refits for tally in ended)) for labels, ended in _by_result(tallies)],
        _RESULT_LABELS,
    ),
    Series(
        "calibration_refit_under_way",
        "1 while a refit of the model is queued or running on any replica, else 0.",
        lambda tallies: any(state in tallies for state in UNDER_WAY),
        ("model",),
    ),
    Series(
        "calibration_refit_timestamp_seconds",
        "When the last refit with this result ended, seconds since the epoch. Absent before the first.",
        lambda tallies: [(labels, finished_ms / 1000) for labels, finished_ms, _ in _last(tallies)],
        _RESULT_LABELS,
    ),
    Series(
        "calibration_refit_duration_seconds",
        "How long the last refit with this result ran. Absent before the first.",
        lambda tallies: [
            (labels, (finished_ms - started_ms) / 1000)
            for labels, finished_ms, started_ms in _last(tallies)
            if started_ms is not None
        ],
        _RESULT_LABELS,
    ),
)


class RefitFamilies:
    """The families of refits, of what serves, and of raw beside recalibrated scores.

    Parameters
    ----------
    state
        Returns what was last measured on live events. A scrape does not read the store.
    measures
        Those that maps are measured by.
    held
        (model, version) of all that is held now: the store keeps models whose last event is long gone, and their
        series vanish all the same.
    max_series
        Cap on time series about maps. Beyond it, versions are left out and counted, the last by name first.
    level
        How much is exported of each map's measures: as of windows.
    """

    def __init__(
        self,
        state: Callable[[], LiveState],
        measures: Iterable[Measure],
        held: Callable[[], Collection[tuple[str, str]]],
        *,
        level: Level,
        max_series: int = MAX_SERIES,
    ) -> None:
        self._max_series = max_series
        self._state = state
        self._measures = [series for series in map_series(measures) if series.level <= level]
        self._held = held

    def __call__(self) -> Iterator[Family]:
        """Read the last state."""
        state, held = self._state(), frozenset(self._held())
        champions = [((champion.model, champion.version), champion) for champion in state.champions]
        yield from read_families(CHAMPIONS, [(version, champion) for version, champion in champions if version in held])
        documents = [(version, document) for version, document in sorted(state.documents.items()) if version in held]
        kept = self._within_cap(documents)
        yield from read_families(MAPS, kept)
        yield from read_families(self._measures, kept)
        yield from read_families(EVALUATION, [((), _Evaluation(state, len(documents) - len(kept)))])
        # Before the first evaluation refits are unknown, and a counter that began at 0 would look like a reset.
        models = sorted({model for model, _ in held}) if state.updated_ms else []
        by_model: dict[str, dict[JobState, Tally]] = {model: {} for model in models}
        for tally in state.tallies:
            if tally.model in by_model:
                by_model[tally.model][tally.state] = tally
        yield from read_families(REFITS, [((model,), tallies) for model, tallies in by_model.items()])

    def _within_cap(
        self, documents: Sequence[tuple[Labels, LiveComparison]]
    ) -> Sequence[tuple[Labels, LiveComparison]]:
        used = 0
        for at, (_, document) in enumerate(documents):
            # As many as there can be, so that the choice does not flicker as events come in.
            used += len(document.maps.by_name()) * (len(self._measures) + 2) + len(COMPARED) + 1
            if used > self._max_series:
                return documents[:at]
        return documents
