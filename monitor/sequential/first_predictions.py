"""The profile of a series, from its first predictions."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from monitor.scores import GridTable
from monitor.scores.steps import Steps
from monitor.sequential.alternatives import Profile
from monitor.sequential.detector import State

ENOUGH: Final = 1000
"""Predictions that a profile is computed from."""


class FirstPredictions:
    """The profile of a series: a default, and from the step after its first thousand predictions on that of those.

    So a profile never depends on the step that it is used for. It stays the same afterwards: evidence of many steps is
    against the same alternatives.
    """

    def __init__(self) -> None:
        self.profile = Profile.default()
        self._read: GridTable | None = GridTable.zero()
        """Predictions so far; None once they are enough."""

    def follow(self, steps: Steps) -> Iterator[tuple[Steps, Profile]]:
        """Read the steps that follow those of earlier calls; yield parts of them, each with its profile."""
        start = 0
        if self._read is not None:
            tables = steps.tables()
            count = self._read.predictions + np.cumsum([table.predictions for table in tables])
            start = min(int(np.searchsorted(count, ENOUGH)) + 1, len(tables))
            yield steps.part(0, start), self.profile
            self._read = GridTable.sum((self._read, *tables[:start]))
            if self._read.predictions >= ENOUGH:
                self.profile, self._read = Profile.of(self._read), None
        yield steps.part(start, steps.end_ms.size), self.profile

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        read = self._read or GridTable.zero()
        return {
            "centre": self.profile.centre,
            "region_starts": np.array(self.profile.region_starts),
            "enough": int(self._read is None),
            "read_cell": read.cell,
            "read_values": read.values,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "FirstPredictions":
        """Continue from a state."""
        result = cls()
        result.profile = Profile(float(state["centre"]), tuple(np.asarray(state["region_starts"]).tolist()))
        read = GridTable(np.array(state["read_cell"], np.int64), np.array(state["read_values"], np.int64))
        result._read = None if state["enough"] else read
        return result
