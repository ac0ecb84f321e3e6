"""Every Prometheus series of the service, with kind, labels, unit and meaning. docs/series.md is made of this file.

A measure's series follow from its declaration: nothing here names one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from monitor.measures.base import Measure

REPORT_LABELS: Final = ("model", "version", "segment", "window")
"""The labels of whatever is said of one report."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series as the documentation and the exposition know it.

    Attributes
    ----------
    name
        As a query names it.
    kind
        ``gauge``, ``counter`` (ends in ``_total``) or ``info`` (ends in ``_info``; always 1).
    labels
        Names of its labels.
    unit
        ``ratio``, ``seconds``, ``bytes``, or empty for a count or a number without unit.
    meaning
        One sentence or two. It is the HELP text too.
    """

    name: str
    kind: Literal["gauge", "counter", "info"]
    labels: tuple[str, ...]
    unit: str
    meaning: str


# What the windows hold.
PREDICTIONS: Final = Series(
    "calibration_window_predictions",
    "gauge",
    REPORT_LABELS,
    "",
    "Predictions of the window, with or without an outcome.",
)
LABELLED: Final = Series(
    "calibration_window_labelled",
    "gauge",
    REPORT_LABELS,
    "",
    "Predictions of the window whose outcome is known or implied: what the measures are of.",
)
POSITIVES: Final = Series(
    "calibration_window_positives",
    "gauge",
    REPORT_LABELS,
    "",
    "Positive outcomes in the window.",
)
PREVALENCE: Final = Series(
    "calibration_prevalence_ratio",
    "gauge",
    REPORT_LABELS,
    "ratio",
    "Share of positives among the labelled predictions of the window. Absent when there are none.",
)
MEAN_PREDICTION: Final = Series(
    "calibration_mean_prediction_ratio",
    "gauge",
    REPORT_LABELS,
    "ratio",
    "Mean of the labelled predictions of the window. Absent when there are none.",
)
LABEL_COVERAGE: Final = Series(
    "calibration_label_coverage_ratio",
    "gauge",
    REPORT_LABELS,
    "ratio",
    "Share of the window's predictions whose outcome is known or implied. Absent without predictions.",
)
INSUFFICIENT: Final = Series(
    "calibration_insufficient_data",
    "gauge",
    REPORT_LABELS,
    "",
    "1 if the window holds too little data for any measure, which are absent then; 0 otherwise. "
    "The report says why in words.",
)
WINDOW_END: Final = Series(
    "calibration_window_end_timestamp_seconds",
    "gauge",
    REPORT_LABELS,
    "seconds",
    "Prediction time at which the window ends, seconds since the epoch.",
)
WATERMARK: Final = Series(
    "calibration_watermark_timestamp_seconds",
    "gauge",
    ("model",),
    "seconds",
    "Newest event time seen of the model, seconds since the epoch.",
)

# How the evaluation goes.
EVALUATIONS: Final = Series(
    "calibration_evaluations_total",
    "counter",
    (),
    "",
    "Evaluations of all windows since the process started.",
)
EVALUATION_FAILURES: Final = Series(
    "calibration_evaluation_failures_total",
    "counter",
    (),
    "",
    "Reports that could not be made, since the process started; an evaluation that failed whole counts as one.",
)
FAILED_REPORTS: Final = Series(
    "calibration_failed_reports",
    "gauge",
    (),
    "",
    "Reports that the last evaluation could not make.",
)
UNEVALUATED: Final = Series(
    "calibration_unevaluated_series",
    "gauge",
    (),
    "",
    "Combinations of model, version and segment that the last evaluation left out because there were too many.",
)
STALENESS: Final = Series(
    "calibration_stale_evaluations",
    "gauge",
    (),
    "",
    "For how many evaluations the longest outdated interval or level has been waiting to be renewed.",
)
EVALUATION_DURATION: Final = Series(
    "calibration_evaluation_duration_seconds",
    "gauge",
    (),
    "seconds",
    "What the values of the last evaluation took, without renewing intervals. Absent before the first.",
)
EVALUATION_TIMESTAMP: Final = Series(
    "calibration_evaluation_timestamp_seconds",
    "gauge",
    (),
    "seconds",
    "When the last evaluation was, seconds since the epoch. Absent before the first.",
)

# How the exposition goes.
EXPORTED: Final = Series(
    "calibration_series_exported",
    "gauge",
    (),
    "",
    "Time series about windows in this answer; see the setting that caps them.",
)
DROPPED: Final = Series(
    "calibration_series_dropped_total",
    "counter",
    (),
    "",
    "Time series about windows that the cap left out, counted once an evaluation. Segments are left out first.",
)

# How the pipeline goes.
READY: Final = Series(
    "calibration_ready",
    "gauge",
    (),
    "",
    "1 while partitions are assigned, restored and read; 0 otherwise.",
)
PHASE: Final = Series(
    "calibration_pipeline_phase",
    "gauge",
    ("phase",),
    "",
    "1 for the phase in which the pipeline is, 0 for the others.",
)
PARTITIONS: Final = Series(
    "calibration_assigned_partitions",
    "gauge",
    (),
    "",
    "Partitions whose state is restored and which this process reads.",
)
RECORDS: Final = Series(
    "calibration_records_read_total",
    "counter",
    (),
    "",
    "Messages that this process has read since it started.",
)
EVENTS: Final = Series(
    "calibration_events_total",
    "counter",
    ("type", "result"),
    "",
    "Events by the fate they met, since the log's beginning, over the partitions held: it starts anew, lower, when a "
    "partition moves away. An outcome that waits for its prediction has no fate yet: see calibration_early_outcomes.",
)
DEPARTED: Final = Series(
    "calibration_departed_predictions_total",
    "counter",
    ("result",),
    "",
    "Accepted predictions that left the join, by how: with an outcome, without one, or before their time because the "
    "table was full.",
)
DEAD_LETTERS: Final = Series(
    "calibration_dead_letters_total",
    "counter",
    ("reason",),
    "",
    "Messages that were no valid events, by reason, over the partitions held.",
)
PURGED: Final = Series(
    "calibration_purged_offsets_total",
    "counter",
    (),
    "",
    "Offsets passed over because the log no longer held them when they were to be read, since the process started.",
)
PENDING: Final = Series(
    "calibration_pending_predictions",
    "gauge",
    (),
    "",
    "Predictions kept to be joined: waiting for their outcome, or answered and kept to recognise duplicates.",
)
UNANSWERED: Final = Series(
    "calibration_unanswered_predictions",
    "gauge",
    (),
    "",
    "Kept predictions that have no outcome yet.",
)
EARLY_OUTCOMES: Final = Series(
    "calibration_early_outcomes",
    "gauge",
    (),
    "",
    "Outcomes that wait for their prediction.",
)
LAG: Final = Series(
    "calibration_consumer_lag",
    "gauge",
    ("topic", "partition"),
    "",
    "Records between what was read and the end of the topic partition, where known.",
)
HELD_SERIES: Final = Series(
    "calibration_held_series",
    "gauge",
    (),
    "",
    "Combinations of model, version and segment that are held.",
)
CHECKPOINT_TIMESTAMP: Final = Series(
    "calibration_checkpoint_timestamp_seconds",
    "gauge",
    (),
    "seconds",
    "When state and offsets were last saved, seconds since the epoch. Absent before the first time.",
)
CHECKPOINT_DURATION: Final = Series(
    "calibration_checkpoint_duration_seconds",
    "gauge",
    (),
    "seconds",
    "What saving state and offsets took the last time. Absent before the first time.",
)

# What runs.
BUILD_INFO: Final = Series(
    "calibration_build_info",
    "info",
    ("version", "grid_version", "python_version"),
    "",
    "Version of the service, of the grid on which its tables merge, and of Python. Always 1.",
)

WINDOWS: Final = (
    PREDICTIONS,
    LABELLED,
    POSITIVES,
    PREVALENCE,
    MEAN_PREDICTION,
    LABEL_COVERAGE,
    INSUFFICIENT,
    WINDOW_END,
    WATERMARK,
)
EVALUATION: Final = (
    EVALUATIONS,
    EVALUATION_FAILURES,
    FAILED_REPORTS,
    UNEVALUATED,
    STALENESS,
    EVALUATION_DURATION,
    EVALUATION_TIMESTAMP,
    EXPORTED,
    DROPPED,
)
PIPELINE: Final = (
    READY,
    PHASE,
    PARTITIONS,
    RECORDS,
    EVENTS,
    DEPARTED,
    DEAD_LETTERS,
    PURGED,
    PENDING,
    UNANSWERED,
    EARLY_OUTCOMES,
    LAG,
    HELD_SERIES,
    CHECKPOINT_TIMESTAMP,
    CHECKPOINT_DURATION,
)
PROCESS: Final = (
    BUILD_INFO,
    # These come from prometheus_client, on Linux, under the names that every Prometheus client gives them.
    Series("process_virtual_memory_bytes", "gauge", (), "bytes", "Virtual memory size."),
    Series("process_resident_memory_bytes", "gauge", (), "bytes", "Resident memory size."),
    Series("process_start_time_seconds", "gauge", (), "seconds", "Start time, seconds since the epoch."),
    Series("process_cpu_seconds_total", "counter", (), "seconds", "User and system CPU time spent."),
    Series("process_open_fds", "gauge", (), "", "Number of open file descriptors."),
    Series("process_max_fds", "gauge", (), "", "Maximum number of open file descriptors."),
)

STATISTICS: Final = {
    "value": "",
    "lower": "lower end of its 95% confidence interval",
    "upper": "upper end of its 95% confidence interval",
    "null_mean": "its mean if the model were perfectly calibrated on the same predictions",
    "null_q95": "its 95% point if the model were perfectly calibrated on the same predictions",
    "p_value": "share of perfectly calibrated resamples that are at least as far off",
    "error_bound": "how far it can lie from that of the raw predictions, which are kept in cells",
}
"""Field of a measure's result -> what its series says."""

_ESTIMATED_BOUND: Final = (
    "estimate of how far it can lie from that of the raw predictions, which are kept in cells; the raw predictions may "
    "have other bins"
)


@dataclass(frozen=True, slots=True)
class MeasureSeries:
    """One statistic of one measure: which field of which result, and its series."""

    measure: str
    statistic: str
    scale: float
    """What the field is multiplied by, so that the series is a ratio."""
    series: Series


def measure_series(measures: Iterable[Measure]) -> tuple[MeasureSeries, ...]:
    """The series of the measures, as their declarations imply them: one a measure and statistic.

    A measure in percent is exported as a ratio: ``tce`` becomes ``calibration_tce_ratio``.
    """
    found = []
    for measure in sorted(measures, key=lambda measure: (measure.rank, measure.name)):
        in_percent = measure.unit == "percent"
        stem = f"calibration_{measure.name}" + ("_ratio" if in_percent else "")
        for statistic, of_all in STATISTICS.items():
            estimated = statistic == "error_bound" and not measure.error_bound_is_certain
            says = _ESTIMATED_BOUND if estimated else of_all
            series = Series(
                stem if statistic == "value" else f"{stem}_{statistic}",
                "gauge",
                REPORT_LABELS,
                "ratio",
                f"{measure.title}: {says or measure.help}".rstrip(".") + ". Absent when the data is insufficient.",
            )
            # A p-value is a share of resamples whatever the measure's unit.
            scale = 0.01 if in_percent and statistic != "p_value" else 1.0
            found.append(MeasureSeries(measure.name, statistic, scale, series))
    return tuple(found)


def catalogue(measures: Iterable[Measure]) -> tuple[Series, ...]:
    """Every series that the service exports, in the order in which it does."""
    return (*(each.series for each in measure_series(measures)), *WINDOWS, *EVALUATION, *PIPELINE, *PROCESS)
