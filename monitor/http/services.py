"""The parts of the service that the routes use. ``monitor.app`` puts them together."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Request

from monitor.access.model import Authenticator
from monitor.access.settings import AccessSettings
from monitor.clock import Clock, SimulatedTime
from monitor.events.codec import Decoder
from monitor.events.log import Topics, Writer
from monitor.events.model import ModelPolicy
from monitor.http.authorization import Authorization, Of
from monitor.http.event_stream import NewestChange
from monitor.http.limits import ConcurrencyLimit, Shares
from monitor.http.request_log import RefusedRequests, RequestTraffic
from monitor.http.settings import ApiSettings
from monitor.http.snapshots import DifferentSnapshots, SnapshotView
from monitor.recalibration.service import Recalibrations
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.evaluate import evaluate
from monitor.reports.evaluation.report import Report
from monitor.store.alerts import AlertStore
from monitor.store.base import CapUses
from monitor.store.evaluations import Replica
from monitor.stream.status import PipelineStatus
from monitor.windows.evidence_history import EvidenceHistory
from monitor.windows.history import History
from monitor.windows.reports import Reports

MAX_STREAMS: Final = 100


@dataclass
class Services:
    """The parts of the service that the routes use, and the state that routes share.

    Attributes
    ----------
    reports
        The latest snapshot, and reports as of earlier times.
    history, evidence_history
        What earlier evaluations published.
    false_alarms_per_year
        The budget of all models together.
    status
        The status of the pipeline.
    policy
        The policy of a model by name, or None where the model is not declared and has to be.
    topics
        The topics that events are written to; None: none of those that are read holds JSON.
    metrics
        (whether in OpenMetrics) -> body and content type of GET /metrics.
    recalibrations
        Refits, maps and what serves.
    alerts
        Alerts and their changes.
    evaluate
        Computes the report of the data in a request.
    declared
        Names of the models that the settings declare: they are listed before their first event.
    labels
        What the settings call a model, such as its team: model -> label -> value, of those that have any.
    decoder
        Makes a decoder with the stream's own limits.
    api, access
        Sizes, times and rates of requests; and whether all but requests of this machine are refused.
    stream_seconds
        How long a stream of events is open: less than a request may take.
    max_streams
        Streams of events that are open at one time, shared among callers.
    authenticator
        Identifies callers; None: access control is off.
    simulation
        How the time of simulated events runs, once they flow; None: events are of the clock's time.
    traffic, refused
        Count requests, and those refused.
    roles
        What this replica does. Without ``serve`` only the probes and /metrics answer.
    caps
        Returns the caps on names that matter, over all partitions.
    replicas
        Returns the live replicas, and the models that each of them evaluates.
    is_stopping
        Whether the service ends: streams end then.
    computations, writes, lookups, applications
        Limits of the work at one time: reports, events, queries of the store, and maps that are applied. A long report
        must not delay the recalibration of predictions.
    map_hashes
        SHA-256 of maps that were served before, by id: a map never changes.
    body_seconds
        How long the body of a request may take.
    streams, body_bytes
        Share the streams of events that may be open, and the bytes of large bodies that may be held.
    newest_change
        Reads the newest change of any alert, for all streams.
    evaluations
        Counts the snapshots that brought something new.
    authorization
        Identifies callers and refuses requests.
    """

    reports: Reports
    history: History
    evidence_history: EvidenceHistory
    status: Callable[[], PipelineStatus]
    policy: Callable[[str], ModelPolicy | None]
    writer: Writer
    topics: Topics | None
    metrics: Callable[[bool], tuple[bytes, str]]
    recalibrations: Recalibrations
    alerts: AlertStore
    false_alarms_per_year: float
    declared: Sequence[str]
    labels: Mapping[str, Mapping[str, str]]
    decoder: Callable[[], Decoder]
    clock: Clock
    api: ApiSettings
    access: AccessSettings
    stream_seconds: float
    authenticator: Authenticator | None
    traffic: RequestTraffic
    refused: RefusedRequests
    roles: Collection[str]
    caps: Callable[[], CapUses]
    replicas: Callable[[], Mapping[Replica, Sequence[str]]]
    is_stopping: Callable[[], bool]
    evaluate: Callable[..., Report | ClassReport] = evaluate
    max_streams: int = MAX_STREAMS
    simulation: Callable[[], SimulatedTime | None] = lambda: None

    def __post_init__(self) -> None:
        wait_seconds = self.api.turn_timeout.total_seconds()
        self.body_seconds = self.api.body_timeout.total_seconds()
        self.map_hashes: dict[str, str] = {}
        self.streams = Shares(self.max_streams)
        self.body_bytes = Shares(self.api.all_body_bytes)
        self.evaluations = DifferentSnapshots(self.clock.now_ms())
        self._view = SnapshotView(self.reports.latest, self.recalibrations.serving.revision)
        self.computations = ConcurrencyLimit(self.api.computations, wait_seconds)
        self.writes = ConcurrencyLimit(self.api.writes, wait_seconds)
        self.lookups = ConcurrencyLimit(self.api.writes, wait_seconds)
        self.newest_change = NewestChange(self.alerts, self.lookups)
        self.applications = ConcurrencyLimit(self.api.computations, wait_seconds)
        models_of: Mapping[Of, Callable[[str], str]] = {
            Of.REFIT: lambda refit: self.recalibrations.store.job(refit).model,
            Of.ALERT: lambda alert: self.alerts.alert(alert).finding.model,
        }
        self.authorization = Authorization(
            self.authenticator,
            self.access,
            wait_seconds,
            models_of,
            self.lookups,
            refused=self.refused,
            clock=self.clock,
        )

    def latest(self) -> SnapshotView:
        """The view of the latest snapshot."""
        snapshot = self.reports.latest
        # By identity: one evaluation publishes twice under one number, first its values and then their intervals.
        if snapshot is not self._view.snapshot:
            self._view = SnapshotView(snapshot, self.recalibrations.serving.revision)
        return self._view


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesOf = Annotated[Services, Depends(_services)]
"""The parameter of a route for the services of its app."""
