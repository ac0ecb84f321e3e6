"""Reports of a file: the whole of it, and each segment's."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from monitor.evaluation.assess import GIVEN, Minimum
from monitor.evaluation.data import evaluate
from monitor.evaluation.report import Report
from monitor.evaluation.uncertainty import DRAWS
from monitor.events.model import OTHER, UNVERSIONED
from monitor.measures import REPORT_MEASURES
from monitor.measures.base import Measure
from monitor.sources.formats import open_bytes
from monitor.sources.tables import EventTable, SegmentColumn, read_table

MAX_SEGMENT_VALUES: Final = 50
"""Values of a segment column that get a report of their own, the most frequent ones; the rest is ``other``."""

_LINES_LOOKED_AT: Final = 100
_EVENT_TYPES: Final = frozenset({"prediction", "outcome", "labelled"})


@dataclass(frozen=True, slots=True)
class FileReport:
    """What a file says.

    Attributes
    ----------
    whole
        The report of all rows.
    segments
        One report a segment, worst first.
    notes
        What was assumed about the file, a line each, for people.
    """

    whole: Report
    segments: tuple[Report, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def reports(self) -> tuple[Report, ...]:
        """All of them: the whole file's first."""
        return (self.whole, *self.segments)


def report_file(
    path: str | Path,
    *,
    prediction: str | None = None,
    outcome: str | None = None,
    time: str | None = None,
    segments: Sequence[str] = (),
    model: str | None = None,
    version: str = UNVERSIONED,
    measures: Mapping[str, Measure] = REPORT_MEASURES,
    minimum: Minimum = GIVEN,
    draws: int = DRAWS,
    seed: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> FileReport:
    """Read a table of predictions and outcomes and report on it.

    Parameters
    ----------
    path, prediction, outcome, time, segments, progress
        See :func:`~monitor.sources.tables.read_table`.
    model
        What the report says it is about; the file's name without its ending if left out.
    version, measures, minimum, draws, seed
        See :func:`~monitor.evaluation.data.evaluate`.

    Raises
    ------
    InputError
        The file cannot be read, or its values are wrong.
    """
    table = read_table(path, prediction=prediction, outcome=outcome, time=time, segments=segments, progress=progress)
    name = Path(path).name.split(".")[0] if model is None else model
    return report_table(table, model=name, version=version, measures=measures, minimum=minimum, draws=draws, seed=seed)


def report_table(
    table: EventTable,
    *,
    model: str,
    version: str = UNVERSIONED,
    measures: Mapping[str, Measure] = REPORT_MEASURES,
    minimum: Minimum = GIVEN,
    draws: int = DRAWS,
    seed: int | None = None,
) -> FileReport:
    """Report on a table that was read: on all rows, and on each value of its segment columns.

    Segments come worst first, see :func:`severity`.
    """

    def report(rows: NDArray[np.intp] | slice, segment: str | None = None) -> Report:
        outcome = table.outcome[rows].astype(np.float64)
        outcome[outcome < 0.0] = np.nan
        return evaluate(
            table.prediction[rows],
            outcome,
            time_ms=None if table.time_ms is None else table.time_ms[rows],
            measures=measures,
            minimum=minimum,
            draws=draws,
            seed=seed,
            model=model,
            version=version,
            **({} if segment is None else {"segment": segment}),
        )

    reports = [
        report(rows, f"{key}={value}") for key, column in table.segments.items() for value, rows in _by_value(column)
    ]
    # Names decide between equals, so that the order does not depend on the rows' order.
    worst_first = sorted(reports, key=lambda each: (-severity(each), each.segment))
    return FileReport(whole=report(slice(None)), segments=tuple(worst_first), notes=table.notes)


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


def looks_like_event_log(path: str | Path) -> bool:
    """Whether a file of JSON lines holds events of the service rather than the rows of a table.

    Events name their model and their id; their type too, unless they stand in a topic of one kind, where a prediction
    has no outcome beside it. An object with both prediction and outcome and no type is a row of a table. Most of the
    first lines decide, because a log may hold lines that are no events. Any other kind of file is no log.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    file = Path(path)
    if not file.name.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson", ".json")):
        return False
    verdicts = [_is_event(each) for each in islice(_objects(file), _LINES_LOOKED_AT)]
    return 2 * sum(verdicts) > len(verdicts)


def _is_event(each: dict[str, Any]) -> bool:
    if "specversion" in each:  # a CloudEvent in structured mode
        return True
    if not {"model", "id"} <= each.keys():
        return False
    return each["type"] in _EVENT_TYPES if "type" in each else ("p" in each) != ("y" in each)


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with open_bytes(path) as file:
        for line in file:
            try:
                yield decode(line)
            except msgspec.DecodeError:
                # A log may hold what is no event; a table may not, and its reader says in which line.
                continue


def _by_value(column: SegmentColumn) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The rows of each value; those beyond the most frequent ones together as ``other``."""
    order = np.argsort(column.codes, kind="stable")
    bounds = np.searchsorted(column.codes[order], np.arange(len(column.values) + 1))
    rows = {value: order[bounds[code] : bounds[code + 1]] for code, value in enumerate(column.values)}
    by_size = sorted(rows, key=lambda value: (-rows[value].size, value))
    if len(by_size) <= MAX_SEGMENT_VALUES:
        yield from rows.items()
        return
    kept = [value for value in by_size if value != OTHER][:MAX_SEGMENT_VALUES]
    for value in kept:
        yield value, rows.pop(value)
    yield OTHER, np.concatenate(list(rows.values()))
