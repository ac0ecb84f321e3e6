"""Label coverage by the age of the predictions, which shows missing outcomes before a window is mature.

When outcomes stop arriving, the youngest cohorts lose coverage first, hours or weeks before a mature window does.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from monitor.events.model import SeriesKey
from monitor.windows.contents import moment_of
from monitor.windows.panes import ClosedPanes
from monitor.windows.windows import Window

COHORTS: Final = ("0-25%", "25-50%", "50-75%", "75-100%", "mature")
"""Ages of predictions, relative to their model's horizon."""

_QUARTERS: Final = 4
_PANES_PER_HORIZON: Final = 16
"""Ages are measured in panes; the horizon holds at least this many where windows have panes narrow enough."""
_PANES_AT_ONCE: Final = 4096
"""Panes read per evaluation and version. Where there are more, the coverage is updated less often."""


class AgeCohort(NamedTuple):
    """The predictions of one age."""

    cohort: str
    """One of COHORTS."""
    predictions: int
    labelled: int
    """Predictions with an explicit outcome; implied negatives do not count."""


class CoverageByAge:
    """Measures the label coverage of versions by the age of their predictions. Used by one thread.

    Ages are measured in the panes of the windows: the widest of which 16 fit into the model's horizon, or the
    narrowest there are.
    """

    def __init__(self, panes: ClosedPanes, windows: Sequence[Window]) -> None:
        self._panes = panes
        # Of windows with one width of panes, the longest says how long those are kept.
        self._windows = {
            window.slide_ms: replace(window, mature=True)
            for window in sorted(windows, key=lambda window: window.length_ms)
        }
        self._due: dict[SeriesKey, tuple[int, tuple[AgeCohort, ...]]] = {}

    def update(self, series: Sequence[SeriesKey], number: int) -> dict[tuple[str, str], tuple[AgeCohort, ...]]:
        """(model, version) -> its cohorts, all five.

        Parameters
        ----------
        series
            One for each version; others are dropped.
        number
            Of the evaluation. Where a horizon holds many panes, the cohorts are kept for several evaluations.
        """
        due = {key: self._due[key] for key in series if key in self._due}
        for key in series:
            if key not in due or due[key][0] <= number:
                panes, cohorts = self._cohorts(key)
                due[key] = (number + max(1, panes // _PANES_AT_ONCE), cohorts)
        self._due = due
        return {(key.model, key.version): cohorts for key, (_, cohorts) in due.items()}

    def _cohorts(self, series: SeriesKey) -> tuple[int, tuple[AgeCohort, ...]]:
        """The largest possible number of panes, and the cohorts.

        A pane is as old as the youngest prediction that it can hold. The mature cohort is that of a mature window: of
        predictions whose horizon has passed, the settled ones. Outcomes of the others may still be on their way.
        """
        watermark_ms = self._panes.watermark_ms(series.model)
        policy = self._panes.policy(series.model)
        horizon_ms = policy.horizon_ms
        window = self._window(horizon_ms)
        from_ms, settled_ms = window.span(moment_of(self._panes, series.model))
        predictions, labelled = [0] * len(COHORTS), [0] * len(COHORTS)
        for pane in self._panes.counts(series, window.slide_ms, from_ms, watermark_ms + 1):
            age_ms = max(0, watermark_ms - (pane.start_ms + window.slide_ms))
            if age_ms >= horizon_ms and pane.start_ms >= settled_ms:
                continue
            at = _QUARTERS if age_ms >= horizon_ms else age_ms * _QUARTERS // horizon_ms
            predictions[at] += pane.predictions
            labelled[at] += pane.labelled
        cohorts = tuple(AgeCohort(*row) for row in zip(COHORTS, predictions, labelled, strict=True))
        # Before anything is settled, a mature window begins before all time.
        span_ms = min(watermark_ms - from_ms, policy.retention_ms + window.length_ms)
        return span_ms // window.slide_ms, cohorts

    def _window(self, horizon_ms: int) -> Window:
        """The window in whose panes ages are measured."""
        fitting = [slide_ms for slide_ms in self._windows if slide_ms * _PANES_PER_HORIZON <= horizon_ms]
        return self._windows[max(fitting) if fitting else min(self._windows)]
