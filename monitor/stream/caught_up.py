"""Tells a log of outcomes that has fallen silent from one that has not been read yet."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_GRACE: Final = 5.0
"""Seconds by which what is known of a log's end may be outdated: the answer to a fetch is awaited for half of one."""


class CaughtUp:
    """Up to which predictions all outcomes that were written are read, for one partition.

    A prediction may leave the join once the outcomes have passed its time, or have fallen silent. But that they bring
    nothing means nothing while there are some left to be read: a backlog of days may be read within seconds, and one
    topic of it before the other. So silence counts from the newest prediction that was read some time before the
    outcomes were last seen to be at their end.

    Attributes
    ----------
    heard_ms
        int64, shape (models,): that prediction's time, by model; models that came later are not in it.
    """

    def __init__(self) -> None:
        self.heard_ms: NDArray[np.int64] = np.zeros(0, np.int64)
        self._candidate: tuple[float, NDArray[np.int64]] | None = None

    def note(self, now: float, predictions_ms: NDArray[np.int64]) -> None:
        """Note that all outcomes are read, as far as is known at ``now``.

        Parameters
        ----------
        now
            Monotonic seconds.
        predictions_ms
            int64, shape (models,): newest prediction read of each model, or -1.
        """
        if self._candidate is not None:
            since, candidate_ms = self._candidate
            if now - since < _GRACE:
                return
            self.heard_ms = candidate_ms
        self._candidate = now, predictions_ms.copy()
