"""The report of a window, put together from what was found."""

from monitor.events.model import CLASS
from monitor.reports.evaluation.assess import Assessment
from monitor.reports.evaluation.performance import performance
from monitor.reports.evaluation.reliability import reliability_bins
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.scores import ScoreTable
from monitor.windows.canonical import canonical_measures
from monitor.windows.cohort import Cohort


def window_report(
    key: ReportKey, found: Cohort, table: ScoreTable, assessment: Assessment, *, of_classes: bool
) -> Report:
    """What a window holds and its measures, without a diagnosis.

    Parameters
    ----------
    table
        The scores of ``found``.
    of_classes
        Whether the model tells several classes apart, so that scores of no single class are those of the top label.
    """
    n = found.table.labelled
    is_top_label = of_classes and not key.series.segment.startswith(f"{CLASS}=")
    return Report(
        model=key.series.model,
        version=key.series.version,
        segment=key.series.segment,
        window=key.window,
        from_ms=found.from_ms,
        to_ms=found.to_ms,
        n=n,
        positives=int(table.positives.sum()),
        predictions=found.table.predictions,
        prevalence=table.prevalence if n else None,
        mean_prediction=table.mean_prediction if n else None,
        measures=assessment.measures,
        insufficient=found.emptiness or assessment.insufficient,
        canonical=canonical_measures(found.sketch, n) if assessment.measures else {},
        omitted=assessment.omitted,
        performance=performance(table) if assessment.measures and not is_top_label else None,
        bins=reliability_bins(table),
    )
