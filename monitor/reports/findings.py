"""Read and measure what a report is about, whatever form it is shown in."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from monitor.classes import CLASS_MEASURES
from monitor.errors import InputError, NotEnoughData, OptionError
from monitor.events.model import ALL, UNVERSIONED
from monitor.local import LocalMap
from monitor.local.calibration import confidence_and_hit
from monitor.measures import MAIN_MEASURES, MEASURES, REPORT_MEASURES, WINDOW_MEASURES
from monitor.measures.base import Measure
from monitor.options import TOLERANCE, Option
from monitor.progress import StageProgress
from monitor.reports.diagrams.document import diagrams_document
from monitor.reports.evaluation.assess import FILE_MINIMUM, WINDOW_DRAWS, Minimum
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.compare import ReportComparison, compare_tables
from monitor.reports.evaluation.counting import CountedRows, GroupCounts, count_rows
from monitor.reports.evaluation.evaluate import ScoredRows, evaluate_classes, require_weighable
from monitor.reports.evaluation.files import FileReport, model_of, outcomes_or_nan, report_scores, report_table
from monitor.reports.evaluation.groups import (
    PERIODS,
    Grouping,
    GroupReports,
    groups_of_counts,
    groups_of_rows,
    report_groups,
)
from monitor.reports.evaluation.inputs import Measures, Resampling, measures_by_name
from monitor.reports.evaluation.local import LocalReport, evaluate_local, plane_of
from monitor.reports.evaluation.report import Report
from monitor.reports.evaluation.segments import ranges_of, segment_columns, segments_of
from monitor.reports.evaluation.spans import SPAN_MEASURES, Spans, spans_of
from monitor.reports.progress import rows_progress, stages_progress
from monitor.scores import ClassTable, ScoreTable
from monitor.scores.table import relative_weights
from monitor.sources.formats import TableFile, open_table
from monitor.sources.tables import Columns, EventTable, SegmentColumn, TableReading, open_reading

_Result = TypeVar("_Result")

MEMORY_GB: Final = 1.5
"""Memory up to which a report on files measures raw rows: some 5 million of them."""

_COUNTS_BYTES: Final = 256e6
"""Memory for the counts of segments, however little there is for raw rows."""

MAX_GROUPS: Final = 8
"""Segments or classes whose diagrams a page holds, some 10 kB each."""


class ReportOptions(NamedTuple):
    """Options of a report: its data, and how it is made. With the default seed the same file gives the same report."""

    file: Path | TableFile = Path()
    columns: Columns = Columns()
    measures: Sequence[str] | Mapping[str, Measure] = ()
    """Names; callers in Python may pass measures of their own by name. The usual ones if empty."""
    resampling: Resampling = Resampling(seed=0)
    tolerance: float = TOLERANCE
    minimum: Minimum = FILE_MINIMUM
    find_segments: bool = False
    by: Sequence[str] = ()
    compare: Path | TableFile | None = None
    compare_prediction: str | None = None
    all: bool = False
    models: Sequence[str] = ()
    version: str = UNVERSIONED
    segment: str = ALL
    memory: float | None = None
    """Gigabytes up to which raw rows are measured, and their counts on the grid beyond; any number if None."""

    @property
    def model(self) -> str:
        """What the report is about."""
        return self.models[0] if self.models else model_of(str(self.file))

    @property
    def is_of_table(self) -> bool:
        """Whether an option says that the file is a table."""
        return any(self.columns) or self.find_segments

    @property
    def is_of_classes(self) -> bool:
        """Whether two columns are two classes, as a measure of many classes is named; else P(y = 0) and P(y = 1)."""
        return any(name in CLASS_MEASURES and name not in MEASURES for name in self.measures)

    @property
    def evaluation(self) -> dict[str, Any]:
        """What every report on one table is made with."""
        names = {"model": self.model, "version": self.version, "segment": self.segment}
        return {**names, "minimum": self.minimum, "tolerance": self.tolerance, **self.resampling.arguments}

    @property
    def binary_measures(self) -> Mapping[str, Measure]:
        """The chosen measures of P(y = 1)."""
        if isinstance(self.measures, Mapping):
            return self.measures
        return {name: MEASURES[name] for name in self.measures if name in MEASURES}

    def check(self) -> None:
        """Raise InputError where options exclude each other, or a measure does not exist."""
        segmented = {
            Option.SEGMENT: self.columns.segments,
            Option.FIND_SEGMENTS: self.find_segments,
            Option.FEATURE: self.columns.features,
        }
        comparing = {Option.ID: self.columns.id, Option.COMPARE_PREDICTION: self.compare_prediction}
        if self.compare is not None:
            for option in (option for option, value in segmented.items() if value):
                raise OptionError(option, f" and {Option.COMPARE} do not go together; make one report for each")
        else:
            for option in (option for option, value in comparing.items() if value is not None):
                raise OptionError(option, f" is of use only where two files are compared; add {Option.COMPARE} OTHER")
        self.resampling.check()
        if self.columns.weight is not None:
            require_weighable(self.binary_measures)
        for option in (option for option, value in {**segmented, Option.COMPARE: self.compare}.items() if value):
            if self.by:
                raise OptionError(
                    option,
                    f" and {Option.BY} do not go together: {Option.BY} makes a report of each value, also of several "
                    "columns if it is repeated",
                )
        names = {**MEASURES, **CLASS_MEASURES}
        for name in () if isinstance(self.measures, Mapping) else self.measures:
            if name not in names:
                near = difflib.get_close_matches(name.lower(), names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"measures are {', '.join(names)}"
                raise OptionError(Option.MEASURE, f": there is no measure {name!r}; {hint}")


def chosen_measures(measures: Measures | None) -> Mapping[str, Measure] | tuple[str, ...]:
    """Choose the measures of a report; names stay as they are where one is of many classes."""
    if measures is None:
        return ()
    if isinstance(measures, Iterable) and not isinstance(measures, Mapping):
        measures = (measures,) if isinstance(measures, str) else tuple(measures)
        if all(isinstance(name, str) for name in measures):
            ReportOptions(measures=measures).check()
            if any(name in CLASS_MEASURES for name in measures):
                return measures
    return measures_by_name(measures)


class Plane(NamedTuple):
    """A map of local errors, and the features that it is over."""

    map: LocalMap
    x: str
    y: str


@dataclass(frozen=True, slots=True)
class PictureData:
    """What only pictures show.

    Attributes
    ----------
    spans
        Reports on spans of time, where the rows have times.
    classes
        Vectors and outcomes of many classes.
    plane
        Local errors over the first two features that are numbers.
    groups
        Predictions and outcomes of the worst segments, or of each class against the rest, by name; not of all where
        there are many.
    missing
        Pictures that cannot be drawn from these data, and why.
    """

    spans: Spans | None = None
    classes: ClassTable | None = None
    plane: Plane | None = None
    groups: Mapping[str, ScoreTable] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """The report on a table, or the comparison of two.

    Attributes
    ----------
    name
        What the report is about.
    scores
        What figures are drawn from: predictions and outcomes, of many classes those of the top label.
    result
        The report of predictions P(y = 1), the report of predictions of many classes, or the comparison of two files.
    notes, cautions
        What was assumed, and what to mind.
    class_names
        Names of the classes, of many.
    local
        Local calibration over the named features.
    pictures
        What only pictures show; empty unless they are drawn.
    shows_all
        Whether people are shown every measure, or the main ones.
    other
        Of a comparison: ``scores`` of the first of the two.
    on_grid
        Whether rows were counted on the grid, because there are more than fit into memory: values then differ from
        those of raw rows by at most their error bounds.
    """

    name: str
    scores: ScoreTable
    result: FileReport | ClassReport | ReportComparison
    notes: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    local: LocalReport | None = None
    pictures: PictureData = PictureData()
    shows_all: bool = True
    other: ScoreTable | None = None
    on_grid: bool = False

    @property
    def report(self) -> Report:
        """The report on ``scores``: of two files that of the second, of many classes that of the most probable one."""
        if isinstance(self.result, FileReport):
            return self.result.whole
        return self.result.top_label if isinstance(self.result, ClassReport) else self.result.second

    @property
    def reports(self) -> list[Report]:
        """The reports of all rows: of two files both."""
        return [self.result.first, self.report] if isinstance(self.result, ReportComparison) else [self.report]

    def shown(self, results: Mapping[str, _Result]) -> dict[str, _Result]:
        """Select the results, by names of measures, that people are shown."""
        main = {name: result for name, result in results.items() if name in MAIN_MEASURES}
        # A table of few measures is shown whole, and so is one that has none of the main ones.
        return main if main and not self.shows_all else dict(results)

    def to_dict(self) -> dict[str, Any]:
        """The report as REST answers it, with segments, local calibration and notes."""
        tree = self.result.to_dict()
        if isinstance(self.result, ClassReport):
            tree["class_names"] = list(self.class_names)
        if self.local is not None:
            tree["local"] = self.local.to_dict()
        return {**tree, "measured_on": "grid" if self.on_grid else "rows", "notes": [*self.notes, *self.cautions]}

    def diagrams(self) -> dict[str, Any] | None:
        """What the diagrams of ``scores`` show, as JSON; None where no prediction has an outcome."""
        return diagrams_document(self.scores) if self.scores.counts.any() else None


def measure_files(options: ReportOptions, *, pictures: bool = False) -> Findings:
    """Read one file or two, and measure; with ``pictures`` also what only those show.

    Raises
    ------
    InputError
        A file cannot be read, or does not have what the options need.
    """
    rows = read_within_memory(options)
    other = None
    if options.compare is not None:
        columns = options.columns
        if options.compare_prediction is not None:
            columns = columns._replace(prediction=(options.compare_prediction,))
        other = read_columns(options, options.compare, columns)
    with stages_progress() as progress:
        findings = measure_rows(options, rows, other, progress)
        return add_picture_data(findings, options, rows, progress) if pictures else findings


def read_within_memory(options: ReportOptions) -> EventTable | CountedRows:
    """Read the columns of the file: all rows, or their counts on the grid if they do not fit into memory.

    Raises
    ------
    InputError
        The file cannot be read, a column does not exist, or more rows than fit into memory are to be compared,
        searched or weighed.
    """
    with _open_columns(options, options.file, options.columns) as (reading, count):
        if options.memory is None:
            (table,) = reading.tables(count)
            return table
        memory = options.memory * 1e9
        tables = reading.tables(count, max_rows=reading.max_rows(memory))
        first = next(tables)
        if not reading.is_large:
            return first
        if options.compare is not None:
            raise InputError(
                f"{options.file}: {Option.COMPARE} needs all rows at once, and {Option.MEMORY} has no room for them: "
                f"choose fewer rows with {Option.WHERE}, or give more {Option.MEMORY}"
            )
        room = max(memory / 2.0, _COUNTS_BYTES)
        return count_rows(chain([first], tables), reading.lines, options.columns.segments, room)


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """Reports by columns and spans of time.

    Attributes
    ----------
    name
        What the reports are about.
    result
        The reports.
    notes, cautions
        What was assumed, and what to mind.
    on_grid
        Whether rows were counted on the grid: see :class:`Findings`.
    """

    name: str
    result: GroupReports
    notes: tuple[str, ...]
    cautions: tuple[str, ...]
    on_grid: bool

    def to_dict(self) -> dict[str, Any]:
        """The reports as JSON shows them."""
        return {
            **self.result.to_dict(),
            "measured_on": "grid" if self.on_grid else "rows",
            "notes": [*self.notes, *self.cautions],
        }


def measure_groups(options: ReportOptions, progress: StageProgress | None = None) -> GroupFindings:
    """Read a file once, and report on each combination of values of ``options.by``; show a bar without ``progress``.

    Raises
    ------
    InputError
        The file cannot be read, a column does not exist, there are no times for a span of time, predictions are of many
        classes, or there are too many combinations.
    """
    table = options.file if isinstance(options.file, TableFile) else open_table(options.file)
    known = table.names()
    columns = [name for name in options.by if name in known or name not in PERIODS]
    grouping = Grouping(options.by, columns)
    memory = inf if options.memory is None else options.memory * 1e9
    counts = GroupCounts(f"{Option.BY} {' and '.join(options.by)}", max(memory / 2.0, _COUNTS_BYTES))
    evaluation = {
        **options.evaluation,
        "draws": options.resampling.draws_or(WINDOW_DRAWS),
        "measures": options.binary_measures or WINDOW_MEASURES,
        "minimum": Minimum(),
    }
    del evaluation["segment"]
    with _open_columns(options, table, options.columns._replace(segments=columns)) as (reading, count):
        tables = reading.tables(count, max_rows=None if options.memory is None else reading.max_rows(memory))
        rows = next(tables)
        if rows.classes:
            _refuse_for_classes(options)
        if reading.is_large:
            counts.add(rows, grouping.codes(rows))
            for rows in tables:
                counts.add(rows, grouping.codes(rows))
    _refuse_class_measures(options)
    with stages_progress() if progress is None else nullcontext(progress) as shown:
        if not reading.is_large:
            reports = report_groups(grouping.by, groups_of_rows(rows, grouping), progress=shown, **evaluation)
            return GroupFindings(options.model, reports, rows.notes, rows.cautions, on_grid=False)
        groups = groups_of_counts(counts, rows, grouping)
        reports = report_groups(grouping.by, groups, progress=shown, **evaluation)
    notes, cautions = reading.lines()
    return GroupFindings(options.model, reports, (*notes, _grid_note(counts.rows)), tuple(cautions), on_grid=True)


def measure_rows(
    options: ReportOptions, rows: EventTable | CountedRows, other: EventTable | None, progress: StageProgress
) -> Findings:
    """Measure raw rows, or compare them with others; or measure counted ones.

    Raises
    ------
    InputError
        The rows do not have what the options need.
    """
    if isinstance(rows, CountedRows):
        return _measure_counts(options, rows, progress)
    return measure_table(options, rows, other, progress)


def _grid_note(rows: int) -> str:
    return (
        f"{rows:,} rows do not fit into {Option.MEMORY}, so they were counted on the grid: a value differs from that "
        "of the raw rows by at most its error bound"
    )


def _measure_counts(options: ReportOptions, rows: CountedRows, progress: StageProgress) -> Findings:
    """Measure counted rows, with what pictures of them show."""
    _refuse_class_measures(options)
    report = report_scores(
        ScoredRows.of_cells(rows.whole, rows.span_ms),
        ((name, ScoredRows.of_cells(cells, rows.span_ms)) for name, cells in rows.segments),
        measures=options.binary_measures or None,
        progress=progress,
        **options.evaluation,
    )
    worst = [segment.report.segment for segment in report.segments if segment.q_value is not None][:MAX_GROUPS]
    groups = dict(rows.segments)
    pictures = PictureData(
        groups={name: groups[name].to_scores() for name in worst},
        missing=("nothing is shown over time, which takes raw rows",) if rows.span_ms is not None else (),
    )
    return Findings(
        options.model,
        rows.whole.to_scores(),
        report,
        (*rows.notes, _grid_note(rows.whole.predictions)),
        rows.cautions,
        pictures=pictures,
        shows_all=options.all or bool(options.measures),
        on_grid=True,
    )


def measure_table(
    options: ReportOptions, table: EventTable, other: EventTable | None, progress: StageProgress
) -> Findings:
    """Measure a table, or compare it with another.

    Raises
    ------
    InputError
        The tables do not have what the options need.
    """
    if table.classes:
        _refuse_for_classes(options)
    else:
        _refuse_class_measures(options)
    if other is not None:
        findings = _compare(options, table, other, progress)
    else:
        findings = (_measure_classes if table.classes else _measure_binary)(options, table, progress)
    # Measures that are named are all shown.
    return replace(findings, shows_all=options.all or bool(options.measures))


def add_picture_data(
    findings: Findings, options: ReportOptions, table: EventTable | CountedRows, progress: StageProgress
) -> Findings:
    """Measure what only pictures show: spans of time, vectors of classes, errors over two features."""
    if isinstance(findings.result, ReportComparison) or isinstance(table, CountedRows):
        return findings
    missing: list[str] = []
    spans = plane = None
    try:
        spans = _spans(options, table, progress)
    except NotEnoughData as error:
        missing.append(f"nothing is shown over time: {error}")
    try:
        plane = _plane(options, table, progress)
    except NotEnoughData as error:
        missing.append(f"no map of the features: {error}")
    classes = _labelled_vectors(table) if table.classes else None
    groups = _groups(findings.result, options, table)
    return replace(findings, pictures=PictureData(spans, classes, plane, groups, tuple(missing)))


def read_columns(options: ReportOptions, file: Path | TableFile, columns: Columns) -> EventTable:
    """Read the columns of a file.

    Raises
    ------
    InputError
        The file cannot be read, or a column does not exist.
    """
    with _open_columns(options, file, columns) as (reading, count):
        (table,) = reading.tables(count)
        return table


@contextmanager
def _open_columns(
    options: ReportOptions, file: Path | TableFile, columns: Columns
) -> Iterator[tuple[TableReading, Callable[[int], None]]]:
    """Open the columns of a file; also a function that shows the number of rows read."""
    with rows_progress(f"reading {Path(file.name).name}") as count:
        reading = open_reading(
            file,
            columns._replace(features=()),
            values=columns.features,
            # Named segments are the columns to search.
            other_values=options.find_segments and not columns.segments,
            of_classes=options.is_of_classes,
        )
        yield reading, lambda rows: count(rows, reading.share)


def _refuse_class_measures(options: ReportOptions) -> None:
    if unfit := [name for name in options.measures if name in CLASS_MEASURES and name not in MEASURES]:
        raise OptionError(
            Option.MEASURE, f" {unfit[0]} is of many classes; name the column of each with {Option.PREDICTION}"
        )


def _refuse_for_classes(options: ReportOptions) -> None:
    refused = {
        Option.BY: options.by,
        Option.SEGMENT: options.columns.segments,
        Option.FIND_SEGMENTS: options.find_segments,
        Option.WEIGHT: options.columns.weight,
        Option.COMPARE: options.compare,
    }
    for option in (option for option, value in refused.items() if value):
        raise OptionError(
            option,
            " is for predictions P(y = 1), and these are of many classes; name the one column of the class in question "
            f"with {Option.PREDICTION}, and an outcome of 0 and 1 with {Option.OUTCOME}",
        )


def _measure_binary(options: ReportOptions, table: EventTable, progress: StageProgress) -> Findings:
    report = report_table(
        table,
        segments=options.columns.segments,
        searched=_searched(table) if options.find_segments else None,
        measures=options.binary_measures or None,
        progress=progress,
        **options.evaluation,
    )
    local = _local(options, table, progress)
    return Findings(options.model, _scores(table), report, table.notes, table.cautions, local=local)


def _searched(table: EventTable) -> dict[str, SegmentColumn]:
    """Choose the columns to search for segments: the named ones, or all that have no other role."""
    if table.segments:
        return segment_columns(table.segments)
    return {
        name: column if isinstance(column, SegmentColumn) else ranges_of(name, column)
        for name, column in table.values.items()
    }


def _compare(options: ReportOptions, first: EventTable, second: EventTable, progress: StageProgress) -> Findings:
    names = _names(options)
    comparison = compare_tables(
        first,
        second,
        names=names,
        measures=options.binary_measures or REPORT_MEASURES,
        progress=progress,
        tolerance=options.tolerance,
        **options.resampling.arguments,
    )
    # What holds for both files is printed once.
    of_files = (
        f"{name}: {caution}" for name, table in zip(names, (first, second), strict=True) for caution in table.cautions
    )
    cautions = dict.fromkeys((*comparison.cautions, *of_files))
    notes = dict.fromkeys((*first.notes, *second.notes, comparison.note))
    return Findings(names[1], _scores(second), comparison, tuple(notes), tuple(cautions), other=_scores(first))


def _measure_classes(options: ReportOptions, table: EventTable, progress: StageProgress) -> Findings:
    chosen: dict[str, Any] = {}
    if isinstance(options.measures, Mapping):
        chosen = {"measures": options.measures}
    elif options.measures:
        chosen = {
            "class_measures": {name: CLASS_MEASURES[name] for name in options.measures if name in CLASS_MEASURES},
            # The top label has the chosen measures of P(y = 1), and each class too.
            "measures": options.binary_measures or REPORT_MEASURES,
            "each_class": options.binary_measures,
        }
    report = evaluate_classes(
        table.prediction,
        outcomes_or_nan(table),
        time_ms=table.time_ms,
        class_names=table.classes,
        progress=lambda share: progress("measuring", share),
        **chosen,
        **options.evaluation,
    )
    vectors = _labelled_vectors(table)
    scores = ScoreTable.from_events([], []) if vectors is None else vectors.top_label()
    local = _local(options, table, progress)
    return Findings(options.model, scores, report, table.notes, table.cautions, table.classes, local)


def _labelled_vectors(table: EventTable) -> ClassTable | None:
    labelled = table.outcome >= 0
    return ClassTable.from_events(table.prediction[labelled], table.outcome[labelled]) if labelled.any() else None


def _local(options: ReportOptions, table: EventTable, progress: StageProgress) -> LocalReport | None:
    if not options.columns.features:
        return None
    progress("measuring local calibration", 0.0)
    columns = {name: table.values[name] for name in options.columns.features}
    return evaluate_local(table.prediction, outcomes_or_nan(table), columns, **options.resampling.arguments)


def _spans(options: ReportOptions, table: EventTable, progress: StageProgress) -> Spans | None:
    """Reports on spans of time; of many classes, of the top label."""
    if table.time_ms is None:
        return None
    labelled = table.outcome >= 0
    prediction, outcome = confidence_and_hit(table.prediction[labelled], table.outcome[labelled])
    return spans_of(
        prediction,
        outcome,
        table.time_ms[labelled],
        weight=None if table.weight is None else table.weight[labelled],
        measures=options.binary_measures or SPAN_MEASURES,
        draws=min(options.resampling.draws_or(WINDOW_DRAWS), WINDOW_DRAWS),
        seed=options.resampling.seed,
        progress=lambda share: progress("measuring over time", share),
    )


def _plane(options: ReportOptions, table: EventTable, progress: StageProgress) -> Plane | None:
    """Map local errors over the first two features that are numbers."""
    names = [name for name in options.columns.features if isinstance(table.values[name], np.ndarray)][:2]
    if len(names) < 2:
        return None
    progress("mapping the first two features", 0.0)
    pair = np.column_stack([np.asarray(table.values[name]) for name in names])
    complete = ~np.isnan(pair).any(axis=1)
    outcome = outcomes_or_nan(table)
    local_map = plane_of(
        table.prediction[complete], outcome[complete], pair[complete], seed=options.resampling.seed or 0
    )
    return Plane(local_map, *names)


def _scores(table: EventTable, rows: NDArray[np.intp] | None = None) -> ScoreTable:
    """Predictions with an outcome, of all rows or of some."""
    labelled = np.flatnonzero(table.outcome >= 0) if rows is None else rows[table.outcome[rows] >= 0]
    weight = None if table.weight is None else relative_weights(table.weight[labelled])
    return ScoreTable.from_events(table.prediction[labelled], table.outcome[labelled].astype(np.float64), weight)


def _groups(result: FileReport | ClassReport, options: ReportOptions, table: EventTable) -> dict[str, ScoreTable]:
    if isinstance(result, ClassReport):
        labelled = np.flatnonzero(table.outcome >= 0)
        return {
            name: ScoreTable.from_events(
                table.prediction[labelled, place], (table.outcome[labelled] == place).astype(np.float64)
            )
            for place, name in enumerate(table.classes[:MAX_GROUPS])
        }
    worst = [segment.report.segment for segment in result.segments if segment.q_value is not None][:MAX_GROUPS]
    rows = dict(segments_of(segment_columns(table.segments, options.columns.segments))) if worst else {}
    return {name: _scores(table, rows[name]) for name in worst}


def _names(options: ReportOptions) -> tuple[str, str]:
    """Name two files, or two columns of one."""
    if options.models:
        return options.models[0], options.models[1]
    first, second = (Path(str(file)) for file in (options.file, options.compare or options.file))
    if options.compare_prediction is not None and first.resolve() == second.resolve():
        return (options.columns.prediction[0] if options.columns.prediction else "first"), options.compare_prediction
    # The shortest names that differ.
    for short in (model_of, lambda path: path.name, str):
        if short(first) != short(second):
            return short(first), short(second)
    return f"{first} (first)", f"{second} (second)"
