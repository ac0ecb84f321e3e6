"""The result of an evaluation of all windows: one immutable value, and its form in the store."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from monitor.errors import IncompatibleStore
from monitor.reports.evaluation.report import MeasureResult, Report, ReportKey, ScoreResult
from monitor.store.alerts import Kind
from monitor.store.evidence import StoredEvidence
from monitor.store.settled import Hold
from monitor.windows.maturity import AgeCohort

NO_EVIDENCE: Final = -308.0
"""Stands for the decimal logarithm of evidence that is 0."""
PENDING_LOG10: Final = 1.0
"""Evidence is pending from so far below its line on: a factor of ten."""

FORMAT: Final = 1
"""Version of the stored form: raise it where a report of this version cannot be read by the one before."""


class Raised(NamedTuple):
    """What an alarm that fires was raised for."""

    end_ms: int
    """Settled time at which it was raised, for the last time."""
    log10_evidence: float
    segment: str
    """Of the series that speaks most for it."""
    since_ms: int
    """When the change was."""
    segments: Sequence[str]
    """All segments and classes to blame, the strongest first; few of them wrongly."""
    segments_log10: Sequence[float] = ()
    """Their evidence."""


KINDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "calibration": ("calibration", "prevalence", "calibration_even", "calibration_odd"),
    "change": ("change",),
    "map": ("serving_map",),
}
"""Kind of an alert -> the detectors that raise it. Of several that do, the first says since when."""


class EvidenceLevel(NamedTuple):
    """The evidence of one detector on one version."""

    log10_evidence: float
    """Since it was 0; NO_EVIDENCE while it is. Of an alarm that fires the most there was, as it starts again at 0."""
    log10_line: float
    """At which an alarm is raised."""
    segment: str
    """Of the series that speaks most."""
    since_ms: int
    """The change that it speaks for."""
    raised: Raised | None
    """While an alarm fires."""

    @property
    def is_pending(self) -> bool:
        """Whether it is about to raise an alarm, or has."""
        return self.raised is not None or self.log10_evidence >= self.log10_line - PENDING_LOG10

    @property
    def strength(self) -> tuple[bool, float]:
        """The larger, the more it says: of alarms that fire all are alike, so that the first detector speaks."""
        return self.raised is not None, 0.0 if self.raised is not None else self.log10_evidence - self.log10_line


class Explanation(NamedTuple):
    """What evidence amounts to, in short."""

    label: str
    """Such as ``prior_shift``: see :mod:`monitor.alarms.attribution`."""
    sentence: str
    is_firing: bool
    """Or pending."""


class Shock(NamedTuple):
    """How much the logits of all events of a period of one horizon are off together, from period to period."""

    deviation: float
    """Standard deviation in logits, as the two that follow."""
    lower: float
    upper: float
    """Ends of its 95% interval."""
    periods: int
    """Periods with outcomes."""
    tolerance: float
    """Of the model, in logits."""

    @property
    def covered(self) -> bool:
        """Whether the tolerance may cover it: False where twice the deviation is surely larger."""
        return 2.0 * self.lower <= self.tolerance

    @property
    def sentence(self) -> str:
        """What it means for alarms, and what to do."""
        size = f"{self.deviation:.2f} logits ({self.lower:.2f} to {self.upper:.2f}, {self.periods} periods)"
        if self.covered:
            return f"The common shock of a horizon is {size}: the tolerance of {self.tolerance:g} may cover it."
        enough = math.ceil(200.0 * self.deviation) / 100.0
        return (
            f"The common shock of a horizon is {size}, which the tolerance of {self.tolerance:g} does not cover: there "
            "may be more false alarms than the budget allows. A drift, or an offset that moved, counts as a shock, "
            f"too: correct that first. Otherwise set the model's tolerance to {enough:g}, or its dependence to "
            "within_horizon."
        )


class VersionEvidence(NamedTuple):
    """The evidence on one version."""

    to_ms: int
    """Predictions before this time are in it."""
    levels: Mapping[str, EvidenceLevel]
    """By detector."""
    explanations: Mapping[str, Explanation] = {}
    """By kind of alert, of those that are pending or firing."""
    shock: Shock | None = None
    """None while there are too few periods, or outcomes of one kind alone."""
    resting: str = ""
    """Why detectors that judge predictions have no evidence; empty where they have."""
    revision: int = 0
    """Of what serves, as the evidence knows it: 0 if no map ever did."""


class ModelEvidence(NamedTuple):
    """The evidence on a model."""

    versions: Mapping[str, VersionEvidence] = MappingProxyType({})
    states: Sequence[StoredEvidence] = ()
    """What each version's detectors continue from; empty where another replica evaluates the model."""
    ended_by_settings: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    """Version -> detector -> event time up to which it had read when other settings ended its alarm."""


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """The evaluation of one model.

    Attributes
    ----------
    evaluated_ms
        Wall-clock time of the evaluation, milliseconds since the epoch.
    watermark_ms
        Newest event time.
    edge_ms
        Settled edge: windows end there, or -1 while nothing is settled.
    hold
        The partition that holds the settled edge back, if one does.
    current_version
        The version with the newest predictions, which is the default of requests.
    reports
        In the order of their keys.
    failures
        Reports that could not be made: key -> error in one line.
    coverage
        (model, version) -> label coverage by the age of the predictions.
    evidence
        Sequential evidence on its versions.
    epoch
        Of the lease under which this replica evaluated it; -1 if another replica did.
    """

    evaluated_ms: int
    watermark_ms: int
    edge_ms: int
    hold: Hold | None
    current_version: str
    reports: Mapping[ReportKey, Report]
    failures: Mapping[ReportKey, str]
    coverage: Mapping[tuple[str, str], Sequence[AgeCohort]]
    evidence: ModelEvidence = field(default_factory=ModelEvidence)
    epoch: int = -1

    def same_reports(self, other: "ModelSnapshot") -> bool:
        """Whether the reports are the very ones of another evaluation; those that did not change are."""
        return self.reports.keys() == other.reports.keys() and all(
            report is other.reports[key] for key, report in self.reports.items()
        )

    def same_summary(self, other: "ModelSnapshot") -> bool:
        """Whether all but the reports and the time is equal."""
        return replace(self, evaluated_ms=other.evaluated_ms, reports=other.reports) == other


@dataclass(frozen=True)
class Snapshot:
    """The result of one evaluation. It never changes, so readers may keep it.

    Attributes
    ----------
    number
        Counts the evaluations of this replica; 0 is the empty snapshot before the first.
    evaluated_ms
        Wall-clock time of the evaluation, milliseconds since the epoch.
    duration_seconds
        Duration of the evaluation.
    models
        Model -> its evaluation, by this replica or by another; ascending.
    """

    number: int = 0
    evaluated_ms: int = 0
    duration_seconds: float = 0.0
    models: Mapping[str, ModelSnapshot] = field(default_factory=dict)

    @cached_property
    def reports(self) -> Mapping[ReportKey, Report]:
        """The reports of all models, in the order of their keys."""
        return {key: report for model in self.models.values() for key, report in model.reports.items()}

    @cached_property
    def failures(self) -> Mapping[ReportKey, str]:
        """Reports that could not be made: key -> error in one line."""
        return {key: failure for model in self.models.values() for key, failure in model.failures.items()}

    @cached_property
    def coverage(self) -> Mapping[tuple[str, str], Sequence[AgeCohort]]:
        """(model, version) -> label coverage by the age of the predictions."""
        return {key: cohorts for model in self.models.values() for key, cohorts in model.coverage.items()}

    def current_version(self, model: str) -> str | None:
        """The version with the newest predictions; None for a model that has no evaluation."""
        return self.models[model].current_version if model in self.models else None


class _StoredReport(msgspec.Struct, array_like=True):
    report: Report
    scores: list[str]
    """Measures whose result is a ScoreResult, which has the same attributes."""


class _StoredSummary(msgspec.Struct):
    format: int
    watermark_ms: int
    edge_ms: int
    hold: Hold | None
    current_version: str
    failures: list[tuple[ReportKey, str]]
    coverage: list[tuple[tuple[str, str], tuple[AgeCohort, ...]]]
    evidence: dict[str, VersionEvidence] = {}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a report cannot hold a {type(value).__name__}")


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_plain)
_reports_decoder: Final = msgspec.msgpack.Decoder(list[_StoredReport])
_summary_decoder: Final = msgspec.msgpack.Decoder(_StoredSummary)


def encode_reports(reports: Collection[Report]) -> bytes:
    """The reports of a model as MessagePack."""
    return _encoder.encode(
        [
            _StoredReport(report, [name for name, result in report.measures.items() if isinstance(result, ScoreResult)])
            for report in reports
        ]
    )


def encode_summary(part: ModelSnapshot) -> bytes:
    """All but the reports as MessagePack."""
    return _encoder.encode(
        _StoredSummary(
            FORMAT,
            part.watermark_ms,
            part.edge_ms,
            part.hold,
            part.current_version,
            list(part.failures.items()),
            [(version, tuple(cohorts)) for version, cohorts in part.coverage.items()],
            dict(part.evidence.versions),
        )
    )


def decode_reports(content: bytes) -> dict[ReportKey, Report]:
    """Read what :func:`encode_reports` wrote. Raises IncompatibleStore."""
    try:
        stored = _reports_decoder.decode(content)
    except msgspec.MsgspecError as error:
        raise IncompatibleStore(f"reports in the store cannot be read: {error}") from error
    return {one.report.key: _with_scores(one.report, one.scores) for one in stored}


def decode_summary(content: bytes, evaluated_ms: int, reports: Mapping[ReportKey, Report]) -> ModelSnapshot:
    """Read what :func:`encode_summary` wrote. Raises IncompatibleStore."""
    try:
        stored = _summary_decoder.decode(content)
    except msgspec.MsgspecError as error:
        raise IncompatibleStore(f"an evaluation in the store cannot be read: {error}") from error
    if stored.format != FORMAT:
        raise IncompatibleStore(
            f"an evaluation in the store is of format {stored.format}, this version reads {FORMAT}: run one version "
            "of the service on all replicas"
        )
    return ModelSnapshot(
        evaluated_ms,
        stored.watermark_ms,
        stored.edge_ms,
        stored.hold,
        stored.current_version,
        reports,
        dict(stored.failures),
        dict(stored.coverage),
        ModelEvidence(stored.evidence),
    )


def _with_scores(report: Report, scores: Sequence[str]) -> Report:
    if not scores:
        return report
    results: dict[str, MeasureResult] = {
        name: ScoreResult(*(getattr(result, field) for field in MeasureResult.__dataclass_fields__))
        if name in scores
        else result
        for name, result in report.measures.items()
    }
    return replace(report, measures=results)
