"""What a refit is made of: the events of a window, those to fit on, and the later ones to compare on."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np

from monitor.errors import InputError, NotEnoughData
from monitor.local.calibration import confidence_and_hit
from monitor.maps.labelled import LabelledEvents
from monitor.recalibration.change import Change, last_change
from monitor.recalibration.fitting_task import HELD_OUT
from monitor.scores.arguments import number_text

LEAST_EVENTS: Final = 100
"""To fit on, and to compare on. With fewer, no method tells a model's error from chance."""

LEAST_OF_EACH: Final = 5
"""Events of each outcome, in either part; of many classes, hits and misses of the largest probability."""


@dataclass(frozen=True, eq=False)
class RefitData:
    """The events of a refit, parted in time.

    Attributes
    ----------
    fit
        What a map is fitted on.
    held_out
        Later events, which no fit sees. None of them is as early as the latest of ``fit``.
    change
        The change of calibration since which events were taken; None where there is none, or a window was named.
    passed_over
        A later change, since which there are too few events: it was taken as none.
    too_few
        In words, what there was too little of since then; empty where none was passed over.
    """

    fit: LabelledEvents
    held_out: LabelledEvents
    change: Change | None = None
    passed_over: Change | None = None
    too_few: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever decides on the map should know of its data, in sentences."""
        if self.passed_over is None:
            return ()
        at = datetime.fromtimestamp(self.passed_over.time_ms / 1000.0, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        told = (
            f"Calibration seems to have changed at {at}, but too little is known since then, and earlier events were "
            f"taken too: {self.too_few}."
        )
        return (told,)


def refit_data(
    events: LabelledEvents,
    *,
    window_ms: int | None = None,
    held_out: float = HELD_OUT,
    seed: int = 0,
) -> RefitData:
    """Choose the events of a refit, and part them in time.

    Parameters
    ----------
    events
        The sample, in the order of time.
    window_ms
        How far back from the newest event others are taken, above 0. If left out: since the last change of calibration
        after which there is enough for a refit, or all.
    held_out
        Share of the latest events that are held out, above 0 and below 1.
    seed
        Of the test for a change.

    Raises
    ------
    NotEnoughData
        There are too few events, or too few of an outcome, in either part. Says how many there are, and of which part.
    InputError
        An option is out of its range.
    """
    if window_ms is not None and not window_ms > 0:
        raise InputError(f"window must be longer than 0, got {window_ms} ms")
    if not 0.0 < held_out < 1.0:
        raise InputError(f"held_out must be above 0 and below 1, got {number_text(held_out)}")
    if len(events) == 0:
        raise NotEnoughData("there is no labelled event whose outcome can change no more")
    if window_ms is not None:
        since = int(events.time_ms[-1]) - window_ms
        return RefitData(*_parted(events.select(events.time_ms > since), held_out, "of the window"))
    passed_over, too_few = None, ""
    change = last_change(events, seed=seed)
    while change is not None:
        try:
            parts = _parted(events.select(slice(change.row, None)), held_out, "since the change")
        except NotEnoughData as error:
            # The latest is what is told: whoever waits for more outcomes waits for those.
            if passed_over is None:
                passed_over, too_few = change, str(error)
            change = last_change(events.select(slice(0, change.row)), seed=seed)
        else:
            return RefitData(*parts, change, passed_over, too_few)
    return RefitData(*_parted(events, held_out, "in all"), None, passed_over, too_few)


def part_in_time(events: LabelledEvents, held_out: float) -> tuple[LabelledEvents, LabelledEvents]:
    """Earlier and later events; those of one time stay together, on the side that leaves the share the nearer.

    Parameters
    ----------
    events
        n of them, in the order of time.
    held_out
        Share of the later ones.

    Returns
    -------
    tuple
        Either may be empty, where all events are of one time.
    """
    cut = round(len(events) * (1.0 - held_out))
    if 0 < cut < len(events):
        at = events.time_ms[cut]
        first, last = (int(np.searchsorted(events.time_ms, at, side)) for side in ("left", "right"))
        cut = first if cut - first <= last - cut else last
    return events.select(slice(0, cut)), events.select(slice(cut, None))


def _parted(chosen: LabelledEvents, held_out: float, of: str) -> tuple[LabelledEvents, LabelledEvents]:
    """Earlier and later events, enough of both."""
    fit, later = part_in_time(chosen, held_out)
    for name, part in (("to fit on", fit), ("held out", later)):
        _require(part, f"{name} ({len(chosen):,} {of})")
    return fit, later


def _require(events: LabelledEvents, where: str) -> None:
    if len(events) < LEAST_EVENTS:
        n = len(events)
        raise NotEnoughData(f"{n} labelled event{'' if n == 1 else 's'} {where}, at least {LEAST_EVENTS} are needed")
    hit = confidence_and_hit(events.prediction, events.outcome)[1]
    names = ("the outcome 1", "the outcome 0") if events.is_binary else ("their largest class", "another class")
    for name, count in zip(names, (int(hit.sum()), int((1.0 - hit).sum())), strict=True):
        if count < LEAST_OF_EACH:
            raise NotEnoughData(
                f"only {count:,} of {len(events):,} labelled events {where} have {name}, "
                f"at least {LEAST_OF_EACH} are needed"
            )
