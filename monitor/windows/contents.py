"""The predictions of one series in one window, summed from its panes, and the report that they make."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

import xxhash

from monitor.arrays import Floats
from monitor.classes.sketch import sketched_interval, sketched_null, sketched_skce
from monitor.durations import format_ms, rough_duration
from monitor.errors import InputError, NoLongerKept
from monitor.events.model import CLASS, SeriesKey
from monitor.reports.evaluation.assess import Assessment, build_report
from monitor.reports.evaluation.report import MeasureResult, Report, ReportKey, reliability_bins
from monitor.reports.formatting import minute_text
from monitor.scores import GridTable, ScoreTable
from monitor.scores.recalibrated import recalibrate_steps
from monitor.scores.sketch import SkceSketch
from monitor.scores.steps import Steps
from monitor.windows.panes import ClosedPanes
from monitor.windows.windows import Moment, Window

_MIN_SKETCHED_SHARE: Final = 0.99
"""Share of the window's events that a sketch must hold. While events arrive, cells and sketch are not read at once."""

_MIN_SKETCHED: Final = 2
_MINUTE_MS: Final = 60_000


class Contents(NamedTuple):
    """Predictions of the times [from, to), and what is known of them."""

    from_ms: int
    to_ms: int
    table: GridTable
    sketch: SkceSketch | None = None
    """Sketch of the vectors of predictions with an outcome, where the model has several classes and panes hold it."""
    emptiness: str | None = None
    """Why there are no predictions, and from when on there will be; None where there are any."""

    def recalibrated(self, recalibrate: Callable[[Floats], Floats]) -> "Contents":
        """The same with what a map makes of the predictions, float64, shape (n,), each by itself."""
        (table,) = recalibrate_steps(Steps.of([(self.to_ms, self.table)]), recalibrate).tables()
        return self._replace(table=table)

    def fingerprint(self) -> int:
        """128 bits that differ where the predictions or their outcomes do, whatever the times."""
        digest = xxhash.xxh3_128(self.table.cell.tobytes())
        digest.update(self.table.values.tobytes())
        if self.sketch is not None:
            digest.update(self.sketch.sums.tobytes())
        if self.emptiness is not None:
            digest.update(self.emptiness.encode())
        return digest.intdigest()


def moment_of(panes: ClosedPanes, model: str) -> Moment:
    """The present moment of a model."""
    return Moment(panes.watermark_ms(model), panes.edge_ms(model))


def read_window(panes: ClosedPanes, series: SeriesKey, window: Window, at: Moment) -> Contents:
    """Sum the predictions that the window covers at a moment of its model.

    A last-N window holds the newest whole panes with at least N answered predictions; all panes within its length where
    they hold fewer.

    Where a model's policy says that no outcome within the horizon means a negative, a mature window counts its
    unanswered predictions as negatives. A window that is not mature never does: its newest predictions have not had
    their time, and to call them negative would pull every young window below its model (by -.07 in the mean residual
    of a calibrated one; mathematics, section 6). It holds only what was answered explicitly, which is biased too,
    towards outcomes that come early: a window that is not mature declares this bias.
    """
    from_ms, to_ms = window.span(at)
    if window.last is not None:
        answered = 0
        for pane in reversed(panes.counts(series, window.slide_ms, from_ms, to_ms)):
            answered += pane.predictions if _implies_negatives(panes, series, window) else pane.labelled
            if answered >= window.last:
                from_ms = pane.start_ms
                break
    table = sum_panes(panes, series, window, from_ms, to_ms)
    sketch = panes.sketch(series, window.slide_ms, from_ms, to_ms)
    emptiness = None if table.predictions else _emptiness(panes, series, window, (from_ms, to_ms), at)
    return Contents(from_ms, to_ms, table, sketch, emptiness)


def unevaluated_moment(panes: ClosedPanes, model: str, as_of_ms: int, first_ms: int, last_ms: int) -> Moment:
    """The moment of a model at a watermark at which it was not evaluated, as if nothing had held its edge back.

    Parameters
    ----------
    first_ms, last_ms
        The settled edge lies between those of the moments before and after.
    """
    now = moment_of(panes, model)
    # Where all events were labelled, the horizon does not count.
    wait_ms = min(panes.policy(model).retention_ms, now.watermark_ms - now.edge_ms)
    return Moment(as_of_ms, max(first_ms, min(as_of_ms - wait_ms, last_ms)))


def read_window_of_then(panes: ClosedPanes, series: SeriesKey, window: Window, at: Moment) -> Contents:
    """Sum the predictions that the window covered at an earlier moment.

    Of a mature window this is what was reported then, up to closings of earlier times that have come since. Of a window
    that is not, outcomes that have come since count too.

    Raises
    ------
    NoLongerKept
        The window reached further back than the panes that are kept.
    """
    contents = read_window(panes, series, window, at)
    kept_ms = panes.kept_from_ms(series, window.slide_ms)
    needed_ms = max(contents.from_ms, 0)
    if needed_ms < kept_ms:
        earliest_ms = kept_ms + (at.watermark_ms - contents.from_ms)
        raise NoLongerKept(
            f"window {window.name!r} at {_utc(at.watermark_ms)} needs predictions since {_utc(needed_ms)}, and those "
            f"of model {series.model!r} are kept since {_utc(kept_ms)}: ask as of {_utc(earliest_ms)} or later"
        )
    return contents


def read_span(panes: ClosedPanes, series: SeriesKey, widths_ms: Collection[int], from_ms: int, to_ms: int) -> Contents:
    """Sum the settled predictions of a span in whole panes, the narrowest that are kept since then.

    The span begins with the pane that holds ``from_ms``, and ends before the one that holds ``to_ms`` or, if that is
    earlier, the settled edge.

    Raises
    ------
    NoLongerKept
        It reaches further back than the panes that are kept.
    InputError
        It holds no whole pane.
    """
    kept_ms = {width_ms: panes.kept_from_ms(series, width_ms) for width_ms in sorted(widths_ms)}
    width_ms = next((width for width, since_ms in kept_ms.items() if since_ms <= from_ms - from_ms % width), None)
    if width_ms is None:
        raise NoLongerKept(
            f"predictions of model {series.model!r} are kept since {_utc(min(kept_ms.values()))}, and from is "
            f"{_utc(from_ms)}: set from to that time or a later one"
        )
    edge_ms = panes.edge_ms(series.model)
    first_ms, end_ms = from_ms - from_ms % width_ms, min(to_ms, edge_ms)
    end_ms -= end_ms % width_ms
    if end_ms <= first_ms:
        settled = f"settled up to {_utc(edge_ms)}" if edge_ms >= 0 else "not settled at any time yet"
        raise InputError(
            f"from {_utc(from_ms)} to {_utc(to_ms)} there is no whole pane: model {series.model!r} is {settled}, and "
            f"panes that are kept since from are {format_ms(width_ms)} wide; set from earlier, or to later"
        )
    table = panes.sum_settled(series, width_ms, first_ms, end_ms)
    if panes.policy(series.model).implied_negative:
        table = table.with_implied_negatives()
    return Contents(first_ms, end_ms, table)


def sum_panes(panes: ClosedPanes, series: SeriesKey, window: Window, from_ms: int, to_ms: int) -> GridTable:
    """Sum the panes of a window that start in [from, to), with the negatives that it implies."""
    table = panes.sum(series, window.slide_ms, from_ms, to_ms)
    return table.with_implied_negatives() if _implies_negatives(panes, series, window) else table


def window_report(
    key: ReportKey, contents: Contents, table: ScoreTable, assessment: Assessment, *, has_classes: bool
) -> Report:
    """Report on a window, without a diagnosis.

    Parameters
    ----------
    table
        The scores of ``contents``.
    has_classes
        Whether the model has several classes, so that scores outside the segment of a class are of the top label.
    """
    report = build_report(
        key,
        table,
        assessment,
        from_ms=contents.from_ms,
        to_ms=contents.to_ms,
        n=contents.table.labelled,
        positives=int(table.positives.sum()),
        predictions=contents.table.predictions,
        emptiness=contents.emptiness,
        has_performance=not has_classes or key.series.segment.startswith(f"{CLASS}="),
    )
    canonical = canonical_measures(contents.sketch, report.n) if assessment.measures else {}
    return replace(report, canonical=canonical, bins=reliability_bins(table))


def canonical_measures(sketch: SkceSketch | None, n: int) -> Mapping[str, MeasureResult]:
    """The measures of whole probability vectors of a window of n events, by name.

    None where panes hold no sketch, or one that lacks events: those of before sketches were switched on, or of another
    number of classes. The value of a part would be taken for that of the window.
    """
    if sketch is None or sketch.events < max(_MIN_SKETCHED, _MIN_SKETCHED_SHARE * n):
        return {}
    lower, upper = sketched_interval(sketch)
    null = sketched_null(sketch)
    result = MeasureResult(
        sketched_skce(sketch), "ratio", lower=lower, upper=upper, null_mean=0.0, null_q95=null.q95, p_value=null.p_value
    )
    return {"skce": result}


def _emptiness(panes: ClosedPanes, series: SeriesKey, window: Window, span: tuple[int, int], at: Moment) -> str:
    """Why the window holds nothing in its span, and at what event time it will."""
    from_ms, to_ms = span
    waiting = panes.counts(series, window.slide_ms, to_ms, at.watermark_ms + 1)
    if not waiting:
        return f"holds no predictions: there are none since {minute_text(from_ms)}"
    first_ms, wait_ms = waiting[0].start_ms, 0
    if window.mature:
        wait_ms = panes.policy(series.model).retention_ms if at.edge_ms < 0 else at.watermark_ms - at.edge_ms
    ends = (
        f"ends where all is settled, {rough_duration(wait_ms)} before the newest event, and " if window.mature else ""
    )
    next_ms = first_ms + window.slide_ms + wait_ms
    return (
        f"holds no predictions yet: the first ones, since {minute_text(first_ms)}, will be in it once there is an "
        f"event of {minute_text(-(-next_ms // _MINUTE_MS) * _MINUTE_MS)} or later, as it {ends}moves on in steps of "
        f"{format_ms(window.slide_ms)}"
    )


def _implies_negatives(panes: ClosedPanes, series: SeriesKey, window: Window) -> bool:
    return window.mature and panes.policy(series.model).implied_negative


def _utc(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
