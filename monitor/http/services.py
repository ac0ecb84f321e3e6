"""What the routes use of the rest of the service. ``monitor.app`` puts it together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from fastapi import Depends, Request

from monitor.access.model import Authenticator
from monitor.clock import Clock, SystemClock
from monitor.events.codec import Decoder
from monitor.events.model import ModelPolicy
from monitor.http.authorization import Authorization
from monitor.http.limits import ConcurrencyLimit, Limits
from monitor.http.refused_requests import RefusedRequests
from monitor.http.request_log import Traffic
from monitor.http.snapshots import LatestView
from monitor.measures.base import Measure
from monitor.recalibration.service import Recalibrations
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.evaluate import evaluate
from monitor.reports.evaluation.report import Report
from monitor.scores import ScoreTable
from monitor.sources.base import Topics, Writer
from monitor.stream.status import PipelineStatus
from monitor.windows.snapshot import Snapshot
from monitor.windows.windows import Window


class Evaluator(Protocol):
    """Has the latest snapshot and computes reports of earlier times."""

    @property
    def latest(self) -> Snapshot:
        """The result of the last evaluation."""
        ...

    @property
    def windows(self) -> Sequence[Window]:
        """The windows of every series; the first is the default."""
        ...

    @property
    def measures(self) -> Mapping[str, Measure]:
        """The measures of every window, by name."""
        ...

    def scores(self, report: Report) -> ScoreTable:
        """The labelled predictions of one of its reports."""
        ...

    def report(self, model: str, version: str | None, segment: str, window: str | None, as_of_ms: int | None) -> Report:
        """One report, recomputed if necessary.

        Raises
        ------
        UnknownSeries
            There is no such series.
        NoLongerKept
            The events of that time are gone.
        EvaluationFailed
            It could not be made.
        """
        ...


class Pipeline(Protocol):
    """Reads and joins the events."""

    @property
    def status(self) -> PipelineStatus:
        """Its state."""
        ...


@dataclass
class Services:
    """The other rooms, as the routes use them, and the state that routes share.

    Attributes
    ----------
    policy
        The policy of a model by name, or None where the model is not declared and has to be.
    metrics
        (Accept header) -> body and content type of GET /metrics.
    recalibrations
        Refits, maps and what serves.
    evaluate
        Computes the report of the data in a request.
    declared
        Names of the models that the settings declare: they are listed before their first event.
    decoder
        Makes a decoder with the stream's own limits.
    authenticator
        Identifies callers; None: access control is off.
    traffic, refused
        Count requests, and those refused.
    local_only
        Whether only requests are answered whose Host is this machine.
    latest
        The latest snapshot.
    computations, writes, lookups, applications
        Limits of the work at one time: reports, events, queries of the store, and maps that are applied. A long report
        must not delay the recalibration of predictions.
    map_hashes
        SHA-256 of maps that were served before, by id: a map never changes.
    authorization
        Identifies callers and refuses requests.
    """

    evaluator: Evaluator
    pipeline: Pipeline
    policy: Callable[[str], ModelPolicy | None]
    writer: Writer
    topics: Topics
    metrics: Callable[[str | None], tuple[bytes, str]]
    recalibrations: Recalibrations
    evaluate: Callable[..., Report | ClassReport] = evaluate
    declared: Sequence[str] = ()
    decoder: Callable[[], Decoder] = Decoder
    clock: Clock = field(default_factory=SystemClock)
    limits: Limits = field(default_factory=Limits)
    authenticator: Authenticator | None = None
    traffic: Traffic = field(default_factory=Traffic)
    refused: RefusedRequests = field(default_factory=RefusedRequests)
    local_only: bool = False

    def __post_init__(self) -> None:
        limits = self.limits
        self.map_hashes: dict[str, str] = {}
        self.latest = LatestView(lambda: self.evaluator.latest)
        self.computations = ConcurrencyLimit(limits.computations, limits.wait_seconds)
        self.writes = ConcurrencyLimit(limits.writes, limits.wait_seconds)
        self.lookups = ConcurrencyLimit(limits.writes, limits.wait_seconds)
        self.applications = ConcurrencyLimit(limits.computations, limits.wait_seconds)
        self.authorization = Authorization(self.authenticator, limits, self.recalibrations, self.lookups, self.refused)


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesOf = Annotated[Services, Depends(_services)]
"""The parameter of a route for the services of its app."""
