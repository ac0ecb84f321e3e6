"""Reports by columns and by spans of time: one report for each combination of values, from one pass over the rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, Unpack

import numpy as np
import pyarrow as pa

from monitor.arrays import Ints, grouped
from monitor.errors import OptionError
from monitor.measures.base import Measure
from monitor.options import Option
from monitor.progress import StageProgress, no_progress
from monitor.reports.evaluation.assess import Minimum
from monitor.reports.evaluation.counting import GroupCounts
from monitor.reports.evaluation.evaluate import ScoredRows, evaluate_scores
from monitor.reports.evaluation.files import TableOptions, outcomes_or_nan
from monitor.reports.evaluation.report import MeasureResult, Report
from monitor.reports.evaluation.segments import SegmentReport, rank_segments
from monitor.sources.tables import EventTable

PERIODS: Final = {"hour": "h", "day": "D", "week": "W", "month": "M"}
"""Spans of the time column that ``--by`` names, unless a column is called so -> numpy's unit."""

_WEEK_SHIFT: Final = np.timedelta64(3, "D")
"""1970 began on a Thursday, and weeks begin on a Monday."""


@dataclass(frozen=True, slots=True)
class Group:
    """One combination of values.

    Attributes
    ----------
    values
        Column or span -> value, as text.
    span_ms
        [from, to) of its span of time, milliseconds since the epoch; None without one.
    """

    values: Mapping[str, str]
    span_ms: tuple[int, int] | None

    @property
    def key(self) -> tuple[object, ...]:
        """What groups are sorted by: numbers by their size, before texts."""
        names = [name for name in self.values if self.span_ms is None or name not in PERIODS]
        return *(_sort_key(self.values[name]) for name in names), self.span_ms or ()

    @property
    def name(self) -> str:
        """Its name as a segment: ``model=a, day=2026-11-20``."""
        return ", ".join(f"{name}={value}" for name, value in self.values.items())


@dataclass(frozen=True, slots=True)
class GroupReports:
    """Reports by columns and spans of time.

    Attributes
    ----------
    by
        The columns and spans.
    groups
        Each combination of values with its report, in order of the values, spans of time last; p-values are corrected
        for the number of reports.
    """

    by: tuple[str, ...]
    groups: tuple[tuple[Group, SegmentReport], ...]

    @classmethod
    def of(cls, by: tuple[str, ...], groups: Iterable[tuple[Group, Report]]) -> "GroupReports":
        """Sort reports by their groups, and correct p-values."""
        pairs = sorted(((group, _in_span(group, report)) for group, report in groups), key=lambda pair: pair[0].key)
        corrected = {id(segment.report): segment for segment in rank_segments(report for _, report in pairs)}
        return cls(by, tuple((group, corrected[id(report)]) for group, report in pairs))

    @property
    def histories(self) -> Mapping[str, tuple[SegmentReport, ...]]:
        """Reports of each combination of the other columns, in order of time; none without a span of time."""
        result: dict[str, list[SegmentReport]] = {}
        for group, report in self.groups:
            if group.span_ms is not None:
                rest = Group({name: value for name, value in group.values.items() if name not in PERIODS}, None)
                result.setdefault(rest.name, []).append(report)
        return {name: tuple(reports) for name, reports in result.items()}

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        reports = [{"by": dict(group.values), **report.to_dict()} for group, report in self.groups]
        return {"by": list(self.by), "reports": reports}

    def to_arrow(self) -> pa.Table:
        """One row for each report: values, counts, verdict, and each measure with its interval, levels and bound."""
        rows = [
            {**group.values, "model": group.values.get("model", segment.report.model), **report_row(segment)}
            for group, segment in self.groups
        ]
        return table_of(rows)


def _sort_key(text: str) -> tuple[bool, float, str]:
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text


def _in_span(group: Group, report: Report) -> Report:
    return report if group.span_ms is None else replace(report, from_ms=group.span_ms[0], to_ms=group.span_ms[1])


_COUNTS: Final = ("n", "positives", "predictions", "prevalence", "mean_prediction", "insufficient")
_VERDICT: Final = ("verdict", "severity", "offset", "offset_error", "slope", "slope_lower", "slope_upper")
_RESULT: Final = ("lower", "upper", "null_mean", "null_q95", "p_value", "error_bound")


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """A table of these rows; of columns that some rows lack, null there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in names})


def report_row(segment: SegmentReport) -> dict[str, Any]:
    """A report as a row: times, counts, verdict, and each measure with its interval, levels and bound."""
    report, diagnosis = segment.report, segment.report.diagnosis
    times = {
        name: None if at is None else datetime.fromtimestamp(at / 1000, UTC)
        for name, at in (("from", report.from_ms), ("to", report.to_ms))
    }
    return {
        **times,
        **{name: getattr(report, name) for name in _COUNTS},
        **{name: None if diagnosis is None else getattr(diagnosis, name) for name in _VERDICT},
        "p_value": segment.p_value,
        "q_value": segment.q_value,
        **measure_columns(report.measures),
    }


class Grouping:
    """Divides rows by columns and spans of time.

    Parameters
    ----------
    by
        Names of columns, and of spans (hour, day, week, month) that no column is called.
    columns
        Columns that the rows have as segments.

    Raises
    ------
    InputError
        Two spans of time are named.
    """

    def __init__(self, by: Sequence[str], columns: Sequence[str]) -> None:
        self.by = tuple(by)
        periods = [name for name in by if name not in columns]
        if len(periods) > 1:
            raise OptionError(Option.BY, f" names {' and '.join(periods)}: name one span of time, the shortest")
        self._period = next(iter(periods), None)
        self._columns = [name for name in by if name in columns]

    def codes(self, table: EventTable) -> list[Ints]:
        """The code of each row by each column, and by the span of time; shape (n,) each.

        Raises
        ------
        InputError
            There are no times for a span of time.
        """
        codes = [table.segments[name].codes.astype(np.int64) for name in self._columns]
        if self._period is None:
            return codes
        if table.time_ms is None:
            raise OptionError(Option.BY, f" {self._period} needs times: name their column with {Option.TIME}")
        moments = table.time_ms.astype("M8[ms]")
        if self._period == "week":
            moments = moments + _WEEK_SHIFT
        return [*codes, moments.astype(f"M8[{PERIODS[self._period]}]").astype(np.int64)]

    def group(self, codes: Sequence[int], table: EventTable) -> Group:
        """The group of these codes, with the values of a table that has them all."""
        values = {name: table.segments[name].values[code] for name, code in zip(self._columns, codes, strict=False)}
        if self._period is None:
            return Group(values, None)
        unit = PERIODS[self._period]
        ends = np.array([codes[-1], codes[-1] + 1]).astype(f"M8[{unit}]").astype("M8[ms]")
        if self._period == "week":
            ends = ends - _WEEK_SHIFT
        first, end = ends.astype(np.int64).tolist()
        text = str(ends[0].astype({"h": "M8[m]", "M": "M8[M]"}.get(unit, "M8[D]"))).replace("T", " ")
        return Group({**values, self._period: text}, (first, end))


class GroupOptions(TableOptions, total=False):
    """Options of every report: see :func:`~monitor.reports.evaluation.evaluate.evaluate_scores`."""

    measures: Mapping[str, Measure]
    minimum: Minimum


def report_groups(
    by: tuple[str, ...],
    groups: Iterable[tuple[Group, ScoredRows, float]],
    *,
    progress: StageProgress = no_progress,
    **options: Unpack[GroupOptions],
) -> GroupReports:
    """Report on each combination of values.

    Parameters
    ----------
    by
        The columns and spans of time that divide the rows.
    groups
        Each combination with its rows, and the share of all that is done before it.
    progress
        Called with the current group and that share.
    """

    def reports() -> Iterator[tuple[Group, Report]]:
        for group, rows, done in groups:
            progress(f"measuring {group.name}", done)
            yield group, evaluate_scores(rows, segment=group.name, **options)

    return GroupReports.of(by, reports())


def groups_of_rows(table: EventTable, grouping: Grouping) -> Iterator[tuple[Group, ScoredRows, float]]:
    """Divide the rows of a table; it has at least one."""
    codes = grouping.codes(table)
    outcome = outcomes_or_nan(table)
    order, cuts = grouped(*codes)
    for first, end in pairwise(cuts):
        rows = order[first:end]
        weight = None if table.weight is None else table.weight[rows]
        scored = ScoredRows.of_events(table.prediction[rows], outcome[rows], weight=weight)
        yield grouping.group([int(code[rows[0]]) for code in codes], table), scored, first / order.size


def groups_of_counts(
    counts: GroupCounts, table: EventTable, grouping: Grouping
) -> Iterator[tuple[Group, ScoredRows, float]]:
    """Name the combinations of rows that were counted on the grid; the columns of the table have all values."""
    all_codes = counts.codes().tolist()
    for number, (codes, cells) in enumerate(zip(all_codes, counts.tables(), strict=True)):
        yield grouping.group(codes, table), ScoredRows.of_cells(cells), number / len(all_codes)


def measure_columns(measures: Mapping[str, MeasureResult]) -> dict[str, float | None]:
    """Each measure with its interval, levels and bound: ``smce``, ``smce_lower``, ..."""
    columns: dict[str, float | None] = {}
    for name, result in measures.items():
        columns |= {name: result.value, **{f"{name}_{field}": getattr(result, field) for field in _RESULT}}
    return columns
