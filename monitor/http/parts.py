"""What the API needs of the rest of the service. The one place where concrete parts meet hands it in."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from numpy.typing import ArrayLike

from monitor.access.base import Authenticator
from monitor.clock import Clock, SystemClock
from monitor.events.codec import Decoder
from monitor.events.model import ModelPolicy
from monitor.http.refusals import Refusals
from monitor.http.traffic import Traffic
from monitor.measures.base import Measure
from monitor.recalibration.service import Recalibrations
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.report import Report
from monitor.scores import ScoreTable
from monitor.sources.base import Topics, Writer
from monitor.stream.status import PipelineStatus
from monitor.windows.snapshot import Snapshot
from monitor.windows.windows import Window


class Evaluator(Protocol):
    """Holds the latest snapshot and answers for earlier times."""

    @property
    def latest(self) -> Snapshot:
        """What the last evaluation found."""
        ...

    @property
    def windows(self) -> Sequence[Window]:
        """The windows of every series; the first is meant when nobody names one."""
        ...

    @property
    def measures(self) -> Mapping[str, Measure]:
        """The measures of every window, by name."""
        ...

    def scores(self, report: Report) -> ScoreTable:
        """The labelled predictions that one of its reports is of."""
        ...

    def report(self, model: str, version: str | None, segment: str, window: str | None, as_of_ms: int | None) -> Report:
        """One report, recomputed if need be.

        Raises
        ------
        UnknownSeries
            Nothing is called that.
        NoLongerKept
            The events of that time are gone.
        EvaluationFailed
            It could not be made.
        """
        ...


class Pipeline(Protocol):
    """What reads and joins the events."""

    @property
    def status(self) -> PipelineStatus:
        """Where it stands."""
        ...


class Evaluate(Protocol):
    """The report of data that somebody hands over."""

    def __call__(
        self,
        p: ArrayLike,
        y: ArrayLike,
        *,
        weight: ArrayLike | None,
        measures: Mapping[str, Measure],
        model: str,
        version: str,
        segment: str,
    ) -> Report | ClassReport:
        """Measure predictions ``p``, shape (n,) or (n, K), and outcomes ``y`` (nan where unknown), shape (n,).

        Raises
        ------
        InputError
            A value is out of its range, or lengths differ.
        """
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a request may ask for.

    Attributes
    ----------
    report_bytes, event_bytes
        Largest body of POST /v1/reports (and of predictions to be recalibrated) and of POST /v1/events.
    body_seconds
        How long a request may take to send its body.
    computations
        Reports that are computed at one time; those of the latest snapshot are not computed and do not count.
    writes
        Requests of POST /v1/events that are written at one time.
    wait_seconds
        How long a request waits for its turn to be computed or written.
    request_seconds
        How long a request may take, its body included.
    failures_per_minute
        Wrong keys and tokens of one address, beyond which its next ones are not looked at.
    requests_per_second
        Requests of one key or token's owner.
    """

    report_bytes: int = 32 * 1024 * 1024
    event_bytes: int = 4 * 1024 * 1024
    body_seconds: float = 30.0
    computations: int = 2
    writes: int = 8
    wait_seconds: float = 10.0
    request_seconds: float = 120.0
    failures_per_minute: int = 30
    requests_per_second: int = 500


@dataclass(frozen=True, slots=True)
class Parts:
    """The other rooms, as the routes use them.

    Attributes
    ----------
    policy
        The policy of a model by name, or None where the model is not declared and has to be.
    metrics
        (Accept header) -> body and content type of GET /metrics.
    recalibrations
        Refits, maps and what serves.
    declared
        Names of the models that the settings declare: they are listed before their first event.
    decoder
        Makes a decoder with the stream's own limits.
    authenticator
        Says who asks; None: access control is off, and everybody may do everything.
    traffic
        Where requests are counted.
    refusals
        Where those refused are counted.
    local_only
        Whether only requests are answered whose Host is this machine's own.
    """

    evaluator: Evaluator
    pipeline: Pipeline
    evaluate: Evaluate
    policy: Callable[[str], ModelPolicy | None]
    writer: Writer
    topics: Topics
    metrics: Callable[[str | None], tuple[bytes, str]]
    recalibrations: Recalibrations
    declared: Sequence[str] = ()
    decoder: Callable[[], Decoder] = Decoder
    clock: Clock = field(default_factory=SystemClock)
    limits: Limits = field(default_factory=Limits)
    authenticator: Authenticator | None = None
    traffic: Traffic = field(default_factory=Traffic)
    refusals: Refusals = field(default_factory=Refusals)
    local_only: bool = False
