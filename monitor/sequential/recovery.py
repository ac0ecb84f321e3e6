"""Evidence that what an alarm was raised for is over."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.sequential.detector import Bets, State
from monitor.sequential.evidence import Alarm
from monitor.sequential.process_loops import first_recovery

MARGIN: Final = 12.0
"""Logarithm of what alternatives must lose. If one is true, chance takes that from it once in 160,000 steps at most."""


@dataclass
class Recovery:
    """Bets turned round: an alarm is over when each alternative that spoke for it has lost a margin since some step.

    Each of those with at least half of the largest score counts, not only the best: else an alarm would end while the
    model is still off, but less than the best alternative says, and come back.

    Attributes
    ----------
    group, series
        The series that spoke most for the alarm: the others do not count.
    alternatives
        int64, shape (k,): columns of its bets.
    loss
        float64, shape (k,): the largest loss of each alternative since some step after the alarm.
    margin
        Of losses.
    """

    group: str
    series: str
    alternatives: Ints
    loss: Floats
    margin: float

    @classmethod
    def of(cls, alarm: Alarm, margin: float = MARGIN) -> "Recovery":
        """Begin at an alarm. One that comes while it fires begins another recovery, which takes the place of this one.

        Parameters
        ----------
        alarm
            What is to be over.
        margin
            Double it each time that an alarm comes back soon after it was over: so a model that is hardly off does not
            make it come and go.
        """
        series = {(group, name): one for group, members in alarm.groups.items() for name, one in members.items()}
        group, name = max(series, key=lambda key: series[key].score)
        alternatives = np.array(series[group, name].alternatives, np.int64)
        return cls(group, name, alternatives, np.zeros(alternatives.size), margin)

    def update(self, bets: Bets) -> int | None:
        """Add the bets of the series on the steps that follow; return when the alarm is over, at the end of a step."""
        row = first_recovery(self.loss, bets.log_bets, self.alternatives, self.margin)
        return None if row < 0 else int(bets.end_ms[row])

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        return {
            "group": self.group,
            "series": self.series,
            "alternatives": self.alternatives,
            "loss": self.loss.copy(),
            "margin": self.margin,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Recovery":
        """Continue from a state."""
        return cls(
            state["group"],
            state["series"],
            np.array(state["alternatives"], np.int64),
            np.array(state["loss"], np.float64),
            float(state["margin"]),
        )
