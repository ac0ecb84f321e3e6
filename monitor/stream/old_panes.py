"""Which closed panes of a partition nothing needs any more at their width."""

from collections.abc import Mapping
from typing import Final

from monitor.store.closing import OldPanes

_MAX_WIDENED: Final = 16
"""A checkpoint widens the panes of at most so many models, so that it does not take long; the next one continues."""


class OldPanesFinder:
    """Finds the panes of a partition that are to be widened or removed.

    Parameters
    ----------
    kept_ms
        Width of panes -> how long they are kept behind the settled edge.
    oldest_ms
        (model, width of panes) -> start of the oldest closing in the store.
    """

    def __init__(self, kept_ms: Mapping[int, int], oldest_ms: Mapping[tuple[str, int], int]) -> None:
        self._kept_ms = kept_ms
        self._oldest_ms = dict(oldest_ms)

    def find(
        self, closed_to_ms: Mapping[str, int], edges_ms: Mapping[str, int], evidence_ms: Mapping[str, int] | None
    ) -> list[OldPanes]:
        """The panes of some models that nothing needs any more at their width, those that are longest overdue first.

        They are due once they span as much time as is kept: so each closing is rewritten about once.

        Parameters
        ----------
        closed_to_ms
            Model -> time up to which the partition is closed.
        edges_ms, evidence_ms
            As for :meth:`monitor.stream.partition.Partition.checkpoint`.
        """
        widths = sorted(self._kept_ms)
        overdue: list[tuple[float, OldPanes]] = []
        for model, at_ms in closed_to_ms.items():
            edge_ms = min(at_ms, edges_ms.get(model, at_ms))
            for width_ms, wider_ms in zip(widths, [*widths[1:], None], strict=True):
                kept_ms = self._kept_ms[width_ms]
                before_ms = edge_ms - kept_ms
                if evidence_ms is not None and width_ms == widths[0]:
                    longest_ms = max(self._kept_ms.values())
                    before_ms = min(before_ms, max(evidence_ms.get(model, -1), before_ms - longest_ms))
                before_ms -= before_ms % (wider_ms or width_ms)
                # Of a model whose first panes these are, nothing is older.
                spans = (before_ms - self._oldest_ms.setdefault((model, width_ms), before_ms)) / kept_ms
                if spans >= 1:
                    overdue.append((spans, OldPanes(model, width_ms, before_ms, wider_ms)))
        chosen = [panes for _, panes in sorted(overdue, key=lambda pair: pair[0], reverse=True)[:_MAX_WIDENED]]
        self._oldest_ms.update({(panes.model, panes.width_ms): panes.before_ms for panes in chosen})
        return chosen
