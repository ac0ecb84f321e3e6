"""Reports of a file: the whole of it, and each segment's."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypedDict, Unpack

import msgspec
import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats
from monitor.events.model import ALL
from monitor.measures import REPORT_MEASURES, WINDOW_MEASURES
from monitor.measures.base import Measure
from monitor.progress import StageProgress, no_progress
from monitor.reports.evaluation.assess import FILE_MINIMUM, Minimum
from monitor.reports.evaluation.evaluate import ScoredRows, evaluate_scores
from monitor.reports.evaluation.report import Report
from monitor.reports.evaluation.segment_search import find_segments
from monitor.reports.evaluation.segments import (
    FALSE_DISCOVERY_RATE,
    SegmentReport,
    by_harm,
    p_value,
    rank_segments,
    segment_columns,
    segments_of,
)
from monitor.sources.stored_files import CATALOG, open_bytes
from monitor.sources.tables import EventTable, SegmentColumn

_MAX_INSPECTED_LINES: Final = 100
_EVENT_TYPES: Final = frozenset({"prediction", "outcome", "labelled"})


@dataclass(frozen=True, slots=True)
class FileReport:
    """The reports of a file.

    Attributes
    ----------
    whole
        The report of all rows.
    segments
        One report for each segment, worst first.
    search
        The result of a search for segments, if there was one.
    """

    whole: Report
    segments: tuple[SegmentReport, ...] = ()
    search: "SearchReport | None" = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        tree = self.whole.to_dict()
        if self.segments:
            tree["segments"] = [segment.to_dict() for segment in self.segments]
        if self.search is not None:
            tree["found_segments"] = self.search.to_dict()
        return tree


@dataclass(frozen=True, slots=True)
class SearchReport:
    """The result of a search for segments.

    Attributes
    ----------
    columns
        Columns searched, alone and in pairs.
    groups
        Number of groups tested.
    segments
        Segments that are miscalibrated, and differ from the whole, worst first.
    closest
        Name and q-value of the most significant group that was not named.
    """

    columns: tuple[str, ...]
    groups: int
    segments: tuple[SegmentReport, ...]
    closest: tuple[str, float] | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "columns": list(self.columns),
            "groups": self.groups,
            "segments": [segment.to_dict() for segment in self.segments],
            "closest": None if self.closest is None else {"segment": self.closest[0], "q_value": self.closest[1]},
        }


def model_of(path: str | Path) -> str:
    """Return the default name of a model: its file's without the ending; of a pattern, that of its last folder."""
    if str(path).startswith(CATALOG):
        return str(path).rpartition(".")[2]
    name = Path(path).name
    if not Path(path).exists():
        parts = [part for part in Path(path).parts if not set("*?[") & set(part)]
        name = parts[-1] if parts else name
    return name.split(".")[0] or name


class TableOptions(TypedDict, total=False):
    """Options of every report on a table: see :func:`~monitor.reports.evaluation.evaluate.evaluate_scores`."""

    draws: int
    seed: int | None
    tolerance: float
    model: str
    version: str


def report_table(
    table: EventTable,
    *,
    segment: str = ALL,
    segments: Sequence[str] | None = None,
    searched: Mapping[str, SegmentColumn] | None = None,
    measures: Mapping[str, Measure] | None = None,
    minimum: Minimum = FILE_MINIMUM,
    progress: StageProgress = no_progress,
    **options: Unpack[TableOptions],
) -> FileReport:
    """Report on all rows of a table, and on each value of its segment columns.

    Segments come worst first, see :func:`~monitor.reports.evaluation.segments.rank_segments`.

    Parameters
    ----------
    segment
        Name of all rows in their report.
    segments
        Columns, or several that are crossed as ``a*b``; all segment columns of the table if left out. Numbers are put
        into ranges, see :func:`~monitor.reports.evaluation.segments.segment_columns`.
    searched
        Columns to search for segments, see :func:`~monitor.reports.evaluation.segment_search.find_segments`.
    measures
        Measures by name. If left out, those of a report for the whole, and those of a window for each segment.
    minimum
        How much data the whole needs. Users judge the size of a file themselves, but not that of its many groups: each
        needs as much as a window.
    progress
        Called with the current step and the share of it that is done.
    """
    outcome = outcomes_or_nan(table)

    def scored(rows: NDArray[np.intp] | slice) -> ScoredRows:
        return ScoredRows.of_events(
            table.prediction[rows],
            outcome[rows],
            weight=None if table.weight is None else table.weight[rows],
            time_ms=None if table.time_ms is None else table.time_ms[rows],
        )

    groups = segments_of(segment_columns(table.segments, segments))
    result = report_scores(
        scored(slice(None)),
        ((name, scored(rows)) for name, rows in groups),
        segment=segment,
        measures=measures,
        minimum=minimum,
        progress=progress,
        **options,
    )
    if searched is None:
        return result
    found = find_segments(
        table.prediction,
        outcome,
        searched,
        weight=table.weight,
        progress=lambda share: progress("searching segments", share),
    )
    reports = (
        SegmentReport(
            evaluate_scores(
                scored(group.rows),
                measures=WINDOW_MEASURES if measures is None else measures,
                progress=partial(progress, f"measuring {group.name}"),
                segment=group.name,
                **options,
            ),
            group.p_value,
            group.q_value,
        )
        for group in found.segments
    )
    # A calibrated group of a miscalibrated whole differs from the whole, but it is no fault.
    wrong = by_harm(group for group in reports if (p_value(group.report) or 0.0) <= FALSE_DISCOVERY_RATE)
    closest = None if found.closest is None else (found.closest.name, found.closest.q_value)
    return replace(result, search=SearchReport(found.columns, found.groups, wrong, closest))


def report_scores(
    whole: ScoredRows,
    segments: Iterable[tuple[str, ScoredRows]],
    *,
    segment: str = ALL,
    measures: Mapping[str, Measure] | None = None,
    minimum: Minimum = FILE_MINIMUM,
    progress: StageProgress = no_progress,
    **options: Unpack[TableOptions],
) -> FileReport:
    """Report on all rows, raw or counted, and on each of their segments, by name.

    Parameters
    ----------
    segment, measures, minimum, progress, options
        See :func:`report_table`.
    """
    report = evaluate_scores(
        whole,
        measures=REPORT_MEASURES if measures is None else measures,
        minimum=minimum,
        progress=partial(progress, "measuring"),
        segment=segment,
        **options,
    )
    reports = (
        evaluate_scores(
            rows,
            measures=WINDOW_MEASURES if measures is None else measures,
            minimum=Minimum(),
            progress=partial(progress, f"measuring {name}"),
            segment=name,
            **options,
        )
        for name, rows in segments
    )
    return FileReport(report, rank_segments(reports))


def outcomes_or_nan(table: EventTable) -> Floats:
    """Return 0, 1 (or the class), or nan where the outcome is unknown; shape (n,)."""
    return np.where(table.outcome < 0, np.nan, table.outcome)


def looks_like_event_log(path: str | Path) -> bool:
    """Return whether a file of JSON lines holds events of the service rather than the rows of a table.

    Events name their model and id; their type too, except in a topic of one type, where a prediction has no outcome
    beside it. An object with prediction, outcome and no type is a row of a table. The majority of the first lines
    decides, because a log may hold invalid lines. Any other kind of file is not a log.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    file = Path(path)
    if not file.name.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json")):
        return False
    verdicts = [_is_event(item) for item in islice(_objects(file), _MAX_INSPECTED_LINES)]
    return 2 * sum(verdicts) > len(verdicts)


def _is_event(item: dict[str, Any]) -> bool:
    if "specversion" in item:  # a CloudEvent in structured mode
        return True
    if not {"model", "id"} <= item.keys():
        return False
    return item["type"] in _EVENT_TYPES if "type" in item else ("p" in item) != ("y" in item)


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with open_bytes(path) as file:
        for line in file:
            try:
                yield decode(line)
            except msgspec.DecodeError:
                # A log may hold invalid lines; for a table, its reader reports the line.
                continue
