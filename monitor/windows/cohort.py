"""The predictions of one series in one window, summed from its panes."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import xxhash

from monitor.classes.sketch import SkceSketch
from monitor.durations import format_duration
from monitor.errors import NoLongerKept
from monitor.events.model import SeriesKey
from monitor.scores import GridTable
from monitor.windows.windows import PaneReader, Window


class Cohort(NamedTuple):
    """What a report is of: prediction times [from, to), and what is known of the predictions then."""

    from_ms: int
    to_ms: int
    table: GridTable
    sketch: SkceSketch | None = None
    """Of the whole vectors of those that have an outcome, where the model has several classes and panes hold it."""
    emptiness: str | None = None
    """Why it holds no predictions, and from when on it will; None where it holds any."""

    def fingerprint(self) -> int:
        """128 bits that tell apart what is known of predictions, whatever the times."""
        digest = xxhash.xxh3_128(self.table.cell.tobytes())
        digest.update(self.table.values.tobytes())
        if self.sketch is not None:
            digest.update(self.sketch.sums.tobytes())
        if self.emptiness is not None:
            digest.update(self.emptiness.encode())
        return digest.intdigest()


def cohort(panes: PaneReader, series: SeriesKey, window: Window, watermark_ms: int) -> Cohort:
    """The predictions that the window covers at a watermark.

    A last-N window holds the newest whole panes with at least N answered predictions; all panes within its length where
    they hold fewer.

    Where a model's policy says that no outcome within the horizon means a negative, a mature window counts its
    unanswered predictions as negatives. A window that is not mature never does: its newest predictions have not had
    their time, and to call them negative would pull every young window below its model (by -.07 in the mean residual
    of a calibrated one; mathematics, section 6). It holds only what was answered in so many words, which is biased too,
    towards outcomes that come early: that is what such a window declares of itself.
    """
    from_ms, to_ms = window.span(watermark_ms, panes.policy(series.model))
    if window.last is not None:
        held = 0
        for pane in reversed(panes.counts(series, window.slide_ms, from_ms, to_ms)):
            held += pane.predictions if _implies(panes, series, window) else pane.labelled
            if held >= window.last:
                from_ms = pane.start_ms
                break
    table = labelled(panes, series, window, from_ms, to_ms)
    sketch = panes.sketch(series, window.slide_ms, from_ms, to_ms)
    emptiness = None if table.predictions else _emptiness(panes, series, window, from_ms, watermark_ms)
    return Cohort(from_ms, to_ms, table, sketch, emptiness)


def labelled(panes: PaneReader, series: SeriesKey, window: Window, from_ms: int, to_ms: int) -> GridTable:
    """Sum the panes of a window that start in [from, to), with the negatives that it implies."""
    table = panes.sum(series, window.slide_ms, from_ms, to_ms)
    return table.with_implied_negatives() if _implies(panes, series, window) else table


def _emptiness(panes: PaneReader, series: SeriesKey, window: Window, from_ms: int, watermark_ms: int) -> str:
    """Say why the window from then on holds nothing, and at what time of events it will."""
    waiting = panes.counts(series, window.slide_ms, from_ms, watermark_ms + 1)
    if not waiting:
        return f"holds no predictions: there are none since {_utc(from_ms)}"
    first_ms, horizon_ms = waiting[0].start_ms, panes.policy(series.model).horizon_ms if window.mature else 0
    ends = f"ends one horizon, {_length(horizon_ms)}, before the newest event and " if window.mature else ""
    return (
        f"holds no predictions yet: the first ones, since {_utc(first_ms)}, will be in it once there is an event of "
        f"{_utc(first_ms + window.slide_ms + horizon_ms)} or later, as it {ends}moves on in steps of "
        f"{_length(window.slide_ms)}"
    )


def _length(milliseconds: int) -> str:
    return format_duration(timedelta(milliseconds=milliseconds))


def _implies(panes: PaneReader, series: SeriesKey, window: Window) -> bool:
    return window.mature and panes.policy(series.model).implied_negative


def cohort_as_of(panes: PaneReader, series: SeriesKey, window: Window, as_of_ms: int) -> Cohort:
    """The predictions that the window covered when the model's watermark stood at a time.

    Of a mature window this is what was reported then, up to outcomes that were out of order in the log: each of its
    predictions had had its horizon by then, and later outcomes do not count. Of a window that is not, outcomes that
    have come since count too.

    Raises
    ------
    NoLongerKept
        The window reached further back than the panes that are kept.
    """
    watermark_ms = min(as_of_ms, panes.watermark_ms(series.model))
    result = cohort(panes, series, window, watermark_ms)
    kept_ms = panes.kept_from_ms(series, window.slide_ms)
    if max(result.from_ms, 0) < kept_ms:
        needed_ms, earliest_ms = max(result.from_ms, 0), kept_ms + (watermark_ms - result.from_ms)
        raise NoLongerKept(
            f"window {window.name!r} at {_utc(watermark_ms)} needs predictions since {_utc(needed_ms)}, and those of "
            f"model {series.model!r} are kept since {_utc(kept_ms)}: ask as of {_utc(earliest_ms)} or later"
        )
    return result


def _utc(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
