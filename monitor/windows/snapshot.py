"""What the last evaluation of all windows found: one immutable value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from monitor.reports.evaluation.report import Report, ReportKey
from monitor.windows.maturity import AgeCohort


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one evaluation found. Never changed once it is there: readers hold it as long as they like.

    Attributes
    ----------
    number
        Counts the evaluations; 0 is the empty snapshot before the first.
    evaluated_ms
        Wall-clock time of the evaluation, milliseconds since the epoch.
    duration_seconds
        What it took.
    watermarks_ms
        Model -> newest event time seen.
    current_versions
        Model -> the version with the newest predictions, of which a report is when nobody names one.
    reports
        In the order of their keys.
    failures
        Reports that could not be made this time: key -> what went wrong, in a line.
    coverage
        (model, version) -> how far its outcomes have come in, by the age of its predictions.
    """

    number: int = 0
    evaluated_ms: int = 0
    duration_seconds: float = 0.0
    watermarks_ms: Mapping[str, int] = field(default_factory=dict)
    current_versions: Mapping[str, str] = field(default_factory=dict)
    reports: Mapping[ReportKey, Report] = field(default_factory=dict)
    failures: Mapping[ReportKey, str] = field(default_factory=dict)
    coverage: Mapping[tuple[str, str], Sequence[AgeCohort]] = field(default_factory=dict)
