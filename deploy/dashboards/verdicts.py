"""The verdicts of the service as dashboards show them."""

from typing import Final

from deploy.dashboards.panels import GREEN, ORANGE, RED
from monitor.reports.evaluation.report import Verdict

_COLOURS: Final = {
    Verdict.CALIBRATED: GREEN,
    Verdict.PRIOR_SHIFT: ORANGE,
    Verdict.SHAPE: RED,
    Verdict.BOTH: RED,
    Verdict.INSUFFICIENT: "text",
}

VERDICTS: Final = {verdict.value: (verdict.words, _COLOURS[verdict]) for verdict in Verdict}
"""Verdict -> its words and its colour."""
