"""The result of an evaluation of all windows: one immutable value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from monitor.reports.evaluation.report import Report, ReportKey
from monitor.store.settled import Hold
from monitor.windows.maturity import AgeCohort


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The result of one evaluation. It never changes, so readers may keep it.

    Attributes
    ----------
    number
        Counts the evaluations; 0 is the empty snapshot before the first.
    evaluated_ms
        Wall-clock time of the evaluation, milliseconds since the epoch.
    duration_seconds
        Duration of the evaluation.
    watermarks_ms
        Model -> newest event time.
    edges_ms
        Model -> settled edge: windows end there, or -1 while nothing is settled.
    holds
        Model -> the partition that holds its settled edge back, where one does.
    current_versions
        Model -> the version with the newest predictions, which is the default of requests.
    reports
        In the order of their keys.
    failures
        Reports that could not be made: key -> error in one line.
    coverage
        (model, version) -> label coverage by the age of the predictions.
    epochs
        Model -> epoch of the lease under which it was evaluated.
    evaluated_at_ms
        Model -> time of its evaluation, where that is another than ``evaluated_ms``: of models that other replicas
        evaluate.
    """

    number: int = 0
    evaluated_ms: int = 0
    duration_seconds: float = 0.0
    watermarks_ms: Mapping[str, int] = field(default_factory=dict)
    edges_ms: Mapping[str, int] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)
    current_versions: Mapping[str, str] = field(default_factory=dict)
    reports: Mapping[ReportKey, Report] = field(default_factory=dict)
    failures: Mapping[ReportKey, str] = field(default_factory=dict)
    coverage: Mapping[tuple[str, str], Sequence[AgeCohort]] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    evaluated_at_ms: Mapping[str, int] = field(default_factory=dict)

    def model_evaluated_ms(self, model: str) -> int | None:
        """Time of the evaluation of a model, milliseconds since the epoch; None for a model that has none."""
        if model not in self.watermarks_ms:
            return None
        return self.evaluated_at_ms.get(model, self.evaluated_ms)
