"""What is certain of a semi-norm of the residuals without any resampling, at any number of events."""

import math

from monitor.errors import InputError, NotEnoughData
from monitor.scores import ScoreTable


def deviation_probability(table: ScoreTable, distance: float) -> float:
    r"""Bound of the probability that a semi-norm N of the residuals lies so far from its own mean, or farther.

    .. math:: P(|N(v_n) - E N(v_n)| \ge t) \le 2 \exp(-n t^2 / 2)

    for independent events, whatever their law. It holds for every N that is at most the total variation: kCE, smCE,
    RintCE, ECE and their relatives.

    Parameters
    ----------
    table
        m rows. Of weights, n is the number of equal ones that vary alike, their sum squared over the sum of squares.
    distance
        t, at least 0.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``distance`` is below 0.

    Notes
    -----
    One event moves N by at most 2/n: McDiarmid, "On the method of bounded differences", 1989, Lemma 1.2.
    """
    if not distance >= 0.0:
        raise InputError(f"distance must be at least 0, got {distance}")
    return min(1.0, 2.0 * math.exp(-_alike(table) * distance**2 / 2.0))


def deviation_radius(table: ScoreTable, level: float = 0.05) -> float:
    """The t at which :func:`deviation_probability` is ``level``, in (0, 1].

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``level`` is out of range.
    """
    if not 0.0 < level <= 1.0:
        raise InputError(f"level must be above 0 and at most 1, got {level}")
    return math.sqrt(2.0 * math.log(2.0 / level) / _alike(table))


def _alike(table: ScoreTable) -> float:
    if table.rows == 0:
        raise NotEnoughData("a deviation needs at least 1 event, got 0")
    return table.total**2 / float(table.positive_squares.sum() + table.negative_squares.sum())
