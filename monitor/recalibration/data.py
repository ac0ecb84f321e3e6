"""Choose the events of a refit, and split them into those to fit on and later ones to compare on."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np

from monitor.errors import NotEnoughData
from monitor.events.times import format_time
from monitor.local.calibration import confidence_and_hit
from monitor.recalibration.change import CalibrationChange, last_change
from monitor.scores.labelled import LabelledEvents

HELD_OUT: Final = 0.3
"""Default share of the latest events, on which maps are compared and which no fit sees."""

MIN_EVENTS: Final = 100
"""Events to fit on, and to compare on. With fewer, no method can tell a model's error from chance."""

MIN_OF_EACH_OUTCOME: Final = 5
"""Events of each outcome, in either part; for many classes, hits and misses of the largest probability."""


@dataclass(frozen=True, eq=False)
class RefitData:
    """The events of a refit, split by time.

    Attributes
    ----------
    fit
        Events to fit on.
    held_out
        Later events, which no fit sees. All are later than the latest of ``fit``.
    change
        The change of calibration since which events were used; None without one, or if a window was given.
    passed_over
        A later change that was ignored, because there are too few events since then.
    too_few
        What there was too little of since that change; else empty.
    """

    fit: LabelledEvents
    held_out: LabelledEvents
    change: CalibrationChange | None = None
    passed_over: CalibrationChange | None = None
    too_few: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the data, for those who decide on the map."""
        if self.passed_over is None:
            return ()
        at = datetime.fromtimestamp(self.passed_over.time_ms / 1000.0, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        note = (
            f"Calibration seems to have changed at {at}, but there are too few events since then, so earlier ones were "
            f"used too: {self.too_few}."
        )
        return (note,)


def refit_data(
    events: LabelledEvents,
    *,
    window_ms: int | None = None,
    since_ms: int | None = None,
    held_out: float = HELD_OUT,
    seed: int = 0,
) -> RefitData:
    """Choose the events of a refit, and split them by time.

    Parameters
    ----------
    events
        The sample, in the order of time.
    window_ms
        How far back from the newest event others are used, above 0. If left out: since the last change of calibration
        that is followed by enough events, or all.
    since_ms
        Only events of this time or later are used: those since a change that is known.
    held_out
        Share of the latest events that are held out, above 0 and below 1.
    seed
        Of the test for a change.

    Raises
    ------
    NotEnoughData
        There are too few events, or too few of an outcome, in either part. Says how many and which part.
    """
    if len(events) == 0:
        raise NotEnoughData("there is no labelled event whose outcome can change no more")
    if window_ms is not None or since_ms is not None:
        first_ms = int(events.time_ms[0]) if since_ms is None else since_ms
        if window_ms is not None:
            first_ms = max(first_ms, int(events.time_ms[-1]) - window_ms + 1)
        where = "of the window" if since_ms is None else f"since {format_time(since_ms)}"
        return RefitData(*_split(events.select(events.time_ms >= first_ms), held_out, where))
    passed_over, too_few = None, ""
    change = last_change(events, seed=seed)
    while change is not None:
        try:
            parts = _split(events.select(slice(change.row, None)), held_out, "since the change")
        except NotEnoughData as error:
            # Report the latest change: more outcomes are needed since then.
            if passed_over is None:
                passed_over, too_few = change, str(error)
            change = last_change(events.select(slice(0, change.row)), seed=seed)
        else:
            return RefitData(*parts, change, passed_over, too_few)
    return RefitData(*_split(events, held_out, "in all"), None, passed_over, too_few)


def part_in_time(events: LabelledEvents, held_out: float) -> tuple[LabelledEvents, LabelledEvents]:
    """Split into earlier and later events; events of equal time stay together.

    Parameters
    ----------
    events
        n events, in order of time.
    held_out
        Share of the later events; the nearest possible is used.

    Returns
    -------
    tuple
        Either may be empty if all events have the same time.
    """
    cut = round(len(events) * (1.0 - held_out))
    if 0 < cut < len(events):
        at = events.time_ms[cut]
        first, last = (int(np.searchsorted(events.time_ms, at, side)) for side in ("left", "right"))
        cut = first if cut - first <= last - cut else last
    return events.select(slice(0, cut)), events.select(slice(cut, None))


def shortage(events: LabelledEvents, where: str) -> str | None:
    """Say what there is too little of to fit or compare maps; None if there is enough."""
    n = len(events)
    if n < MIN_EVENTS:
        return f"{n} labelled event{'' if n == 1 else 's'} {where}, at least {MIN_EVENTS} are needed"
    hit = confidence_and_hit(events.prediction, events.outcome)[1]
    names = ("the outcome 1", "the outcome 0") if events.is_binary else ("their largest class", "another class")
    for name, count in zip(names, (int(hit.sum()), int((1.0 - hit).sum())), strict=True):
        if count < MIN_OF_EACH_OUTCOME:
            return (
                f"only {count:,} of {n:,} labelled events {where} have {name}, "
                f"at least {MIN_OF_EACH_OUTCOME} are needed"
            )
    return None


def _split(events: LabelledEvents, held_out: float, which: str) -> tuple[LabelledEvents, LabelledEvents]:
    """Split into earlier and later events, and raise NotEnoughData if there are too few of either."""
    fit, later = part_in_time(events, held_out)
    for name, part in (("to fit on", fit), ("held out", later)):
        problem = shortage(part, f"{name} ({len(events):,} {which})")
        if problem is not None:
            raise NotEnoughData(problem)
    return fit, later
