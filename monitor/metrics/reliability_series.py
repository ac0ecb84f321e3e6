"""Series that add over replicas, so that PromQL can put together what partitions of one model hold apart.

A reliability diagram over all replicas is ``sum by (bin)`` of each: prediction sums over labelled, positives over
labelled.
"""

from typing import Final

from monitor.metrics.levels import Level
from monitor.metrics.series import REPORT_LABELS, Series

BIN_LABELS: Final = (*REPORT_LABELS, "bin")
"""``bin`` is the lower edge of one of ten bins of equal width: ``0.0`` to ``0.9``."""
COHORT_LABELS: Final = ("model", "version", "cohort")
"""``cohort`` is the age of predictions relative to the horizon: ``0-25%`` to ``75-100%``, and ``mature`` beyond."""

BIN_LABELLED: Final = Series(
    "calibration_bin_labelled",
    "gauge",
    BIN_LABELS,
    "",
    "Labelled predictions of the window in one of ten bins of equal width, named by its lower edge; of several classes "
    "it is the top label's probability that is binned. Adds over replicas. Absent where the bin is empty.",
    Level.ALL,
)
BIN_POSITIVES: Final = Series(
    "calibration_bin_positives",
    "gauge",
    BIN_LABELS,
    "",
    "Positive outcomes in the bin; of several classes, how often the top label came true. Adds over replicas. Absent "
    "where the bin is empty.",
    Level.ALL,
)
# Not `_sum`: Prometheus keeps that ending for histograms and summaries.
BIN_SUMMED: Final = Series(
    "calibration_bin_summed_predictions",
    "gauge",
    BIN_LABELS,
    "",
    "Sum of the labelled predictions in the bin. Adds over replicas. Absent where the bin is empty.",
    Level.ALL,
)
COHORT_PREDICTIONS: Final = Series(
    "calibration_cohort_predictions",
    "gauge",
    COHORT_LABELS,
    "",
    "Predictions of an age, which is told in quarters of the horizon, back from the newest event; mature: beyond the "
    "horizon, as far as a window reaches. Adds over replicas.",
)
COHORT_LABELLED: Final = Series(
    "calibration_cohort_labelled",
    "gauge",
    COHORT_LABELS,
    "",
    "Predictions of that age that have an outcome; implied negatives are none. Adds over replicas.",
)

RELIABILITY: Final = (BIN_LABELLED, BIN_POSITIVES, BIN_SUMMED)
COVERAGE: Final = (COHORT_PREDICTIONS, COHORT_LABELLED)
