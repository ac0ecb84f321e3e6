"""How far the outcomes of predictions have come in, by the age of the predictions: before a window is mature.

Where outcomes stop coming, the youngest cohorts lose coverage first, hours or weeks before a mature window does.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from monitor.events.model import SeriesKey
from monitor.windows.windows import PaneReader, Window

COHORTS: Final = ("0-25%", "25-50%", "50-75%", "75-100%", "mature")
"""Ages of predictions, relative to their model's horizon."""

_QUARTERS: Final = 4
_PANES_PER_HORIZON: Final = 16
"""At least so many panes tell ages apart, where windows have panes that are narrow enough."""
_PANES_AT_ONCE: Final = 4096
"""Panes looked up an evaluation and version. Where there are more, their coverage is taken less often."""


class AgeCohort(NamedTuple):
    """The predictions of one age."""

    cohort: str
    """One of COHORTS."""
    predictions: int
    labelled: int
    """Those that were answered in so many words; never those whose outcome is implied."""


class CoverageByAge:
    """Takes the label coverage of versions by the age of their predictions. Of one thread.

    Parameters
    ----------
    panes
        What has been counted.
    windows
        At least one. Their panes are what ages are told by: of the widest of which 16 fit into the model's horizon, or
        the narrowest there are.
    """

    def __init__(self, panes: PaneReader, windows: Sequence[Window]) -> None:
        self._panes = panes
        # Of windows with one width of panes, the longest says how long those are kept.
        self._lengths = {
            window.slide_ms: window.length_ms for window in sorted(windows, key=lambda window: window.length_ms)
        }
        self._known: dict[SeriesKey, tuple[int, tuple[AgeCohort, ...]]] = {}

    def take(self, series: Sequence[SeriesKey], number: int) -> dict[tuple[str, str], tuple[AgeCohort, ...]]:
        """(model, version) -> its cohorts, all five.

        Parameters
        ----------
        series
            One a version; what was known of others is forgotten.
        number
            Of the evaluation. Where a horizon holds many panes, what was taken at an earlier one stands for a while.
        """
        known = {each: self._known[each] for each in series if each in self._known}
        for each in series:
            due, _ = known.get(each, (number, ()))
            if due <= number:
                panes, cohorts = self._cohorts(each)
                known[each] = (number + max(1, panes // _PANES_AT_ONCE), cohorts)
        self._known = known
        return {(each.model, each.version): cohorts for each, (_, cohorts) in known.items()}

    def _cohorts(self, series: SeriesKey) -> tuple[int, tuple[AgeCohort, ...]]:
        """The number of panes that may be there, and the cohorts.

        A pane is as old as the youngest prediction that it can hold: so what is called mature is, and the panes of that
        cohort are those that mature windows are made of.
        """
        watermark_ms = self._panes.watermark_ms(series.model)
        horizon_ms = self._panes.policy(series.model).horizon_ms
        slide_ms = self._slide_ms(horizon_ms)
        mature_ms = watermark_ms - horizon_ms
        from_ms = mature_ms - mature_ms % slide_ms - self._lengths[slide_ms]
        predictions, labelled = [0] * len(COHORTS), [0] * len(COHORTS)
        for pane in self._panes.counts(series, slide_ms, from_ms, watermark_ms + 1):
            age_ms = max(0, watermark_ms - (pane.start_ms + slide_ms))
            at = _QUARTERS if age_ms >= horizon_ms else age_ms * _QUARTERS // horizon_ms
            predictions[at] += pane.predictions
            labelled[at] += pane.labelled
        cohorts = tuple(AgeCohort(*row) for row in zip(COHORTS, predictions, labelled, strict=True))
        return (watermark_ms - from_ms) // slide_ms, cohorts

    def _slide_ms(self, horizon_ms: int) -> int:
        """Width of the panes by which ages are told."""
        fitting = [slide_ms for slide_ms in self._lengths if slide_ms * _PANES_PER_HORIZON <= horizon_ms]
        return max(fitting) if fitting else min(self._lengths)
