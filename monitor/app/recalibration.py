"""Recalibration as the service runs it: the settings spread over its parts, and its threads."""

import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from monitor.app.parts import make_measures
from monitor.app.refit_task import read_result, write_task
from monitor.app.settings import Settings
from monitor.app.settings.models import ModelsSettings
from monitor.app.settings.refits import RefitSettings
from monitor.app.settings.values import to_ms
from monitor.clock import Clock
from monitor.errors import UnknownSeries
from monitor.events.model import ALL, SeriesKey
from monitor.measures import choose_measures
from monitor.measures.base import Measure
from monitor.recalibration.folders import Workplace
from monitor.recalibration.live import DRAWS, LiveMonitor
from monitor.recalibration.plan import RefitPlan
from monitor.recalibration.runner import Handover, Runner
from monitor.recalibration.schedule import Finding, Scheduler
from monitor.recalibration.service import Live, Recalibrations
from monitor.recalibration.serving import Serving
from monitor.reports.evaluation.either import evaluate
from monitor.reports.evaluation.report import ReportKey, Verdict
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.sql import SqlStore
from monitor.windows.lookup import find_series
from monitor.windows.snapshot import Snapshot
from monitor.windows.windows import PaneReader, Window

_COOL_DOWN: Final = 4
"""By verdict, a model is refitted at most so often while its longest window passes."""

_EVALUATIONS_A_LOOK: Final = 6
"""Live maps are looked at once in so many evaluations: their events come a span at a time."""
_LOOK_SECONDS: Final = 0.05

_log = structlog.get_logger(__name__)


class Recalibration:
    """Refits, schedules and what serves. Use once: ``start``, ``stop``, ``join``.

    Parameters
    ----------
    settings
        All settings.
    store
        The store that is open, with the samples.
    panes
        What has been counted: it tells models and versions.
    windows
        The windows of every series.
    latest
        The latest snapshot.
    ready
        Whether kernels are compiled and state is restored: until then, no live events are measured.
    clock
        The one clock.
    """

    def __init__(
        self,
        settings: Settings,
        store: SqlStore,
        *,
        panes: PaneReader,
        windows: Sequence[Window],
        latest: Callable[[], Snapshot],
        ready: Callable[[], bool],
        clock: Clock,
    ) -> None:
        chosen = settings.recalibration
        refits = RecalibrationStore(store.database, chosen.keep)
        self.serving = Serving(refits, clock=clock)
        plan, models = make_plan(settings.models), make_models(settings.models, panes)
        self.measures = make_map_measures(settings)
        self.live = LiveMonitor(
            refits,
            store,
            evaluate_of=lambda model: partial(
                evaluate, measures=self.measures, tolerance=settings.models.tolerance(model)
            ),
            interval_seconds=_EVALUATIONS_A_LOOK * settings.evaluation.interval.total_seconds(),
            draws=min(DRAWS, settings.evaluation.draws),
            clock=clock,
        )
        self.runner = Runner(
            refits,
            store,
            make_handover(),
            Workplace(store.database.place),
            jobs=chosen.jobs,
            timeout_seconds=chosen.timeout.total_seconds(),
            held_out=chosen.held_out,
            tolerance=settings.models.tolerance,
            promoted=self.serving.refresh,
            clock=clock,
        )
        self.lifecycle = Recalibrations(
            refits,
            versions=make_versions(panes, windows, self.serving),
            models=models,
            plan=plan,
            serving=self.serving,
            live=self.live.document,
            wake=self.runner.wake,
            clock=clock,
        )
        longest = longest_window(windows)
        self.scheduler = Scheduler(
            self.lifecycle,
            refits,
            models=models,
            plan=plan,
            finding=make_finding(panes, longest, latest, self.serving, self.live.document),
            cool_down_ms=longest.length_ms // _COOL_DOWN,
            clock=clock,
        )
        self._ready = ready
        self._clock = clock
        self._stopping = threading.Event()
        self._scheduler_thread = threading.Thread(target=self.scheduler.run, name="refit schedules", daemon=True)
        self._live_thread = threading.Thread(target=self._run_live, name="live maps", daemon=True)

    @property
    def recalibrations(self) -> Recalibrations:
        """What the API, the exposition and pages ask."""
        return self.lifecycle

    def start(self) -> None:
        """Start the threads."""
        self.runner.start()
        self._scheduler_thread.start()
        self._live_thread.start()

    def stop(self) -> None:
        """Ask for no more refits, and release those under way. Does not wait for it."""
        self._stopping.set()
        self.live.stop()
        self.scheduler.stop()
        self.runner.stop()

    def join(self, seconds: float) -> bool:
        """Wait until all has ended; False if that takes longer."""
        deadline = self._clock.monotonic() + seconds

        def left() -> float:
            return max(0.0, deadline - self._clock.monotonic())

        ended = self.runner.join(seconds)
        if self._scheduler_thread.ident is not None:
            self._scheduler_thread.join(left())
        if not ended:
            _log.error("a refit could not be released in time; it is begun again when its lease has run out")
        if self._live_thread.ident is not None:
            # It only reads: whether it ends in time is of no consequence.
            self._live_thread.join(left())
        return ended and not self._scheduler_thread.is_alive()

    def _run_live(self) -> None:
        while not self._ready():
            if self._stopping.wait(_LOOK_SECONDS):
                return
        self.live.run()


def make_plan(models: ModelsSettings) -> Callable[[str], RefitPlan]:
    """What the settings say of a model's refits."""
    declared = {name: _plan(models.refits(name)) for name in models.declared}
    usual = _plan(models.defaults.recalibration)
    return lambda name: declared.get(name, usual)


def make_models(models: ModelsSettings, panes: PaneReader) -> Callable[[], Collection[str]]:
    """Names of the models that are declared or that have been seen."""
    return lambda: {*models.declared, *(each.model for each in panes.series())}


def make_versions(panes: PaneReader, windows: Sequence[Window], serving: Serving) -> Callable[[str, str | None], str]:
    """(model, version or None) -> the version meant, or the current one."""

    def version_of(model: str, version: str | None) -> str:
        try:
            return find_series(panes, windows, model=model, version=version, segment=ALL).version
        except UnknownSeries:
            # Of events this replica may have none, or none yet; maps serve all the same.
            served = [each for each in serving.served(model) if version in {None, each.version}]
            if not served:
                raise
            return max(served, key=lambda each: each.since_ms).version

    return version_of


def make_map_measures(settings: Settings) -> Mapping[str, Measure]:
    """What live maps are measured by: what windows are, and the proper scores that evidence is about."""
    return choose_measures({*make_measures(settings), "brier", "log_loss"})


def make_known(panes: PaneReader) -> Callable[[], Collection[tuple[str, str]]]:
    """(model, version) of all that is held now."""
    return lambda: {(each.model, each.version) for each in panes.series()}


def make_finding(
    panes: PaneReader, window: Window, latest: Callable[[], Snapshot], serving: Serving, live: Live
) -> Callable[[str], Finding | None]:
    """What is found about what a model's current version serves; None where nothing can be said.

    Where no map serves, or the one that does cannot be applied, that is the latest evaluation's verdict on the window,
    of the predictions as they are; where one does, the live document's verdict on it.
    """

    def find(model: str) -> Finding | None:
        snapshot = latest()
        version = snapshot.current_versions.get(model)
        if version is None:
            return None
        champion = _champion(serving.champion(model, version).map_id, live(model, version))
        if champion is None or champion.get("missing") is not None:
            report = snapshot.reports.get(ReportKey(SeriesKey(model, version, ALL), window.name))
            verdict = None if report is None or report.diagnosis is None else report.diagnosis.verdict
        else:
            told = champion.get("verdict")
            verdict = None if told is None else Verdict(told["verdict"])
        if verdict is None:
            return None
        return Finding(
            version=version,
            miscalibrated=verdict in {Verdict.SHAPE, Verdict.BOTH},
            # Later ones are not in the sample: their outcome can still change.
            newest_ms=snapshot.watermarks_ms[model] - panes.policy(model).retention_ms,
        )

    return find


def _champion(map_id: str | None, document: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What the live document says of the map that serves: nothing yet, if it is of another; None where none serves."""
    if map_id is None:
        return None
    told: Mapping[str, Any] | None = None if document is None else document["maps"]["champion"]
    return told if told is not None and told["id"] == map_id else {}


def longest_window(windows: Sequence[Window]) -> Window:
    """The window whose verdict may ask for a refit: the longest, of equals one by time and mature."""
    return max(windows, key=lambda window: (window.last is None, window.mature, window.length_ms))


def make_handover() -> Handover:
    """Workers are this very Python, running monitor/app/refit_worker.py."""

    def command(folder: Path) -> list[str]:
        return [sys.executable, "-m", "monitor.app.refit_worker", str(folder)]

    return Handover(write=write_task, command=command, read=read_result)


def _plan(refits: RefitSettings) -> RefitPlan:
    return RefitPlan(
        method=refits.method,
        options=refits.options,
        window_ms=None if refits.window is None else to_ms(refits.window),
        schedule=refits.cron,
        on_verdict=refits.on_verdict,
        automatic=refits.promotion == "automatic",
    )
