"""How full the caps of a partition are, and how many predictions they have made ``other``."""

import numpy as np

from monitor.arrays import Ints
from monitor.events.strata import Cap, Strata
from monitor.store.base import CapUse, CapUses


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
