"""What `monitor report` finds in a table, whatever form it is to be shown in."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from monitor.classes import CLASS_MEASURES
from monitor.errors import InputError, NotEnoughData
from monitor.events.model import UNVERSIONED
from monitor.inference.prevalence import TOLERANCE
from monitor.local import LocalMap
from monitor.local.calibration import confidence_and_hit
from monitor.measures import MAIN_MEASURES, MEASURES, REPORT_MEASURES
from monitor.measures.base import Measure
from monitor.reports.evaluation.assess import GIVEN, WINDOW_DRAWS, Minimum
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.compare import Comparison, compare_tables
from monitor.reports.evaluation.evaluate import evaluate_classes
from monitor.reports.evaluation.files import FileReport, Progress, known_outcomes, model_of, report_table
from monitor.reports.evaluation.inputs import relative_weights
from monitor.reports.evaluation.local import LocalReport, evaluate_local, plane_of
from monitor.reports.evaluation.segments import ranges_of, segment_columns
from monitor.reports.evaluation.spans import SPAN_MEASURES, Spans, spans_of
from monitor.reports.progress import rows_progress, stages_progress
from monitor.scores import ClassTable, ScoreTable
from monitor.sources.memory import MemoryTable
from monitor.sources.tables import EventTable, SegmentColumn, read_table

_Result = TypeVar("_Result")

_SEED = 0
"""The same file gives the same report."""


class Wanted(NamedTuple):
    """What was asked for; a field is named as its option on the command line.

    Those after ``all`` are for callers in Python, who may have measures of their own, by name.
    """

    file: Path = Path()
    prediction: Sequence[str] = ()
    outcome: str | None = None
    time: str | None = None
    weight: str | None = None
    id: str | None = None
    segment: Sequence[str] = ()
    feature: Sequence[str] = ()
    measure: Sequence[str] | Mapping[str, Measure] = ()
    draws: int | None = None
    compare: Path | None = None
    compare_prediction: str | None = None
    positive: str | None = None
    logits: bool = False
    skip_bad_rows: bool = False
    find_segments: bool = False
    all: bool = False
    models: Sequence[str] = ()
    version: str = UNVERSIONED
    minimum: Minimum = GIVEN
    seed: int | None = _SEED
    tolerance: float = TOLERANCE

    @property
    def model(self) -> str:
        """What the report is about."""
        return self.models[0] if self.models else model_of(self.file)

    @property
    def is_of_table(self) -> bool:
        """Whether an option was given that only a table has: then the file is one."""
        columns = (self.prediction, self.outcome, self.time, self.weight, self.id, self.segment, self.feature)
        return any((*columns, self.positive, self.logits, self.skip_bad_rows, self.find_segments))

    def check(self) -> None:
        """Raise InputError where options do not go together, or a measure is not there."""
        if self.compare is not None:
            for option, given in (
                ("segment", self.segment),
                ("find-segments", self.find_segments),
                ("feature", self.feature),
            ):
                if given:
                    raise InputError(f"--{option} and --compare do not go together; make one report for each")
        else:
            for option, lone in (("id", self.id), ("compare-prediction", self.compare_prediction)):
                if lone is not None:
                    raise InputError(f"--{option} is of use only where two files are compared; add --compare OTHER")
        if self.draws is not None and 0 < self.draws < 19:
            raise InputError(f"--draws must be 0 or at least 19, got {self.draws}: with fewer, no p-value is below .05")
        known = {**MEASURES, **CLASS_MEASURES}
        for name in () if isinstance(self.measure, Mapping) else self.measure:
            if name not in known:
                near = difflib.get_close_matches(name.lower(), known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"measures are {', '.join(known)}"
                raise InputError(f"--measure: there is no measure {name!r}; {hint}")


class Plane(NamedTuple):
    """A map of local errors, and the features that it is over."""

    map: LocalMap
    x: str
    y: str


@dataclass(frozen=True, slots=True)
class Views:
    """What pictures alone are of; none of it where none was asked for.

    Attributes
    ----------
    spans
        The rows cut by time, where they have times.
    classes
        Vectors and outcomes of many classes.
    plane
        Local errors over the first two features that are numbers.
    missing
        Pictures that these data cannot have, and why, a line each.
    """

    spans: Spans | None = None
    classes: ClassTable | None = None
    plane: Plane | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """What a table says; the fields that were not asked for, or do not apply, are None.

    Attributes
    ----------
    name
        What the report is about.
    binary
        The report of predictions P(y = 1).
    comparison
        That of two files.
    many
        The report of predictions of many classes, whose names are ``class_names``.
    local
        Local calibration over the features that were named.
    scores
        What figures are of: the predictions and outcomes, of many classes those of the top label.
    notes
        What was assumed.
    cautions
        What to mind.
    views
        What pictures alone are of.
    shows_all
        Whether people are shown every measure, or the main ones.
    """

    name: str
    scores: ScoreTable
    notes: tuple[str, ...]
    cautions: tuple[str, ...]
    binary: FileReport | None = None
    comparison: Comparison | None = None
    many: ClassReport | None = None
    class_names: tuple[str, ...] = ()
    local: LocalReport | None = None
    views: Views = Views()
    shows_all: bool = True

    def shown(self, results: Mapping[str, _Result]) -> dict[str, _Result]:
        """Of results by the names of measures, those that people are shown."""
        main = {name: result for name, result in results.items() if name in MAIN_MEASURES}
        # A table of few measures is shown whole, and so is one that has none of the main ones.
        return main if main and not self.shows_all else dict(results)

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it: the report as REST answers it, and beside it what else was asked for."""
        tree: dict[str, Any] = {}
        if self.many is not None:
            tree = {**self.many.to_dict(), "class_names": list(self.class_names)}
        elif self.comparison is not None:
            tree = self.comparison.to_dict()
        elif self.binary is not None:
            tree = self.binary.whole.to_dict()
            if self.binary.segments:
                tree["segments"] = [each.to_dict() for each in self.binary.segments]
            if self.binary.search is not None:
                tree["found_segments"] = self.binary.search.to_dict()
        if self.local is not None:
            tree["local"] = self.local.to_dict()
        return {**tree, "notes": [*self.notes, *self.cautions]}


def find(wanted: Wanted, *, views: bool = False) -> Findings:
    """Read the file, or both, and measure.

    Parameters
    ----------
    wanted
        What was asked for.
    views
        Whether to find out what the pictures of a page are of, too.

    Raises
    ------
    InputError
        A file cannot be read, or what was asked for cannot be had of it.
    """
    table = read(wanted, wanted.file, wanted.prediction)
    other = None
    if wanted.compare is not None:
        second = (wanted.compare_prediction,) if wanted.compare_prediction is not None else wanted.prediction
        other = read(wanted, wanted.compare, second)
    with stages_progress() as progress:
        found = measure(wanted, table, other, progress)
        return with_views(found, wanted, table, progress) if views else found


def measure(wanted: Wanted, table: EventTable, other: EventTable | None, progress: Progress) -> Findings:
    """Measure a table, or compare it with another, however they were read.

    Raises
    ------
    InputError
        What was asked for cannot be had of it.
    """
    if table.classes:
        _refuse_for_classes(wanted)
    elif unfit := [name for name in wanted.measure if name in CLASS_MEASURES]:
        raise InputError(f"--measure {unfit[0]} is of many classes; name the column of each with --prediction")
    if other is not None:
        found = _of_two(wanted, table, other, progress)
    else:
        found = (_of_classes if table.classes else _of_one)(wanted, table, progress)
    # Who names measures wants to see those.
    return replace(found, shows_all=wanted.all or bool(wanted.measure))


def with_views(found: Findings, wanted: Wanted, table: EventTable, progress: Progress) -> Findings:
    """Add what the pictures of a page are of."""
    return found if found.comparison is not None else replace(found, views=_views(wanted, table, progress))


def read(wanted: Wanted, file: Path | MemoryTable, prediction: Sequence[str]) -> EventTable:
    """Read the columns that were asked for.

    Raises
    ------
    InputError
        It cannot be read, or a column is not there.
    """
    with rows_progress(f"reading {file.name}") as count:
        return read_table(
            file,
            prediction=prediction,
            outcome=wanted.outcome,
            time=wanted.time,
            segments=wanted.segment,
            weight=wanted.weight,
            ids=wanted.id,
            values=wanted.feature,
            # Segments that are named are where others are looked for.
            other_values=wanted.find_segments and not wanted.segment,
            positive=wanted.positive,
            logits=wanted.logits,
            skip_bad_rows=wanted.skip_bad_rows,
            progress=count,
        )


def _refuse_for_classes(wanted: Wanted) -> None:
    for option, given in (
        ("segment", wanted.segment),
        ("find-segments", wanted.find_segments),
        ("weight", wanted.weight),
        ("compare", wanted.compare),
    ):
        if given:
            raise InputError(
                f"--{option} is for predictions P(y = 1), and these are of many classes; name the one column of "
                "the class in question with --prediction, and an outcome of 0 and 1 with --outcome"
            )


def _of_one(wanted: Wanted, table: EventTable, progress: Progress) -> Findings:
    name = wanted.model
    found = report_table(
        table,
        model=name,
        version=wanted.version,
        segments=wanted.segment,
        searched=_searched(table) if wanted.find_segments else None,
        measures=_binary_measures(wanted) or None,
        minimum=wanted.minimum,
        seed=wanted.seed,
        progress=progress,
        tolerance=wanted.tolerance,
        **_draws(wanted),
    )
    return Findings(
        name, _scores(table), found.notes, found.cautions, binary=found, local=_local(wanted, table, progress)
    )


def _searched(table: EventTable) -> dict[str, SegmentColumn]:
    """The columns among which segments are looked for: those that are named, or all that have no other role."""
    if table.segments:
        return segment_columns(table.segments)
    return {
        name: column if isinstance(column, SegmentColumn) else ranges_of(name, column)
        for name, column in table.values.items()
    }


def _of_two(wanted: Wanted, first: EventTable, second: EventTable, progress: Progress) -> Findings:
    names = _names(wanted)
    found = compare_tables(
        first,
        second,
        names=names,
        measures=_binary_measures(wanted) or REPORT_MEASURES,
        seed=wanted.seed,
        progress=progress,
        tolerance=wanted.tolerance,
        **_draws(wanted),
    )
    # What both files say is said once.
    of_files = (
        f"{name}: {each}" for name, table in zip(names, (first, second), strict=True) for each in table.cautions
    )
    cautions = dict.fromkeys((*found.cautions, *of_files))
    notes = dict.fromkeys((*first.notes, *second.notes, found.note))
    return Findings(names[1], _scores(second), tuple(notes), tuple(cautions), comparison=found)


def _of_classes(wanted: Wanted, table: EventTable, progress: Progress) -> Findings:
    name = wanted.model
    chosen: dict[str, Any] = {}
    if isinstance(wanted.measure, Mapping):
        chosen = {"measures": wanted.measure}
    elif wanted.measure:
        of_one = _binary_measures(wanted)
        chosen = {
            "class_measures": {each: CLASS_MEASURES[each] for each in wanted.measure if each in CLASS_MEASURES},
            # The top label has the measures of P(y = 1) that were named, and each class too.
            "measures": of_one or REPORT_MEASURES,
            "each_class": of_one,
        }
    outcome = known_outcomes(table)
    found = evaluate_classes(
        table.prediction,
        outcome,
        time_ms=table.time_ms,
        model=name,
        version=wanted.version,
        minimum=wanted.minimum,
        class_names=table.classes,
        seed=wanted.seed,
        progress=lambda share: progress("measuring", share),
        tolerance=wanted.tolerance,
        **chosen,
        **_draws(wanted),
    )
    known = table.outcome >= 0
    scores = ScoreTable.from_events([], [])
    if known.any():
        scores = ClassTable.from_events(table.prediction[known], table.outcome[known]).top_label()
    local = _local(wanted, table, progress)
    return Findings(name, scores, table.notes, table.cautions, many=found, class_names=table.classes, local=local)


def _local(wanted: Wanted, table: EventTable, progress: Progress) -> LocalReport | None:
    if not wanted.feature:
        return None
    progress("measuring local calibration", 0.0)
    columns = {name: table.values[name] for name in wanted.feature}
    return evaluate_local(table.prediction, known_outcomes(table), columns, seed=wanted.seed, **_draws(wanted))


def _views(wanted: Wanted, table: EventTable, progress: Progress) -> Views:
    outcome = known_outcomes(table)
    known = table.outcome >= 0
    spans: Spans | None = None
    plane: Plane | None = None
    classes: ClassTable | None = None
    missing: list[str] = []
    if table.classes and known.any():
        classes = ClassTable.from_events(table.prediction[known], table.outcome[known])
    if table.time_ms is not None:
        prediction, happened = table.prediction, outcome
        if table.classes:
            prediction, happened = np.zeros(len(table)), outcome.copy()
            prediction[known], happened[known] = confidence_and_hit(table.prediction[known], table.outcome[known])
        try:
            spans = spans_of(
                prediction,
                happened,
                table.time_ms,
                weight=table.weight,
                measures=_binary_measures(wanted) or SPAN_MEASURES,
                draws=WINDOW_DRAWS if wanted.draws is None else min(wanted.draws, WINDOW_DRAWS),
                seed=wanted.seed,
                progress=lambda share: progress("measuring over time", share),
            )
        except NotEnoughData as error:
            missing.append(f"nothing is shown over time: {error}")
    numbers = [name for name in wanted.feature if isinstance(table.values[name], np.ndarray)][:2]
    if len(numbers) == 2:
        progress("mapping the first two features", 0.0)
        pair = np.column_stack([np.asarray(table.values[name]) for name in numbers])
        try:
            at = ~np.isnan(pair).any(axis=1)
            found = plane_of(table.prediction[at], outcome[at], pair[at], seed=wanted.seed or 0)
            plane = Plane(found, *numbers)
        except NotEnoughData as error:
            missing.append(f"no map of the features: {error}")
    return Views(spans, classes, plane, tuple(missing))


def _scores(table: EventTable) -> ScoreTable:
    known = table.outcome >= 0
    weight = None if table.weight is None else relative_weights(table.weight[known])
    return ScoreTable.from_events(table.prediction[known], table.outcome[known].astype(np.float64), weight)


def _binary_measures(wanted: Wanted) -> Mapping[str, Measure]:
    """Those of P(y = 1) that were named."""
    if isinstance(wanted.measure, Mapping):
        return wanted.measure
    return {name: MEASURES[name] for name in wanted.measure if name in MEASURES}


def _draws(wanted: Wanted) -> Mapping[str, Any]:
    """Each kind of report knows best how many it needs, unless somebody says otherwise."""
    return {} if wanted.draws is None else {"draws": wanted.draws}


def _names(wanted: Wanted) -> tuple[str, str]:
    """What two files, or two columns of one, are called."""
    if wanted.models:
        return wanted.models[0], wanted.models[1]
    first, second = wanted.file, wanted.compare or wanted.file
    if wanted.compare_prediction is not None and first.resolve() == second.resolve():
        return (wanted.prediction[0] if wanted.prediction else "first"), wanted.compare_prediction
    # The shortest names that differ.
    for short in (model_of, lambda path: path.name, str):
        if short(first) != short(second):
            return short(first), short(second)
    return f"{first} (first)", f"{second} (second)"
