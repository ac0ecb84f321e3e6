"""Expressions that several panels need.

Each series of a model is exported by the one replica that evaluates it. While another one takes the model over, both
may export it for some seconds: the largest of both is shown, and counts may be twice as large for as long.
"""

from typing import Final

BY_VERSION: Final = "(model, version)"
BY_WINDOW: Final = "(model, version, window)"
AT_FAULT: Final = "prior_shift|shape_miscalibration|both"
"""Verdicts that say that something is wrong, as a regular expression."""


def largest(series: str, selector: str, by: str = "") -> str:
    """The largest over whatever ``by`` leaves out."""
    return f"max {f'by {by} ' if by else ''}({series}{{{selector}}})"


def summed(series: str, selector: str, by: str = "") -> str:
    """The sum over whatever ``by`` leaves out."""
    return f"sum {f'by {by} ' if by else ''}({series}{{{selector}}})"


def share(part: str, whole: str, selector: str, by: str = "") -> str:
    """One sum in another; none where the whole is 0."""
    return f"{summed(part, selector, by)} / ({summed(whole, selector, by)} > 0)"


def above_line(selector: str) -> str:
    """Decimal logarithm of evidence over the budget's line, by version: of the strongest detector.

    While an alert fires it is at least at the line, which may rise in the meantime.
    """
    nearest = f"max by {BY_VERSION} (calibration_evidence{{{selector}}} - calibration_evidence_line{{{selector}}})"
    firing = alarms(selector)
    return f"(clamp_min({nearest}, 0) and {firing}) or {nearest} or 0 * {firing}"


def alarms(selector: str) -> str:
    """The versions about which an alert fires, by version: 2, or 3 where it is acknowledged."""
    return f"(max by {BY_VERSION} (calibration_alert_state{{{selector}}}) >= 2)"


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
