"""Expressions that several panels need. They are right with one replica and with several.

A replica tells of the partitions that it holds. So counts are summed over replicas, and shares are shares of sums; of
measures, which do not add, the largest is shown: that of the worst replica. Of what is read from the store all replicas
say the same, and the maximum is what they say.
"""

from typing import Final

BY_VERSION: Final = "(model, version)"
BY_WINDOW: Final = "(model, version, window)"
AT_FAULT: Final = "prior_shift|shape_miscalibration|both"
"""Verdicts that say that something is wrong, as a regular expression."""


def largest(series: str, selector: str, by: str = "") -> str:
    """The largest over replicas, and over whatever ``by`` leaves out."""
    return f"max {f'by {by} ' if by else ''}({series}{{{selector}}})"


def smallest(series: str, selector: str, by: str = "") -> str:
    """The smallest over replicas, and over whatever ``by`` leaves out."""
    return f"min {f'by {by} ' if by else ''}({series}{{{selector}}})"


def summed(series: str, selector: str, by: str = "") -> str:
    """The sum over replicas, and over whatever ``by`` leaves out."""
    return f"sum {f'by {by} ' if by else ''}({series}{{{selector}}})"


def share(part: str, whole: str, selector: str, by: str = "") -> str:
    """One sum in another; none where the whole is 0."""
    return f"{summed(part, selector, by)} / ({summed(whole, selector, by)} > 0)"


def faults(selector: str) -> str:
    """By how much the logits of each window are off, offset and shape together; 0 where its verdict finds no fault.

    The root mean square of both: 0.2 changes odds by a fifth. What chance does is not counted, for then the verdict is
    ``calibrated``.
    """
    squares = (
        f"calibration_offset_logit{{{selector}}}^2"
        f" + (calibration_logit_error_after_offset{{{selector}}}^2 or 0 * calibration_offset_logit{{{selector}}})"
    )
    found = f'max without (verdict) (calibration_verdict{{{selector},verdict=~"{AT_FAULT}"}})'
    return f"sqrt({squares}) * {found}"


def weighted(series: str, selector: str, by: str = "") -> str:
    """The mean over replicas, each with the weight of its labelled predictions."""
    values, labelled = f"{series}{{{selector}}}", f"calibration_window_labelled{{{selector}}}"
    grouped = f" by {by}" if by else ""
    return f"sum{grouped} ({values} * {labelled}) / sum{grouped} ({labelled} and {values})"
