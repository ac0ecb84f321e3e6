"""The running service: start and stop its threads.

The pipeline's thread owns the source, one thread evaluates windows, the HTTP server and the refits have their own.
Errors:

- Wrong settings, a port that is taken, a store of another version: nothing starts; one line, and the process ends.
- A broker or database that does not answer: retried with backoff, while REST serves and /readyz says so. A database
  that is not there at the start is awaited for half a minute.
- A broker that refuses (a wrong password, a missing ACL, topics that do not fit): retried likewise, until the cause is
  fixed.
- A condition that needs a decision (too many dead letters, purged offsets, another replica of the same name):
  consumption stops, REST goes on serving the last snapshot, and /readyz names the cause. A restart does not help.
- An unexpected error in the pipeline: the process ends with status 1, so that its supervisor restarts it from
  the last checkpoint.
"""

import gc
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from monitor.alarms.alarms import Alarms
from monitor.alarms.webhooks import POLL_SECONDS, Webhook
from monitor.app.access import make_authenticator, warn_of_no_access
from monitor.app.evaluation import Evaluation
from monitor.app.parts import (
    Log,
    make_decoder,
    make_evaluator,
    make_json_topics,
    make_log,
    make_panes,
    make_pipeline,
    make_policy,
    make_topics,
    make_watcher,
    make_webhooks,
    make_windows,
    open_store,
)
from monitor.app.recalibration import RecalibrationThreads, make_known, make_plan
from monitor.app.settings import Settings
from monitor.app.telemetry import make_telemetry
from monitor.app.upkeep import BACKLOG_SECONDS, CAPS_SECONDS, CLEANUP_SECONDS, Backlog, CapWatch, Periodic, make_cleanup
from monitor.app.warmup import warm_up
from monitor.clock import Clock, SimulatedTime
from monitor.errors import MonitorError, SettingsError, StoreUnavailable
from monitor.events.log import Topics
from monitor.free_memory import without_collection
from monitor.http.app import create_api
from monitor.http.connections import Connections
from monitor.http.request_log import RefusedRequests, RequestTraffic
from monitor.http.server import ApiServer
from monitor.http.services import Services
from monitor.http.tls import Certificate
from monitor.metrics.alerts import AlertFamilies
from monitor.metrics.evidence import EvidenceFamilies
from monitor.metrics.exposition import Exposition
from monitor.metrics.refits import RefitFamilies
from monitor.metrics.series import Level
from monitor.metrics.service import backlog_families, http_families, pipeline_families, role_families
from monitor.metrics.windows import WindowFamilies
from monitor.outage_log import Outage
from monitor.section import hide_password
from monitor.store.alerts import AlertStore
from monitor.store.evaluations import EvaluationStore
from monitor.store.sql import SqlStore
from monitor.store.webhooks import WebhookStore
from monitor.stream.status import Phase, PipelineStatus
from monitor.version import VERSION
from monitor.windows.evidence_history import EvidenceHistory
from monitor.windows.history import History
from monitor.windows.leases import BEAT_SECONDS, Leases
from monitor.windows.reports import Reports
from monitor.windows.snapshots import READ_SECONDS, SharedSnapshots

_STORE_PATIENCE_SECONDS: Final = 30.0
_STORE_RETRY_SECONDS: Final = 1.0
_PIPELINE_SECONDS: Final = 7.5
"""How long the pipeline may take to finish its batch, save and leave: Kafka alone gets 5 s to let it go."""
_REFIT_SECONDS: Final = 2.5
"""How long refits may take to be released, once the pipeline has saved: until then, SQLite may make them wait."""
_GRACE_SECONDS: Final = 1.0
"""How long requests under way may take at the end. Together, all ends within 10 s."""
_GARBAGE_THRESHOLDS: Final = (200_000, 50, 50)
_SWITCH_SECONDS: Final = 0.001

_log = structlog.get_logger(__name__)


class Service:
    """Everything that `monitor serve` runs. Use once: ``start``, ``wait``, ``stop``.

    Parameters
    ----------
    settings
        All settings.
    clock
        The wall clock.
    simulation
        How the time of a simulation runs that writes the events; None: events are of the clock's time.

    Raises
    ------
    SettingsError, StoreError, SourceError
        It cannot start. Nothing runs.
    """

    def __init__(
        self, settings: Settings, clock: Clock, simulation: Callable[[], SimulatedTime | None] = lambda: None
    ) -> None:
        self._clock = clock
        self._ended = threading.Event()
        self._warm = threading.Event()
        self._stopping = threading.Event()
        self._broken = False
        self._settings = settings
        self.store = _open_patiently(settings, self._clock)
        try:
            self.log: Log = make_log(settings, self._clock)
            self.pipeline = None
            if "consume" in settings.roles:
                self.pipeline = make_pipeline(settings, self.log, self.store, self._clock)
            panes = make_panes(settings)
            windows = make_windows(settings)
            evaluations = EvaluationStore(self.store.database)
            self.leases = Leases(evaluations, _replica_id(), settings.roles, clock=self._clock)
            self.snapshots = SharedSnapshots(
                evaluations, self.leases, {window.name for window in windows}, clock=self._clock
            )
            plan = make_plan(settings.models)
            self.evaluator = make_evaluator(settings, panes, self._clock)
            self.evaluation = Evaluation(
                store=self.store,
                panes=panes,
                evaluations=evaluations,
                leases=self.leases,
                evaluator=self.evaluator,
                watcher=make_watcher(settings, panes, self.store, self._clock),
                alarms=Alarms(self.store.database, lambda model: plan(model).automatic),
                snapshots=self.snapshots,
                clock=self._clock,
            )
            webhooks: list[Webhook] = []
            if "evaluate" in settings.roles:
                deliveries = WebhookStore(self.store.database)
                webhooks = [
                    Webhook(target, deliveries, owner=self.leases.replica, clock=self._clock)
                    for target in make_webhooks(settings)
                ]
            self.recalibration = RecalibrationThreads(
                settings,
                self.store,
                panes=panes,
                windows=windows,
                latest=lambda: self.snapshots.latest,
                evaluates="evaluate" in settings.roles,
                clock=self._clock,
            )
            backlog, caps = Backlog(settings, self.store, self._clock), CapWatch(self.store)
            traffic, refused = RequestTraffic(), RefusedRequests(self._clock)
            level = Level[settings.exposition.level.upper()]
            exposition = Exposition(
                [
                    role_families(settings.roles),
                    *([pipeline_families(lambda: self.status)] if self.pipeline is not None else []),
                    backlog_families(lambda: backlog.unread),
                    WindowFamilies(
                        self.evaluator,
                        self.evaluator.measures.values(),
                        exported=self.snapshots.exported,
                        max_series=settings.exposition.max_series,
                        declared=settings.models.declared,
                        level=level,
                    ),
                    RefitFamilies(
                        lambda: self.recalibration.live.latest,
                        self.recalibration.measures.values(),
                        make_known(panes, self.leases.held),
                        level=level,
                    ),
                    EvidenceFamilies(self.snapshots.exported),
                    AlertFamilies(lambda: self.evaluation.alerts, self.leases.held, webhooks),
                    http_families(traffic.requests, traffic.seconds, refused.counts),
                ]
            )
            self._telemetry = make_telemetry(os.environ)
            api, certificate = settings.api, None
            if api.tls_certfile is not None and api.tls_keyfile is not None:
                certificate = Certificate(api.tls_certfile, api.tls_keyfile)
            self.server = ApiServer(
                create_api(
                    Services(
                        reports=Reports(panes, self.evaluator, self.snapshots),
                        history=History(self.store.database),
                        evidence_history=EvidenceHistory(self.store.database),
                        false_alarms_per_year=settings.alerts.false_alarms_per_year,
                        status=lambda: self.status,
                        policy=make_policy(settings.models),
                        writer=self.log.writer,
                        topics=_writable(settings),
                        metrics=exposition.render,
                        declared=list(settings.models.declared),
                        labels=settings.models.labels,
                        decoder=partial(make_decoder, settings, self._clock),
                        clock=self._clock,
                        api=api,
                        access=settings.access,
                        stream_seconds=0.8 * api.request_timeout.total_seconds(),
                        recalibrations=self.recalibration.recalibrations,
                        alerts=AlertStore(self.store.database),
                        is_stopping=self._stopping.is_set,
                        authenticator=make_authenticator(settings, self.store, self._clock),
                        roles=settings.roles,
                        caps=lambda: caps.latest,
                        replicas=evaluations.replicas,
                        traffic=traffic,
                        refused=refused,
                        simulation=simulation,
                    )
                ),
                api.host,
                api.port,
                grace_seconds=_GRACE_SECONDS,
                max_header_bytes=api.max_header_bytes,
                header_seconds=api.body_timeout.total_seconds(),
                connections=Connections(api.max_connections, refused),
                certificate=certificate,
            )
            warn_of_no_access(settings, self.store, self._clock)
        except BaseException:
            self.store.close()
            raise
        cleanup = make_cleanup(settings, self.store.database, self._clock)
        self._upkeep = [
            Periodic("leases", BEAT_SECONDS, self.leases.beat, at_once=True),
            Periodic("housekeeping", CLEANUP_SECONDS, cleanup),
            *(Periodic(f"webhook {hook.target.name}", POLL_SECONDS, hook.deliver_due) for hook in webhooks),
        ]
        if "consume" in settings.roles:
            self._upkeep.append(Periodic("backlog", BACKLOG_SECONDS, backlog.measure))
        if "serve" in settings.roles:
            self._upkeep.append(Periodic("caps", CAPS_SECONDS, caps.read, at_once=True))
        if self._reads_closings:
            self._upkeep.append(Periodic("snapshots", READ_SECONDS, self._read_evaluations, at_once=True))
        self._pipeline_thread = threading.Thread(target=self._run_pipeline, name="pipeline", daemon=True)
        self._evaluation_thread = threading.Thread(target=self._run_evaluation, name="evaluation", daemon=True)

    @property
    def status(self) -> PipelineStatus:
        """State of the pipeline; of a replica that does not consume, whether it has read what the others published."""
        if self.pipeline is not None:
            return self.pipeline.status
        if self._stopping.is_set():
            return PipelineStatus(Phase.STOPPED)
        if self._warm.is_set() and self.snapshots.was_read:
            return PipelineStatus(Phase.RUNNING)
        return PipelineStatus(Phase.STARTING, "the kernels are compiled and the latest evaluations are read")

    @property
    def _reads_closings(self) -> bool:
        return not {"evaluate", "serve"}.isdisjoint(self._settings.roles)

    @property
    def warm(self) -> bool:
        """Whether the numerical kernels are compiled."""
        return self._warm.is_set()

    def start(self) -> None:
        """Start all threads; returns once HTTP requests are answered.

        Raises
        ------
        SettingsError
            The port cannot be had.
        """
        try:
            self.server.start()
        except BaseException:
            self.store.close()
            raise
        _log.info(
            "started",
            version=VERSION,
            source=self._settings.source.kind,
            topics=list(make_topics(self._settings).kinds),
            store=hide_password(self._settings.store.url),
        )
        if self._telemetry is not None:
            self._telemetry.start()
        self._pipeline_thread.start()
        if "evaluate" in self._settings.roles:
            self._evaluation_thread.start()
        for task in self._upkeep:
            task.start()

    def end(self) -> None:
        """Let :meth:`wait` return. May be called from any thread and from signal handlers."""
        self._ended.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until :meth:`end`, or until the pipeline fails unexpectedly; False if that takes longer."""
        return self._ended.wait(seconds)

    def stop(self) -> bool:
        """Finish the batch, save, leave the group, and end all threads.

        Returns
        -------
        Whether everything ended well: False if the pipeline had failed, or did not end in time.
        """
        _log.info("stopping")
        began = self._clock.monotonic()
        self._stopping.set()
        if self.pipeline is not None:
            self.pipeline.stop()
        self.evaluation.stop()
        self.recalibration.stop()
        # Other replicas evaluate its models from now on. The end does not wait for a database that is away.
        leaving = threading.Thread(target=self._leave, name="leave", daemon=True)
        leaving.start()
        if not self._warm.is_set():
            # Compilation cannot be interrupted, and nothing was read yet.
            self.server.stop()
            return self.recalibration.join(_REFIT_SECONDS)
        self._pipeline_thread.join(_PIPELINE_SECONDS)
        self.server.stop()
        ends_at = began + _PIPELINE_SECONDS + _REFIT_SECONDS
        released = self.recalibration.join(max(0.1, ends_at - self._clock.monotonic()))
        if self._pipeline_thread.is_alive():
            _log.error("the pipeline did not end in time; what it has not saved is read again at the next start")
            return False
        if self._evaluation_thread.ident is not None:
            self._evaluation_thread.join(_GRACE_SECONDS)
        leaving.join(_GRACE_SECONDS)
        if self._telemetry is not None:
            self._telemetry.stop(_GRACE_SECONDS)
        for task in self._upkeep:
            task.stop(_GRACE_SECONDS)
        self.log.writer.close()
        self.store.close()
        _log.info("stopped", records_read=self.status.records_read)
        return released and self.status.phase is not Phase.FAILED and not self._broken

    def _run_pipeline(self) -> None:
        began = self._clock.monotonic()
        try:
            with without_collection():
                warm_up()
        except Exception:  # noqa: BLE001 - the thread ends here, and the log says why
            _log.exception("the numerical kernels cannot be compiled")
            self._broken = True
            self.end()
            return
        finally:
            self._warm.set()
        _log.info("kernels compiled", seconds=round(self._clock.monotonic() - began, 1))
        tune_interpreter()
        if self._reads_closings:
            self.recalibration.start()
        if self.pipeline is None:
            return
        self.pipeline.run()
        failure = self.pipeline.failure
        if failure is not None and not isinstance(failure, MonitorError):
            self.end()

    def _run_evaluation(self) -> None:
        self._warm.wait()
        if not self._broken:
            self.evaluation.run()

    def _leave(self) -> None:
        self.leases.leave()

    def _read_evaluations(self) -> None:
        if "evaluate" not in self._settings.roles:
            # Reports as of an earlier time are summed here.
            try:
                self.evaluation.read_closings()
            except StoreUnavailable as error:
                _log.debug("closings cannot be read", detail=str(error))
        self.snapshots.read()


def _replica_id() -> str:
    """An id that no other process ever has."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def _open_patiently(settings: Settings, clock: Clock) -> SqlStore:
    """Open the store; wait a while for a database that is only just starting."""
    deadline = clock.monotonic() + _STORE_PATIENCE_SECONDS
    outage = Outage(_log, "waiting for the store", "the store answers", clock)
    while True:
        try:
            store = open_store(settings, clock)
        except StoreUnavailable as error:
            if clock.monotonic() >= deadline:
                raise
            outage.failed(error)
            clock.sleep(_STORE_RETRY_SECONDS)
        else:
            outage.over()
            return store


def _writable(settings: Settings) -> Topics | None:
    """The topics that POST /v1/events writes to; None if all are of other formats than JSON."""
    try:
        return make_json_topics(settings)
    except SettingsError:
        return None


def tune_interpreter() -> None:
    """Tune garbage collection and thread switching. Call it after all modules are loaded and all loops compiled."""
    # A poll makes tens of thousands of objects, all of which are soon freed. With the default thresholds the collector
    # scans them, every module and every compiled kernel hundreds of times a second and finds nothing: up to 40% of the
    # pipeline's time. So existing objects are excluded for good, and new ones are scanned after a few polls.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    # While the pipeline decodes, a request waits for the interpreter's lock at each of its steps, by default for 5 ms
    # each time. With few threads, switching more often costs the pipeline almost nothing.
    sys.setswitchinterval(_SWITCH_SECONDS)
