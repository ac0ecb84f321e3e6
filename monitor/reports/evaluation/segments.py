"""The segments of a file: which groups a model is miscalibrated for, and which of them only seem so."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from monitor.events.model import OTHER
from monitor.reports.evaluation.report import Report
from monitor.reports.evaluation.segment_columns import titles_of
from monitor.sources.tables import SegmentColumn

MAX_SEGMENT_VALUES: Final = 50
"""Values of a segment column that get a report of their own, the most frequent ones; the rest is ``other``."""

FALSE_DISCOVERY_RATE: Final = 0.05
"""Of the segments that are called miscalibrated, at most this share is expected to be so by chance alone."""


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """The report of one group, and what the number of groups makes of its p-value.

    Attributes
    ----------
    report
        Of the group's rows.
    p_value
        Of the hypothesis that the group is calibrated; None where there is too little data to say.
    q_value
        The smallest false-discovery rate at which the group would still be called miscalibrated.
    """

    report: Report
    p_value: float | None = None
    q_value: float | None = None

    @property
    def real(self) -> bool:
        """Whether it is miscalibrated beyond what the search among so many groups explains."""
        return self.q_value is not None and self.q_value <= FALSE_DISCOVERY_RATE

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {**self.report.to_dict(), "p_value": self.p_value, "q_value": self.q_value}


def rank_segments(reports: Iterable[Report]) -> tuple[SegmentReport, ...]:
    """Correct the p-values of groups for their number, and put the groups in order, worst first.

    Whoever looks at fifty calibrated groups finds two or three with p < .05. The correction is that of Benjamini and
    Hochberg ("Controlling the False Discovery Rate", 1995) over all groups of all columns that have a p-value. It holds
    for groups that share no rows, and for those of several columns that overlap, whose p-values depend on each other
    positively (Benjamini and Yekutieli, "The control of the false discovery rate in multiple testing under dependency",
    2001, theorem 1.2).

    The order is that of harm: first the groups that are called miscalibrated, by how much they are off for certain (the
    lower end of smCE's interval); then the others, by :func:`severity`; last those of which nothing can be said.
    """
    found = [SegmentReport(report, p_value(report)) for report in reports]
    tested = [each.p_value for each in found if each.p_value is not None]
    corrected = iter(stats.false_discovery_control(tested).tolist() if tested else ())
    return by_harm(replace(each, q_value=next(corrected)) if each.p_value is not None else each for each in found)


def by_harm(segments: Iterable[SegmentReport]) -> tuple[SegmentReport, ...]:
    """In the order of :func:`rank_segments`, worst first."""

    def harm(each: SegmentReport) -> tuple[bool, float, float, str]:
        result = each.report.measures.get("smce")
        certain = (result.lower or 0.0) if each.real and result is not None else 0.0
        # Names decide between equals, so that the order does not depend on the rows' order.
        return not each.real, -certain, -severity(each.report), each.report.segment

    return tuple(sorted(segments, key=harm))


def p_value(report: Report) -> float | None:
    """The one p-value of a report: that of its tests combined, or of smCE where they were not made."""
    if report.diagnosis is not None and report.diagnosis.p_value is not None:
        return report.diagnosis.p_value
    result = report.measures.get("smce")
    return None if result is None else result.p_value


def severity(report: Report) -> float:
    """How bad a report is, for putting reports in order: its smCE in units of what a calibrated model would show.

    The value over the 95% point under perfect calibration on the same predictions, so that a small segment is not
    called worst for its noise; above 1 is beyond chance. The value itself where levels were left out; -1 where there
    is no value. Without smCE, the first measure of the report counts.
    """
    result = report.measures.get("smce") or next(iter(report.measures.values()), None)
    if result is None:
        return -1.0
    if result.null_q95 is None:
        return result.value
    return result.value / result.null_q95 if result.null_q95 > 0.0 else inf if result.value > 0.0 else 0.0


def segments_of(columns: Mapping[str, SegmentColumn]) -> Sequence[tuple[str, NDArray[np.intp]]]:
    """Every segment's name, such as ``column=value``, and the rows that belong to it, ascending."""
    return [
        (name, rows)
        for key, column in columns.items()
        for name, rows in _by_name(f"{key}={OTHER}", titles_of(key, column), column)
    ]


def _by_name(other: str, names: Sequence[str], column: SegmentColumn) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The rows of each value, by its segment's name; those beyond the most frequent ones together as ``other``."""
    order = np.argsort(column.codes, kind="stable")
    bounds = np.searchsorted(column.codes[order], np.arange(len(column.values) + 1))
    rows = {value: order[bounds[code] : bounds[code + 1]] for code, value in enumerate(names)}
    by_size = sorted(rows, key=lambda value: (-rows[value].size, value))
    if len(by_size) <= MAX_SEGMENT_VALUES:
        yield from rows.items()
        return
    kept = [value for value in by_size if value != other][:MAX_SEGMENT_VALUES]
    for value in kept:
        yield value, rows.pop(value)
    yield other, np.sort(np.concatenate(list(rows.values())))
