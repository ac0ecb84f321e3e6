"""What a series is, and those of windows, evaluation and process. docs/series.md is made of this file and its like.

A measure's series follow from its declaration, see catalogue.py, which lists all there are: nothing here names one.
"""

from dataclasses import dataclass
from typing import Final, Literal

from monitor.metrics.levels import Level

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
    level
        From which level of the exposition on it is exported.
    """

    name: str
    kind: Literal["gauge", "counter", "info"]
    labels: tuple[str, ...]
    unit: str
    meaning: str
    level: Level = Level.VALUES


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

# Is it the prior or the model?
VERDICT: Final = Series(
    "calibration_verdict",
    "gauge",
    (*REPORT_LABELS, "verdict"),
    "",
    "1 for the verdict on the window, 0 for the others. All are absent while there is none.",
)
SEVERITY: Final = Series(
    "calibration_severity",
    "gauge",
    REPORT_LABELS,
    "",
    "How large the fault of the verdict is: 0 no fault, 1 slight (logits off by up to 0.2), 2 moderate (up to 0.5), "
    "3 severe.",
)
OFFSET: Final = Series(
    "calibration_offset_logit",
    "gauge",
    REPORT_LABELS,
    "",
    "What has to be added to every logit so that the mean prediction is right: 0 is none, and it compares across "
    "prevalences. Absent when the data is insufficient, as all of the diagnosis.",
)
OFFSET_LOWER: Final = Series(
    "calibration_offset_logit_lower", "gauge", REPORT_LABELS, "", "Lower end of the offset's 95% confidence interval."
)
OFFSET_UPPER: Final = Series(
    "calibration_offset_logit_upper", "gauge", REPORT_LABELS, "", "Upper end of the offset's 95% confidence interval."
)
SLOPE: Final = Series(
    "calibration_slope",
    "gauge",
    REPORT_LABELS,
    "",
    "Slope of the true logits over the predicted ones: 1 is right, below 1 predictions are too sure of themselves. "
    "Absent where it is not finite.",
)
SLOPE_LOWER: Final = Series(
    "calibration_slope_lower",
    "gauge",
    REPORT_LABELS,
    "",
    "Lower end of the slope's 95% confidence interval.",
    Level.INTERVALS,
)
SLOPE_UPPER: Final = Series(
    "calibration_slope_upper",
    "gauge",
    REPORT_LABELS,
    "",
    "Upper end of the slope's 95% confidence interval.",
    Level.INTERVALS,
)
P_VALUE: Final = Series(
    "calibration_p_value",
    "gauge",
    REPORT_LABELS,
    "ratio",
    "Combined p-value of the hypothesis that the model is calibrated: of one window, and no guard against many looks.",
)
PRIOR_SHIFT_P_VALUE: Final = Series(
    "calibration_prior_shift_p_value",
    "gauge",
    REPORT_LABELS,
    "ratio",
    "p-value of the hypothesis that a shift of the prior is all there is.",
)
ERROR_AFTER_OFFSET: Final = Series(
    "calibration_error_after_offset",
    "gauge",
    REPORT_LABELS,
    "ratio",
    "smCE of the predictions after their best offset: what an update of the intercept leaves.",
)
LOGIT_ERROR_AFTER_OFFSET: Final = Series(
    "calibration_logit_error_after_offset",
    "gauge",
    REPORT_LABELS,
    "",
    "Root mean square by which logits are off after their best offset, by stretches, slope or contradictions.",
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
OUTDATED_SECONDS: Final = Series(
    "calibration_outdated_seconds",
    "gauge",
    (),
    "seconds",
    "For how long the longest outdated intervals, levels and verdict of a report had been waiting to be renewed at the "
    "last evaluation; 0 while all are of the same predictions as their values.",
)
OUTDATED_REPORTS: Final = Series(
    "calibration_outdated_reports",
    "gauge",
    (),
    "",
    "Reports whose intervals, levels and verdict wait to be renewed: they are of earlier predictions than the values.",
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

EXPOSITION_LEVEL: Final = Series(
    "calibration_exposition_level",
    "gauge",
    ("level",),
    "",
    "1 for the level of this answer, 0 for the others: how much it says of each window, see the setting "
    "exposition.level.",
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
DIAGNOSIS: Final = (
    VERDICT,
    SEVERITY,
    OFFSET,
    OFFSET_LOWER,
    OFFSET_UPPER,
    SLOPE,
    SLOPE_LOWER,
    SLOPE_UPPER,
    P_VALUE,
    PRIOR_SHIFT_P_VALUE,
    ERROR_AFTER_OFFSET,
    LOGIT_ERROR_AFTER_OFFSET,
)
EVALUATION: Final = (
    EVALUATIONS,
    EVALUATION_FAILURES,
    FAILED_REPORTS,
    UNEVALUATED,
    STALENESS,
    OUTDATED_SECONDS,
    OUTDATED_REPORTS,
    EVALUATION_DURATION,
    EVALUATION_TIMESTAMP,
    EXPORTED,
    DROPPED,
    EXPOSITION_LEVEL,
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
