"""The result of an evaluation of all windows: one immutable value, and its form in the store."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np

from monitor.errors import IncompatibleStore
from monitor.reports.evaluation.report import MeasureResult, Report, ReportKey, ScoreResult
from monitor.store.model_evidence import ModelEvidence, VersionEvidence
from monitor.store.settled import Hold
from monitor.windows.evidence_state import EvidenceState, evidence_state
from monitor.windows.maturity import AgeCohort

FORMAT: Final = 1
"""Version of the stored form: raise it where a report of this version cannot be read by the one before."""


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

    def with_evidence(self, evidence: Mapping[str, ModelEvidence], duration_seconds: float) -> "Snapshot":
        """The snapshot with the evidence on its models, and how long all of it took."""
        models = {
            model: replace(part, evidence=evidence.get(model, part.evidence)) for model, part in self.models.items()
        }
        return replace(self, models=models, duration_seconds=duration_seconds)

    def state(self, model: str, version: str, revision: int = 0) -> EvidenceState:
        """The state of a version by its evidence; ``revision`` is that of what serves now."""
        of_model = self.models.get(model)
        return evidence_state(None if of_model is None else of_model.evidence.versions.get(version), revision)

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
