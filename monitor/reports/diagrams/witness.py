"""Where the model is too low and where it is too high: the witness of the smooth calibration error."""

from typing import NamedTuple, Self

import numpy as np

from monitor.arrays import Floats
from monitor.reports.diagrams.rows import on_points
from monitor.reports.evaluation.places import centred_witness
from monitor.scores import ScoreTable


class Witness(NamedTuple):
    """The centred witness; shape (points,) each, points <= 128."""

    prediction: Floats
    """Ascending."""
    value: Floats
    """Above 0 where the model says too little, below where it says too much."""

    @classmethod
    def of(cls, cells: ScoreTable) -> Self:
        """The witness of a table with events."""
        at = on_points(cells).score
        return cls(at, np.interp(at, cells.score, centred_witness(cells)))
