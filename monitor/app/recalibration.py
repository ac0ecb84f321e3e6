"""Recalibration in the running service: its parts, made from the settings, and its threads."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from monitor.app.parts import make_measures
from monitor.app.settings import Settings
from monitor.app.settings.models import ModelsSettings
from monitor.app.upkeep import Periodic
from monitor.clock import Clock
from monitor.errors import UnknownSeries
from monitor.events.model import ALL, SeriesKey
from monitor.measures import choose_measures
from monitor.measures.base import Measure
from monitor.recalibration.live import DRAWS, LiveMonitor
from monitor.recalibration.plan import RefitPlan
from monitor.recalibration.runner import Runner
from monitor.recalibration.schedule import POLL_SECONDS, Scheduler, ShapeVerdict
from monitor.recalibration.service import Live, Recalibrations
from monitor.recalibration.serving import REFRESH_SECONDS, ServingMaps
from monitor.reports.evaluation.evaluate import evaluate
from monitor.reports.evaluation.report import ReportKey, Verdict
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.sql import SqlStore
from monitor.windows.lookup import find_series
from monitor.windows.panes import ClosedPanes
from monitor.windows.snapshot import Snapshot
from monitor.windows.windows import Window

_REFITS_PER_WINDOW: Final = 4
"""Maximum number of refits by verdict within the longest window."""

_EVALUATIONS_PER_ROUND: Final = 6
"""Live maps are measured once per this many evaluations, because their events arrive one span at a time."""

_SHAPE: Final = "prevalence"
"""The detector that no shift of the prior alone moves."""

_log = structlog.get_logger(__name__)


class RecalibrationThreads:
    """Runs refits, schedules and live measurements. Use once: ``start``, ``stop``, ``join``.

    Parameters
    ----------
    settings
        All settings.
    store
        The open store, with the samples.
    panes
        Panes of all series: the source of models and versions.
    windows
        The windows of every series.
    latest
        Returns the latest snapshot.
    evaluates
        Whether this replica has the role ``evaluate``: it runs refits and requests those that are due.
    clock
        The clock.
    """

    def __init__(
        self,
        settings: Settings,
        store: SqlStore,
        *,
        panes: ClosedPanes,
        windows: Sequence[Window],
        latest: Callable[[], Snapshot],
        evaluates: bool = True,
        clock: Clock,
    ) -> None:
        self._evaluates = evaluates
        chosen = settings.recalibration
        refits = RecalibrationStore(store.database, chosen.keep)
        self.serving = ServingMaps(refits, clock=clock)
        self.measures = make_map_measures(settings)
        self.live = LiveMonitor(
            refits,
            store.read_sample,
            evaluate_of=lambda model: partial(
                evaluate, of_classes=True, measures=self.measures, tolerance=settings.models.tolerance(model)
            ),
            draws=min(DRAWS, settings.evaluation.draws),
            clock=clock,
        )
        self.runner = Runner(
            refits,
            store.read_sample,
            jobs=chosen.jobs,
            timeout_seconds=chosen.timeout.total_seconds(),
            held_out=chosen.held_out,
            tolerance=settings.models.tolerance,
            promoted=self.serving.note_change,
            clock=clock,
        )
        self.recalibrations = Recalibrations(
            refits,
            versions=make_versions(panes, windows, self.serving),
            plan=make_plan(settings.models),
            serving=self.serving,
            live=self.live.document,
            wake=self.runner.wake,
            clock=clock,
        )
        longest = longest_window(windows)
        self.scheduler = Scheduler(
            self.recalibrations,
            models=make_models(settings.models, panes),
            finding=make_finding(panes, longest, latest, self.serving, self.live.document),
            cool_down_ms=longest.length_ms // _REFITS_PER_WINDOW,
            clock=clock,
        )
        self._clock = clock
        self._champions = Periodic("champions", REFRESH_SECONDS, self.serving.refresh)
        self._schedules = Periodic("refit schedules", POLL_SECONDS, self.scheduler.request_due, at_once=True)
        interval_seconds = _EVALUATIONS_PER_ROUND * settings.evaluation.interval.total_seconds()
        self._live_maps = Periodic("live maps", interval_seconds, self.live.update, at_once=True)

    def start(self) -> None:
        """Start the threads, once the kernels are compiled."""
        if self._evaluates:
            self.runner.start()
            self._schedules.start()
        self._champions.start()
        self._live_maps.start()

    def stop(self) -> None:
        """Request no more refits and release those under way, without waiting."""
        self.live.stop()
        for task in (self._live_maps, self._schedules, self._champions):
            task.stop(0.0)
        self.runner.stop()

    def join(self, seconds: float) -> bool:
        """Wait until all threads have ended; return False if that takes longer."""
        deadline = self._clock.monotonic() + seconds

        def left() -> float:
            return max(0.0, deadline - self._clock.monotonic())

        ended = self.runner.join(seconds)
        schedules_ended = self._schedules.stop(left())
        if not ended:
            _log.error("a refit could not be released in time; it starts again when its lease has expired")
        # They only read: they need not end in time.
        self._champions.stop(left())
        self._live_maps.stop(left())
        return ended and schedules_ended


def make_plan(models: ModelsSettings) -> Callable[[str], RefitPlan]:
    """Return a function: model -> the plan of its refits."""
    return lambda name: models.of(name).recalibration


def make_models(models: ModelsSettings, panes: ClosedPanes) -> Callable[[], Collection[str]]:
    """Return a function that lists the models that are declared or have events."""
    return lambda: {*models.declared, *(series.model for series in panes.series())}


def make_versions(
    panes: ClosedPanes, windows: Sequence[Window], serving: ServingMaps
) -> Callable[[str, str | None], str]:
    """Return a function: (model, version or None) -> that version, or the current one."""

    def version_of(model: str, version: str | None) -> str:
        try:
            return find_series(panes, windows, model=model, version=version, segment=ALL).version
        except UnknownSeries:
            # No event of the model may be settled yet, and a map may serve it all the same.
            champions = [champion for champion in serving.served(model) if version in {None, champion.version}]
            if not champions:
                raise
            return max(champions, key=lambda champion: champion.since_ms).version

    return version_of


def make_map_measures(settings: Settings) -> Mapping[str, Measure]:
    """Return the measures of live maps: those of windows, and the proper scores that evidence is about."""
    return choose_measures({*make_measures(settings), "brier", "log_loss"})


def make_known(panes: ClosedPanes, held: Callable[[], Collection[str]]) -> Callable[[], Collection[tuple[str, str]]]:
    """Return a function that lists (model, version) of all series of the models whose lease this process has."""

    def known() -> Collection[tuple[str, str]]:
        models = held()
        return {(series.model, series.version) for series in panes.series() if series.model in models}

    return known


def make_finding(
    panes: ClosedPanes, window: Window, latest: Callable[[], Snapshot], serving: ServingMaps, live: Live
) -> Callable[[str], ShapeVerdict | None]:
    """Return a function: model -> what is found about what its current version serves, or None if nothing is.

    Where there is evidence on the shape of served predictions, it decides. Otherwise, if a map serves and can be
    applied, it is the live document's verdict on that map, and else the latest evaluation's verdict on the window.
    """

    def find(model: str) -> ShapeVerdict | None:
        snapshot = latest()
        version = snapshot.current_version(model)
        if version is None:
            return None
        # Later events are not in the sample: their outcome can still change.
        newest_ms = snapshot.models[model].watermark_ms - panes.policy(model).retention_ms
        evidence = snapshot.models[model].evidence.versions.get(version)
        if evidence is not None and _SHAPE in evidence.levels:
            raised = evidence.levels[_SHAPE].raised
            since_ms = None if raised is None else raised.since_ms
            return ShapeVerdict(version, miscalibrated=raised is not None, newest_ms=newest_ms, since_ms=since_ms)
        map_id, document = serving.champion(model, version).map_id, live(model, version)
        champion = None if document is None else document.maps.champion
        verdict = None
        if map_id is None or (champion is not None and champion.id == map_id and champion.missing is not None):
            report = snapshot.reports.get(ReportKey(SeriesKey(model, version, ALL), window.name))
            if report is not None and report.diagnosis is not None:
                verdict = report.diagnosis.verdict
        # A document that was made before the last promotion is about another map.
        elif champion is not None and champion.id == map_id and champion.verdict is not None:
            verdict = champion.verdict.verdict
        if verdict is None:
            return None
        return ShapeVerdict(version, miscalibrated=verdict in {Verdict.SHAPE, Verdict.BOTH}, newest_ms=newest_ms)

    return find


def longest_window(windows: Sequence[Window]) -> Window:
    """Return the window whose verdict may trigger a refit: the longest; of equal ones, one by time and mature."""
    return max(windows, key=lambda window: (window.last is None, window.mature, window.length_ms))
