"""Real reports, snapshots and statuses in memory, for whatever reads them."""

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from monitor.events.model import ALL
from monitor.measures import WINDOW_MEASURES
from monitor.measures.base import Measure
from monitor.metrics.series import Level
from monitor.metrics.windows import WindowFamilies
from monitor.reports.evaluation.report import (
    Diagnosis,
    MeasureResult,
    ReliabilityBin,
    Report,
    ReportKey,
    Severity,
    Verdict,
)
from monitor.store.model_evidence import EvidenceLevel, ModelEvidence, Raised, Shock, VersionEvidence
from monitor.store.settled import Hold, HoldReason
from monitor.stream.status import PipelineStatus
from monitor.windows.maturity import COHORTS, AgeCohort
from monitor.windows.snapshot import ModelSnapshot, Snapshot

HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000
WINDOWS = ("1h", "24h", "7d")


NO_EVIDENCE = {
    "state": "waiting",
    "words": "no evidence yet",
    "sentence": "No labelled prediction is settled yet.",
    "label": None,
    "detector": None,
    "log10_evidence": None,
    "log10_line": None,
    "since": None,
    "settled_to": None,
}
"""Of a version, over REST."""


def measure(name: str, unit: str, rank: int) -> Measure:
    return Measure(
        name=name,
        title=name.upper(),
        help=f"How far off {name} says the model is.",
        unit="percent" if unit == "percent" else "ratio",
        value=lambda _: 0.0,
        error_bound=lambda _table, _value: 0.0,
        rank=rank,
    )


MEASURES = (measure("tce", "percent", 0), measure("kce", "ratio", 1), measure("smce", "ratio", 2))


def result(unit: str, value: float) -> MeasureResult:
    return MeasureResult(
        value=value,
        unit="percent" if unit == "percent" else "ratio",
        lower=value / 2,
        upper=value * 2,
        null_mean=value / 3,
        null_q95=value / 1.5,
        p_value=0.005,
        error_bound=value / 1000,
    )


def report(
    model: str = "churn",
    version: str = "7",
    segment: str = ALL,
    window: str = "1h",
    *,
    n: int = 900,
    seed: int = 0,
    insufficient: str | None = None,
    measures: Iterable[Measure] = MEASURES,
    bins: int = 0,
) -> Report:
    """A report whose numbers follow from the seed."""
    draw = random.Random(seed)
    return Report(
        model=model,
        version=version,
        segment=segment,
        window=window,
        from_ms=NOW_MS - HOUR_MS,
        to_ms=NOW_MS,
        n=n,
        positives=n // 3,
        predictions=n + 100,
        prevalence=(n // 3) / n if n else None,
        mean_prediction=draw.random() if n else None,
        measures={}
        if insufficient
        else {
            each.name: result(each.unit, draw.random() * (100 if each.unit == "percent" else 1)) for each in measures
        },
        insufficient=insufficient,
        diagnosis=Diagnosis(Verdict.INSUFFICIENT, f"Too little data to tell: {insufficient}.")
        if insufficient
        else diagnosis(draw.random()),
        bins=tuple(ReliabilityBin(f"0.{at}", 90, 30 + at, 9.0 * at + draw.random()) for at in range(bins)),
    )


def diagnosis(offset: float = 0.3) -> Diagnosis:
    """A prior shift by this much."""
    return Diagnosis(
        verdict=Verdict.PRIOR_SHIFT,
        sentence=f"Predictions are too low. Add {offset:+.2f} to every logit.",
        p_value=offset / 1e6,
        offset=offset,
        offset_error=offset / 4,
        slope=1.0 + offset / 100,
        slope_error=offset / 10,
        slope_lower=1.0 - offset / 5,
        slope_upper=1.0 + offset / 5,
        error=offset / 8,
        error_after_offset=offset / 80,
        logit_error_after_offset=offset / 50,
        prior_shift_p_value=0.4,
        severity=Severity.of(offset),
        tolerance=0.05,
    )


def cohorts(answered: float = 1.0) -> tuple[AgeCohort, ...]:
    """A version's coverage by age: more and more are answered, up to this share."""
    return tuple(AgeCohort(name, 400, int(80 * (at + 1) * answered)) for at, name in enumerate(COHORTS))


def evidence_level(log10_evidence: float = 2.5, *, raised: bool = False, segment: str = ALL) -> EvidenceLevel:
    """Evidence of one detector whose line is 10^4."""
    alarm = (
        Raised(NOW_MS - 2 * HOUR_MS, NOW_MS - 2 * HOUR_MS, 4.5, segment, NOW_MS - 5 * HOUR_MS, [segment])
        if raised
        else None
    )
    return EvidenceLevel(log10_evidence, 4.0, segment, NOW_MS - 5 * HOUR_MS, alarm)


def evidence(shock: Shock | None = None, /, **levels: EvidenceLevel) -> VersionEvidence:
    """The evidence on one version, up to an hour ago."""
    return VersionEvidence(NOW_MS - HOUR_MS, levels, shock=shock)


def with_evidence(of: Snapshot, versions: Mapping[tuple[str, str], VersionEvidence]) -> Snapshot:
    """The snapshot with the evidence on versions of its models."""
    models = {
        model: replace(
            part, evidence=ModelEvidence({version: one for (name, version), one in versions.items() if name == model})
        )
        for model, part in of.models.items()
    }
    return replace(of, models=models)


def snapshot(
    reports: Iterable[Report],
    number: int = 1,
    coverage: Mapping[tuple[str, str], Sequence[AgeCohort]] | None = None,
) -> Snapshot:
    evaluated_ms, held = NOW_MS + number * 1000, Hold(3, HoldReason.OUTCOMES_SILENT, NOW_MS - 48 * HOUR_MS)
    models = {}
    for model, of_model in groupby(sorted(reports, key=lambda each: each.key), key=lambda each: each.model):
        by_key = {each.key: each for each in of_model}
        models[model] = ModelSnapshot(
            evaluated_ms,
            watermark_ms=NOW_MS + 500,
            edge_ms=NOW_MS - 24 * HOUR_MS,
            hold=held if model == "churn" else None,
            current_version=max(key.series.version for key in by_key),
            reports=by_key,
            failures={},
            coverage={key: cohorts for key, cohorts in (coverage or {}).items() if key[0] == model},
        )
    return Snapshot(number, evaluated_ms, 0.25, models)


def failing(of: Snapshot, key: ReportKey, reason: str) -> Snapshot:
    """The snapshot with a report that could not be made."""
    before = of.models.get(key.series.model) or ModelSnapshot(of.evaluated_ms, NOW_MS, -1, None, "1", {}, {}, {})
    kept = {other: each for other, each in before.reports.items() if other != key}
    model = replace(before, reports=kept, failures={key: reason})
    return replace(of, models=dict(sorted({**of.models, key.series.model: model}.items())))


def many_reports(count: int, measures: Iterable[Measure] = MEASURES, bins: int = 0) -> list[Report]:
    """Reports of ``count`` series x windows: models with two versions, segments and three windows each."""
    measures = tuple(measures)
    found: list[Report] = []
    while len(found) < count:
        at = len(found)
        found.append(
            report(
                model=f"model-{at // 30:03d}",
                version=str(at // 15 % 2),
                segment=ALL if at // 3 % 5 == 0 else f"region=r{at // 3 % 5}",
                window=WINDOWS[at % 3],
                seed=at,
                measures=measures,
                bins=bins,
            )
        )
    return found


@dataclass
class Evaluations:
    """Stands where the evaluator stands: holds a snapshot, and counts."""

    latest: Snapshot = field(default_factory=Snapshot)
    evaluations_total: int = 0
    failures_total: int = 0
    series_held: int = 0
    series_dropped: int = 0
    staleness: int = 0
    measures: Mapping[str, Measure] = field(default_factory=lambda: WINDOW_MEASURES)

    def show(self, snapshot: Snapshot) -> None:
        self.latest = snapshot
        self.evaluations_total = snapshot.number


def window_families(
    evaluations: Any,
    measures: Iterable[Measure],
    *,
    max_series: int = 1_000_000,
    declared: Collection[str] = (),
    level: Level = Level.ALL,
) -> WindowFamilies:
    """The series of all windows."""
    return WindowFamilies(
        evaluations,
        measures,
        exported=lambda: evaluations.latest,
        max_series=max_series,
        declared=declared,
        level=level,
    )


@dataclass
class Pipeline:
    """Stands where the pipeline stands."""

    status: PipelineStatus = field(default_factory=PipelineStatus)
