"""How long a partition keeps its names, the counts of its caps, and its panes at their width."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Ints
from monitor.events.strata import Cap, Strata
from monitor.store.base import CapUse, CapUses, SavedStratum
from monitor.store.closing import OldPanes
from monitor.stream.journal_loops import PREDICTED

_NEVER: Final = -1
_STEPS: Final = 24
"""A stratum's newest prediction is saved again once it has moved on by one part in so many of the reach."""

_MAX_WIDENED: Final = 16
"""A checkpoint widens the panes of at most so many models, so that it does not take long; the next one continues."""


class Lifetimes:
    """The newest prediction of each stratum of a partition.

    Parameters
    ----------
    strata
        The names of the partition. They grow as names appear.
    reach_ms
        How far windows reach back behind what is closed.
    """

    def __init__(self, strata: Strata, reach_ms: int) -> None:
        self._strata = strata
        self._reach_ms = reach_ms
        self._step_ms = max(reach_ms // _STEPS, 1)
        self._newest_ms = np.empty(0, np.int64)
        """Times by stratum id."""
        self._saved_ms = np.empty(0, np.int64)
        """As the store has it."""
        self._saved = 0
        """How many of the interned strata it has."""

    def restore(self, saved: Mapping[int, SavedStratum]) -> None:
        """Restore what was saved, after the names. The newest predictions may be younger by a step."""
        self._grow()
        self._saved = len(self._strata.interned)
        for at, stratum in saved.items():
            self._saved_ms[at], self._newest_ms[at] = stratum.newest_ms, stratum.newest_ms + self._step_ms

    def note(self, rows: NDArray[np.void]) -> None:
        """Note accepted predictions, in rows of the journal."""
        self._grow()
        predicted = rows["entry"] == PREDICTED
        np.maximum.at(self._newest_ms, rows["stratum"][predicted], rows["time_ms"][predicted])

    def unsaved(self) -> dict[int, SavedStratum]:
        """The strata that are new, or whose newest prediction has moved on by a step; they count as saved then."""
        self._grow()
        # What was restored is a step after what was saved, and must not move on by being loaded again and again.
        moved_on = np.flatnonzero(self._newest_ms > self._saved_ms + self._step_ms)
        new, self._saved = self._strata.interned[self._saved :], len(self._strata.interned)
        ids = np.union1d(moved_on, np.array(new, np.int64))
        self._saved_ms[ids] = self._newest_ms[ids]
        strata = self._strata.strata
        return {at: SavedStratum(strata[at], int(self._newest_ms[at])) for at in ids.tolist()}

    def ended(self, held_ms: Ints) -> list[int]:
        """Ids of the strata that nothing holds any more.

        Parameters
        ----------
        held_ms
            int64, shape (models,): time from which on the join or the journal holds predictions of each model.
        """
        self._grow()
        model = self._strata.models_of_strata()
        ended = (model >= 0) & (self._newest_ms + self._reach_ms < np.append(held_ms, _NEVER)[model])
        return [int(at) for at in np.flatnonzero(ended)]

    def _grow(self) -> None:
        more = len(self._strata.strata) - self._newest_ms.size
        if more:
            self._newest_ms = np.append(self._newest_ms, np.full(more, _NEVER, np.int64))
            self._saved_ms = np.append(self._saved_ms, np.full(more, _NEVER, np.int64))


class CapCounts:
    """Counts the predictions that a cap has made ``other``, as long as windows reach the newest of them.

    Parameters
    ----------
    strata
        The names of the partition.
    reach_ms
        How far windows reach back behind what is closed.
    """

    def __init__(self, strata: Strata, reach_ms: int) -> None:
        self._strata = strata
        self._reach_ms = reach_ms
        self._folded: dict[Cap, tuple[int, int]] = {}
        """Cap -> predictions, and time of the newest."""

    def restore(self, saved: CapUses) -> None:
        """Restore what was saved, after the names: without models that have ended."""
        models = set(self._strata.models)
        self._folded = {cap: use[2:] for cap, use in saved.items() if use.folded and cap.model in models}

    def note(self, folds: Ints, times_ms: Ints) -> None:
        """Note accepted predictions: fold id and time of each, int64, shape (n,)."""
        by_fold = self._strata.folds
        counts = np.bincount(folds, minlength=len(by_fold))
        newest_ms = np.full(len(by_fold), -1, np.int64)
        np.maximum.at(newest_ms, folds, times_ms)
        for fold in np.flatnonzero(counts).tolist():
            for cap in by_fold[fold]:
                count, at_ms = self._folded.get(cap, (0, -1))
                self._folded[cap] = count + int(counts[fold]), max(at_ms, int(newest_ms[fold]))

    def uses(self, closed_to_ms: Ints) -> CapUses:
        """The caps that matter; counts that windows no longer reach are forgotten.

        Parameters
        ----------
        closed_to_ms
            int64, shape (models,): how far each model is closed.
        """
        closed = dict(zip(self._strata.models, closed_to_ms.tolist(), strict=True))
        self._folded = {
            cap: (count, newest_ms)
            for cap, (count, newest_ms) in self._folded.items()
            if newest_ms + self._reach_ms >= closed[cap.model]
        }
        used = self._strata.used()
        return {
            cap: CapUse(names, limit, *self._folded.get(cap, (0, -1)))
            for cap, names in used.items()
            for limit in [self._strata.limit(cap)]
            if 2 * names >= limit or cap in self._folded
        }


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
