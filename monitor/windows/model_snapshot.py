"""The part of a snapshot that is of one model, and its form in the store."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
import numpy as np

from monitor.errors import IncompatibleStore
from monitor.reports.evaluation.report import MeasureResult, Report, ReportKey, ScoreResult
from monitor.store.settled import Hold
from monitor.windows.maturity import AgeCohort
from monitor.windows.snapshot import Snapshot

FORMAT: Final = 1
"""Version of the stored form: raise it where a report of this version cannot be read by the one before."""


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """The evaluation of one model. The attributes are those of :class:`monitor.windows.snapshot.Snapshot`."""

    evaluated_ms: int
    watermark_ms: int
    edge_ms: int
    hold: Hold | None
    current_version: str
    reports: Mapping[ReportKey, Report]
    failures: Mapping[ReportKey, str]
    coverage: Mapping[tuple[str, str], Sequence[AgeCohort]]

    def same_reports(self, other: "ModelSnapshot") -> bool:
        """Whether the reports are the very ones of another evaluation; those that did not change are."""
        return self.reports.keys() == other.reports.keys() and all(
            report is other.reports[key] for key, report in self.reports.items()
        )

    def same_summary(self, other: "ModelSnapshot") -> bool:
        """Whether all but the reports and the time is equal."""
        empty: dict[ReportKey, Report] = {}
        return replace(self, evaluated_ms=0, reports=empty) == replace(other, evaluated_ms=0, reports=empty)


def split(snapshot: Snapshot) -> dict[str, ModelSnapshot]:
    """The parts of a snapshot by model."""
    reports: dict[str, dict[ReportKey, Report]] = {model: {} for model in snapshot.watermarks_ms}
    failures: dict[str, dict[ReportKey, str]] = {model: {} for model in snapshot.watermarks_ms}
    coverage: dict[str, dict[tuple[str, str], Sequence[AgeCohort]]] = {model: {} for model in snapshot.watermarks_ms}
    for key, report in snapshot.reports.items():
        reports[key.series.model][key] = report
    for key, failure in snapshot.failures.items():
        failures[key.series.model][key] = failure
    for version, cohorts in snapshot.coverage.items():
        coverage[version[0]][version] = cohorts
    return {
        model: ModelSnapshot(
            snapshot.evaluated_at_ms.get(model, snapshot.evaluated_ms),
            watermark_ms,
            snapshot.edges_ms[model],
            snapshot.holds.get(model),
            snapshot.current_versions[model],
            reports[model],
            failures[model],
            coverage[model],
        )
        for model, watermark_ms in snapshot.watermarks_ms.items()
    }


def join(own: Snapshot, parts: Mapping[str, ModelSnapshot], epochs: Mapping[str, int]) -> Snapshot:
    """The snapshot of these models. Number, time and duration are those of this replica's own evaluation."""
    models = sorted(parts)
    return Snapshot(
        number=own.number,
        evaluated_ms=own.evaluated_ms,
        duration_seconds=own.duration_seconds,
        watermarks_ms={model: parts[model].watermark_ms for model in models},
        edges_ms={model: parts[model].edge_ms for model in models},
        holds={model: hold for model in models if (hold := parts[model].hold) is not None},
        current_versions={model: parts[model].current_version for model in models},
        reports={key: report for model in models for key, report in parts[model].reports.items()},
        failures={key: failure for model in models for key, failure in parts[model].failures.items()},
        coverage={version: cohorts for model in models for version, cohorts in parts[model].coverage.items()},
        epochs=epochs,
        evaluated_at_ms={model: parts[model].evaluated_ms for model in models},
    )


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
