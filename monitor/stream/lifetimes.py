"""How long names live: until no prediction of a stratum is in the join any more, or within the reach of windows."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Ints
from monitor.events.strata import Strata
from monitor.store.base import SavedStratum
from monitor.stream.journal_loops import PREDICTED

_NEVER: Final = -1
_STEPS: Final = 24
"""A stratum's newest prediction is saved again once it has moved on by one part in so many of the reach."""


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
