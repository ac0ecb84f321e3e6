"""Windows: which predictions a report covers."""

from dataclasses import dataclass
from typing import Final, NamedTuple

SLIDES_MS: Final = tuple(1000 * seconds for seconds in (1, 5, 15, 60, 300, 900, 3600, 10800, 43200, 86400))
"""Widths that panes may have. Each divides the next, so panes of any two widths nest."""

PANES_PER_WINDOW: Final = 48
"""A window moves on in steps of at most this share of its length."""


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window, keyed by prediction time.

    Attributes
    ----------
    name
        Name in reports and in the label ``window``: ``1h``.
    length_ms
        Its length; for a last-N window, how far back it reaches at most.
    last
        For a last-N window: it holds the newest whole panes that have at least this many predictions with an outcome.
    mature
        Whether it ends at the settled edge, so that it is final: the outcome of every prediction in it had time to
        arrive. A window that does not ends with the newest event, and is biased towards early outcomes.
    """

    name: str
    length_ms: int
    last: int | None = None
    mature: bool = True

    @property
    def slide_ms(self) -> int:
        """Width of its panes: the widest of SLIDES_MS of which PANES_PER_WINDOW fit into the window."""
        fitting = [slide for slide in SLIDES_MS if slide * PANES_PER_WINDOW <= self.length_ms]
        return fitting[-1] if fitting else SLIDES_MS[0]

    def span(self, at: "Moment") -> tuple[int, int]:
        """Prediction times [from, to) that the window covers at a moment; whole panes."""
        end = at.edge_ms if self.mature else at.watermark_ms + self.slide_ms
        end -= end % self.slide_ms
        length = max(self.length_ms - self.length_ms % self.slide_ms, self.slide_ms)
        return end - length, end


class Moment(NamedTuple):
    """A moment of a model, at which windows end."""

    watermark_ms: int
    """Its newest event."""
    edge_ms: int
    """Its settled edge: earlier predictions are settled."""


class Count(NamedTuple):
    """Number of events in one pane."""

    start_ms: int
    predictions: int
    labelled: int
