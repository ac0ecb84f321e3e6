"""Groups of events: which segment key they are the values of, and which events are whose."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from monitor.errors import InputError
from monitor.maps.base import OptionValue
from monitor.maps.labelled import LabelledEvents


def chosen_key(method: str, events: LabelledEvents, asked: OptionValue) -> str:
    """The segment key that the option ``segment`` names; the only one there is if it is null.

    Raises
    ------
    InputError
        There is no such key, or there are several and none is named. Says which there are.
    """
    known = ", ".join(sorted(events.segments))
    if asked is None:
        if len(events.segments) == 1:
            return next(iter(events.segments))
        raise InputError(f"option segment of {method} must name one of {known}: these events have several")
    if asked not in events.segments:
        raise InputError(f"option segment of {method} must be one of {known}, got {asked!r}")
    return str(asked)


def places_among(groups: Sequence[str], named: NDArray[np.str_]) -> NDArray[np.int64]:
    """The place of each name among the groups, int64, shape (n,); -1 for one that is not among them.

    Parameters
    ----------
    groups
        Ascending.
    named
        Text, shape (n,).
    """
    if not groups:
        return np.full(named.shape, -1, np.int64)
    known = np.array(groups)
    at = np.minimum(np.searchsorted(known, named), known.size - 1)
    return np.where(known[at] == named, at, -1)


def rows_by_group(place: NDArray[np.int64], groups: int) -> list[NDArray[np.int64]]:
    """The rows of each of so many groups, ascending, from the place of each event; -1 belongs to none."""
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(groups + 1))
    return [order[start:stop] for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]
