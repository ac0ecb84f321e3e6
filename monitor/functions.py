"""The functions of the package: report on data in memory, compare, recalibrate, and apply a map."""

from __future__ import annotations  # so that signatures are shown as they are written

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats
from monitor.errors import InputError, OptionError
from monitor.events.model import ALL, UNVERSIONED
from monitor.maps import RecalibrationMap
from monitor.maps.artifact import Artifact
from monitor.options import TOLERANCE, Option, in_python
from monitor.progress import no_progress
from monitor.recalibration.apply_file import columns_for, needed_columns, read_map, read_rows, recalibrated
from monitor.recalibration.compare import DRAWS
from monitor.recalibration.data import HELD_OUT
from monitor.recalibration.refit_file import choose_methods, labelled_rows, refit_rows
from monitor.reports.evaluation.assess import FILE_MINIMUM, Minimum
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.counting import CountedRows
from monitor.reports.evaluation.evaluate import UNNAMED
from monitor.reports.evaluation.files import FileReport, model_of
from monitor.reports.evaluation.inputs import (
    Measures,
    Resampling,
    Times,
    check_events,
    check_vectors,
    column,
    holds_vectors,
    predictions_of,
    times_ms,
)
from monitor.reports.findings import (
    MEMORY_GB,
    ReportOptions,
    chosen_measures,
    measure_groups,
    measure_rows,
    measure_table,
    read_columns,
    read_within_memory,
)
from monitor.reports.progress import patient_progress, rows_progress
from monitor.results import DataClassReport, DataComparison, DataGroups, DataReport, Measured, Recalibration
from monitor.scores.arguments import require_same_index
from monitor.scores.labelled import feature_table
from monitor.scores.table import check
from monitor.sources.columns import UNLABELLED, Segments
from monitor.sources.data_sets import open_tables
from monitor.sources.feature_columns import read_with_words
from monitor.sources.formats import MemoryTable, TableFile, is_table
from monitor.sources.tables import Columns, EventTable, SegmentColumn

Names = str | Sequence[str]
Shown = bool | Callable[[float], None]
"""Whether to show progress, or what to call with the share of the present stage that is done."""


def evaluate(
    p: Any,
    y: ArrayLike | None = None,
    *,
    prediction: Names | None = None,
    outcome: str | None = None,
    time: str | Times | None = None,
    weight: str | ArrayLike | None = None,
    segments: Any = None,
    find_segments: bool = False,
    features: Any = None,
    positive: str | None = None,
    logits: bool = False,
    skip_bad_rows: bool = False,
    where: str | None = None,
    query: str | None = None,
    memory: float = MEMORY_GB,
    measures: Measures | None = None,
    minimum: Minimum | None = None,
    draws: int | None = None,
    seed: int | None = None,
    tolerance: float = TOLERANCE,
    progress: Shown = True,
    model: str | None = None,
    version: str = UNVERSIONED,
    segment: str = ALL,
    time_ms: Times | None = None,
) -> DataReport | DataClassReport:
    """Report on the calibration of predictions: ``evaluate(p, y)``, or ``evaluate(table)`` with named columns.

    Parameters
    ----------
    p
        Predictions P(y = 1), shape (n,), or those of 0 and of 1, shape (n, 2), as ``predict_proba`` returns them; or
        probability vectors, shape (n, K). Or a table that holds predictions and outcomes: a pandas or polars DataFrame,
        a pyarrow Table, a structured array, or arrays by name. Or the path of one, as ``monitor report`` takes it: a
        file, a folder, a pattern, a URL, or a list of these; a Delta or Iceberg table; the URL of a database.
    y
        Outcomes, shape (n,): 0 or 1, or the class that came true; nan or masked where it is not known. None where ``p``
        is a table.
    prediction, outcome
        Columns of the table; guessed from the usual names if left out. Of many classes ``prediction`` names the column
        of each, or one column of vectors; two are those of 0 and of 1.
    time
        Times of the predictions: a column of the table (guessed if left out), or datetimes or milliseconds since the
        epoch, shape (n,).
    weight
        How much each event counts: a column of the table, or numbers of at least 0, shape (n,).
    segments
        Groups to report on, worst first: names of columns of the table; or values, shape (n,), also several by name.
    find_segments
        Whether to search the groups of one and two columns of the table for those that the model is wrong about.
    features
        What says which events are alike, for local calibration: names of columns of the table; or numbers by name,
        shape (n,) each, or of shape (n, D).
    positive, logits, skip_bad_rows
        Of a table: the outcome that is 1, such as ``"bad"``; whether ``prediction`` holds log odds; whether rows that
        cannot be read are left out and counted.
    where
        Of files: the condition that rows must meet, as SQL has it.
    query
        Of a database: the SELECT whose rows are meant.
    memory
        Of files: gigabytes up to which raw rows are measured; more rows are counted on the grid, with error bounds.
    measures
        Names of the measures, of many classes those of the top label; those of a report on a file if left out. If one
        is of many classes, such as ``"skce"``, two columns are read as two classes.
    minimum
        How many outcomes a report needs; two if left out.
    draws
        Resamples for intervals and levels, at least 19; 0 leaves both out. 999 if left out, of many classes 199.
    seed
        For the resamples; the data themselves if left out. 0 gives the numbers of ``monitor report``.
    tolerance
        Error of the logits up to which the verdict calls nothing a fault: 0.05 changes odds by 5%.
    progress
        Whether to show progress of long work, in a terminal or a notebook. Or a function, which is called with the
        share of the present stage that is done.
    model, version, segment
        What the report says it is about; the model is called like the file or the column of predictions if left out.
    time_ms
        The same as ``time``, of arrays.

    Returns
    -------
    DataReport or DataClassReport
        The latter of probability vectors. It prints its verdict and main numbers; ``plot()`` draws the reliability
        diagram, ``to_html()`` makes the page that ``monitor report --html`` writes, ``to_dict()`` is its JSON.

    Raises
    ------
    InputError
        A value is out of its range, a column is not there, or shapes do not fit. The message names the first such one.

    Examples
    --------
    >>> report = evaluate([0.91, 0.32, 0.66, 0.67, 0.57, 0.98, 0.41, 0.19], [1, 0, 1, 1, 0, 1, 0, 0])
    >>> round(report.measures["smce"].value, 5)
    0.10575
    >>> report = evaluate({"score": [0.9, 0.4, 0.2, 0.6], "label": [1, 0, 0, 1], "region": ["eu", "us", "us", "eu"]},
    ...                   prediction="score", outcome="label", segments=["region"])
    >>> [segment.report.segment for segment in report.segments]
    ['region=eu', 'region=us']
    """
    if not isinstance(segment, str):
        raise InputError(f"segment is what the report calls its data, got {segment!r}; segments= names columns")
    with in_python(), shown_progress(progress) as report_progress:
        opened = _open(p, where=where, query=query, skip_bad_rows=skip_bad_rows)
        data = _InputData(opened, y, prediction, outcome, time, weight, segments, features)
        if not data.is_table and time is None:
            data = data._replace(time=time_ms)
        options = ReportOptions(
            columns=data.columns(positive=positive, logits=logits, skip_bad_rows=skip_bad_rows),
            measures=chosen_measures(measures),
            resampling=Resampling(draws, seed),
            tolerance=tolerance,
            minimum=minimum or FILE_MINIMUM,
            find_segments=find_segments,
            version=version,
            segment=segment,
        )
        table: EventTable | CountedRows
        if data.is_table:
            options = options._replace(file=data.p, memory=memory if data.is_stored else None)
            table = read_within_memory(options)
        else:
            table, columns = _arrays(data, options)
            options = options._replace(columns=columns)
        options = options._replace(models=(model or _model_of(data, table),))
        findings = measure_rows(options, table, None, report_progress)
    measured = Measured(options, table, findings)
    if isinstance(findings.result, ClassReport):
        return DataClassReport.of(findings.result, class_names=findings.class_names, measured=measured)
    report = cast("FileReport", findings.result)
    return DataReport.of(report.whole, segments=report.segments, search=report.search, measured=measured)


def evaluate_by(
    table: Any,
    by: Names,
    *,
    prediction: Names | None = None,
    outcome: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    positive: str | None = None,
    logits: bool = False,
    skip_bad_rows: bool = False,
    where: str | None = None,
    query: str | None = None,
    memory: float = MEMORY_GB,
    measures: Measures | None = None,
    draws: int | None = None,
    seed: int | None = None,
    tolerance: float = TOLERANCE,
    progress: Shown = True,
    model: str | None = None,
) -> DataGroups:
    """Report on each combination of values of some columns, and of each span of time, as ``monitor report --by`` does.

    Parameters
    ----------
    table
        A table in memory, or the path of one, as of :func:`evaluate`.
    by
        Names of columns; ``hour``, ``day``, ``week`` and ``month`` are spans of the times unless a column is called so.
    prediction, outcome, time, weight, positive, logits, skip_bad_rows, where, query, memory
        As of :func:`evaluate`.
    measures
        Names of the measures; those of a window if left out.
    draws
        Resamples for intervals and levels, at least 19; 0 leaves both out. 199 if left out.
    seed, tolerance, progress, model
        As of :func:`evaluate`.

    Returns
    -------
    DataGroups
        ``to_arrow()`` has a row for each report, ``to_html(path)`` writes the page with the history of each group.

    Raises
    ------
    InputError
        As of :func:`evaluate`; or there are no times for a span of time.

    Examples
    --------
    >>> table = {"p": [0.2, 0.8] * 100, "y": [0, 1] * 100, "model": ["a"] * 100 + ["b"] * 100}
    >>> evaluate_by(table, "model", draws=0).to_arrow().select(["model", "n", "prevalence"]).to_pylist()[1]
    {'model': 'b', 'n': 100, 'prevalence': 0.5}
    """
    with in_python(), shown_progress(progress) as report_progress:
        opened = _open(table, where=where, query=query, skip_bad_rows=skip_bad_rows)
        data = _InputData(
            opened if isinstance(opened, TableFile) else MemoryTable(table), None, prediction, outcome, time, weight
        )
        options = ReportOptions(
            data.p,
            data.columns(positive=positive, logits=logits, skip_bad_rows=skip_bad_rows),
            measures=chosen_measures(measures),
            resampling=Resampling(draws, seed),
            tolerance=tolerance,
            by=_listed(by),
            models=(model or (model_of(data.p.name) if data.is_stored else UNNAMED),),
            memory=memory if data.is_stored else None,
        )
        return DataGroups(measure_groups(options, report_progress))


def compare(
    first: Any,
    second: Any,
    *,
    prediction: Names | None = None,
    outcome: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    id: str | None = None,  # noqa: A002 - as the command line has it
    compare_prediction: Names | None = None,
    positive: str | None = None,
    logits: bool = False,
    skip_bad_rows: bool = False,
    where: str | None = None,
    query: str | None = None,
    measures: Measures | None = None,
    draws: int | None = None,
    seed: int | None = None,
    tolerance: float = TOLERANCE,
    progress: Shown = True,
    models: tuple[str, str] | None = None,
) -> DataComparison:
    """Compare the calibration of two models, or of two periods, as ``monitor report --compare`` does.

    Rows are paired where both are of the same events: by their ids, or where they have the same outcomes row by row.

    Parameters
    ----------
    first, second
        Each a table or the path of one, as :func:`evaluate` takes it, or a pair ``(p, y)`` of predictions P(y = 1) and
        outcomes. The same table twice, where two of its columns are compared.
    prediction, outcome, time, weight, id
        Columns of tables, as of :func:`evaluate`; ``id`` tells which rows of both are the same.
    compare_prediction
        Column with the predictions of ``second``, if it is called otherwise there.
    positive, logits, skip_bad_rows, where, query
        Of both tables, as of :func:`evaluate`.
    measures, draws, seed, tolerance, progress
        As of :func:`evaluate`.
    models
        What the two are called.

    Returns
    -------
    DataComparison
        It prints which is better calibrated; ``plot()`` draws the measures of both.

    Raises
    ------
    InputError
        As of :func:`evaluate`; or the predictions are of many classes, or ids contradict each other.

    Examples
    --------
    >>> table = {"y": [0, 0, 1, 1] * 50, "old": [0.4, 0.6] * 100, "new": [0.1, 0.2, 0.8, 0.9] * 50}
    >>> comparison = compare(table, table, prediction="old", compare_prediction="new", measures=["smce"], seed=0)
    >>> comparison.first.model, comparison.second.model, comparison.pairing
    ('old', 'new', 'rows')
    """
    both = isinstance(prediction, str) and isinstance(compare_prediction, str) and prediction != compare_prediction
    with in_python(), shown_progress(progress) as report_progress:
        columns = Columns(
            _listed(prediction),
            outcome,
            time,
            weight,
            id,
            positive=positive,
            logits=logits,
            skip_bad_rows=skip_bad_rows,
        )
        options = ReportOptions(
            columns=columns,
            measures=chosen_measures(measures),
            resampling=Resampling(draws, seed),
            tolerance=tolerance,
            models=models or ((str(prediction), str(compare_prediction)) if both else ("first", "second")),
        )
        seconds = columns._replace(prediction=_listed(compare_prediction) or columns.prediction)
        one, two = (
            _read_either(options, _open(data, where=where, query=query, skip_bad_rows=skip_bad_rows), named)
            for data, named in ((first, columns), (second, seconds))
        )
        findings = measure_table(options, one, two, report_progress)
    return DataComparison.of(findings.result, measured=Measured(options, two, findings))


def recalibrate(
    p: Any,
    y: ArrayLike | None = None,
    *,
    prediction: Names | None = None,
    outcome: str | None = None,
    time: str | Times | None = None,
    weight: str | ArrayLike | None = None,
    segments: Any = None,
    features: Any = None,
    positive: str | None = None,
    logits: bool = False,
    skip_bad_rows: bool = False,
    where: str | None = None,
    query: str | None = None,
    methods: Names = (),
    options: Mapping[str, Any] | None = None,
    held_out: float = HELD_OUT,
    since_change: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
    progress: Shown = True,
    model: str | None = None,
) -> Recalibration:
    """Fit recalibration maps on the earlier rows, and compare them with no map on the later ones.

    Parameters
    ----------
    p, y, prediction, outcome, time, weight, segments, features
        As of :func:`evaluate`. Rows without times are taken to be in their order.
    positive, logits, skip_bad_rows, where, query
        As of :func:`evaluate`.
    methods
        Names of the methods; the usual ones for such rows if left out.
    options
        Of the methods that have them, such as ``{"gamma": 0.4}``.
    held_out
        Share of the latest rows, which no fit sees; above 0 and below 1.
    since_change
        Whether to leave out what was before the last change of calibration.
    draws
        Resamples for intervals and levels, at least 19; 0 leaves both out.
    seed
        Of what is drawn.
    progress
        As of :func:`evaluate`.
    model
        What the predictions are of; if left out, the name of their file or column.

    Returns
    -------
    Recalibration
        It prints what to do and a table of the methods. ``map`` is the best map, or None where no method is better than
        no map; ``save(path)`` writes it; ``plot()`` draws the later rows before and after.

    Raises
    ------
    InputError
        As of :func:`evaluate`; or there is no such method or option.
    NotEnoughData
        There are too few rows, or too few of an outcome.
    """
    with in_python(), shown_progress(progress) as report_progress:
        opened = _open(p, where=where, query=query, skip_bad_rows=skip_bad_rows)
        data = _InputData(opened, y, prediction, outcome, time, weight, segments, features)
        columns = data.columns(positive=positive, logits=logits, skip_bad_rows=skip_bad_rows)
        if data.is_table:
            with rows_progress(f"reading {data.p.name}") as count:
                table, columns = read_with_words(data.p, columns, count)
        else:
            table, columns = _arrays(data, ReportOptions(columns=columns))
        rows = labelled_rows(table)
        chosen = choose_methods(_listed(methods), options or {}, rows.events)
        trial = refit_rows(
            rows,
            chosen,
            held_out=held_out,
            since_change=since_change,
            draws=draws,
            seed=seed,
            progress=report_progress,
        )
    return Recalibration.of(trial, model=model or _model_of(data, table), columns=needed_columns(table, columns))


def apply(
    recalibration: Recalibration | Artifact | RecalibrationMap | str | Path,
    p: Any,
    *,
    prediction: Names | None = None,
    features: Any = None,
    segments: Any = None,
    logits: bool = False,
    where: str | None = None,
    query: str | None = None,
    progress: Shown = True,
) -> Floats:
    """Recalibrate predictions by a map.

    Parameters
    ----------
    recalibration
        What :func:`recalibrate` returned, a map, or the file of one.
    p
        Predictions P(y = 1), shape (n,), or probability vectors, shape (n, K); or a table or the path of one, as
        :func:`evaluate` takes it.
    prediction, features, segments
        Columns of the table, if they are not called as in the one that the map was fitted on. Or, where ``p`` is no
        table, the features and groups that the map needs, as of :func:`evaluate`.
    logits
        Of a table: whether the predictions are log odds. Those of the columns that a map was fitted on are known.
    where, query
        As of :func:`evaluate`.
    progress
        As of :func:`evaluate`.

    Returns
    -------
    float64, shape (n,) or (n, K): row i is that of row i of ``p``.

    Raises
    ------
    InputError
        A value is out of its range, or what the map needs is missing.
    CorruptMap
        The file holds no map, or a damaged one.
    NotEnoughData
        No method was better than no map.

    Examples
    --------
    >>> from monitor.maps.temperature import Temperature
    >>> apply(Temperature(temperature=2.0, classes=2), [0.5, 0.9]).round(3)
    array([0.5 , 0.75])
    """
    chosen = artifact_of(recalibration)
    with in_python(), shown_progress(progress) as report_progress:
        data = _InputData(_open(p, where=where, query=query), None, prediction, segments=segments, features=features)
        named = data.columns(logits=logits)
        if data.is_table:
            columns = columns_for(chosen, named)
            table, segment = read_rows(data.p, columns, no_progress), next(iter(columns.segments), None)
        else:
            _refuse_for_arrays(ReportOptions(columns=named))
            segment = chosen.map.segment_key
            table = _unlabelled(p, features, segments, segment)
            if segment is not None and segment not in table.segments:
                raise InputError(f"the map needs groups; pass segments={{{segment!r}: values}}")
        if chosen.map.feature_count is not None and table.features is None:
            raise InputError(f"the map needs {chosen.map.feature_count} features a row; pass features")
        return recalibrated(chosen, table, segment, report_progress)


def artifact_of(recalibration: Recalibration | Artifact | RecalibrationMap | str | Path) -> Artifact:
    """The map in any of its forms, as :func:`apply` takes it."""
    if isinstance(recalibration, str | Path):
        return read_map(Path(recalibration))
    if isinstance(recalibration, Recalibration):
        return recalibration.artifact
    if isinstance(recalibration, Artifact):
        return recalibration
    if isinstance(recalibration, RecalibrationMap):
        return Artifact(recalibration, {})
    raise InputError(f"a map must be what recalibrate returned, a map or a file, got {type(recalibration).__name__}")


class _InputData(NamedTuple):
    """Arguments that say what the data are: a table and the names of its columns, or arrays."""

    p: Any
    y: Any = None
    prediction: Any = None
    outcome: Any = None
    time: Any = None
    weight: Any = None
    segments: Any = None
    features: Any = None

    @property
    def is_table(self) -> bool:
        return isinstance(self.p, TableFile)

    @property
    def is_stored(self) -> bool:
        """Whether they are in files or a database."""
        return self.is_table and not isinstance(self.p, MemoryTable)

    def columns(self, *, positive: str | None = None, logits: bool = False, skip_bad_rows: bool = False) -> Columns:
        """The columns of a table.

        Raises
        ------
        InputError
            Columns are named where there is no table, or what should name one is something else.
        """
        if not self.is_table:
            for name in ("prediction", "outcome", "time", "weight"):
                value = getattr(self, name)
                if isinstance(value, str) or (name == "prediction" and value is not None):
                    raise InputError(f"{name} names a column, and p is no table with named columns")
            return Columns(positive=positive, logits=logits, skip_bad_rows=skip_bad_rows)
        if self.y is not None:
            raise InputError(
                "y must be left out where p is a table; name its column with outcome, or pass the predictions alone as "
                "an array"
            )
        several = {"prediction", "segments", "features"}
        for name in ("prediction", "time", "weight", "segments", "features"):
            value = getattr(self, name)
            if not (value is None or isinstance(value, str) or (name in several and _are_names(value))):
                what = "columns" if name in several else "a column"
                raise InputError(f"{name} must name {what} of the table, got {type(value).__name__}")
        names, segments, features = map(_listed, (self.prediction, self.segments, self.features))
        return Columns(
            names, self.outcome, self.time, self.weight, None, segments, features, positive, logits, skip_bad_rows
        )


def _open(p: Any, *, where: str | None = None, query: str | None = None, skip_bad_rows: bool = False) -> Any:
    """Open the table that ``p`` is, or that its paths name; return arrays as they are."""
    paths = [p] if isinstance(p, str | Path) else p if isinstance(p, list | tuple) else []
    if paths and all(isinstance(path, str | Path) for path in paths):
        return open_tables([str(path) for path in paths], where=where, query=query, skip_bad_rows=skip_bad_rows)
    for name, value in (("where", where), ("query", query)):
        if value is not None:
            raise InputError(f"{name} is for files and databases, and the data are in memory: choose their rows before")
    return MemoryTable(p) if is_table(p) else p


def _read_either(options: ReportOptions, data: Any, columns: Columns) -> EventTable:
    """Read an open table, or a pair of predictions and outcomes."""
    if isinstance(data, TableFile):
        return read_columns(options, data, columns)
    if isinstance(data, tuple) and len(data) == 2:
        return _arrays(_InputData(*data), options)[0]
    raise InputError(
        "what is compared must be a table, the path of one, or a pair (p, y) of predictions and outcomes, "
        f"got {type(data).__name__}"
    )


def _refuse_for_arrays(options: ReportOptions) -> None:
    of_tables = {
        Option.FIND_SEGMENTS: options.find_segments,
        Option.POSITIVE: options.columns.positive,
        Option.LOGITS: options.columns.logits,
        Option.SKIP_BAD_ROWS: options.columns.skip_bad_rows,
    }
    for option in (option for option, value in of_tables.items() if value):
        raise OptionError(option, " is for tables, and p is an array: put the columns into a DataFrame, or a dict")


def _arrays(data: _InputData, options: ReportOptions) -> tuple[EventTable, Columns]:
    """Read predictions and outcomes that are arrays, and name segments and features."""
    _refuse_for_arrays(options)
    p, y, time, weight, segments, features = data.p, data.y, data.time, data.weight, data.segments, data.features
    if y is None:
        raise InputError("y must hold the outcomes, or p be a table with a column of them")
    require_same_index(p=p, y=y, time=time, weight=weight, segments=segments, features=features)
    prediction = predictions_of(p, of_classes=options.is_of_classes)
    classes: tuple[str, ...] = ()
    weights = None
    if holds_vectors(prediction):
        if weight is not None:
            raise InputError("weight must be left out for probability vectors, whose measures count whole events")
        vectors, labelled = check_vectors(prediction, y)
        times = None if time is None else times_ms(time)
        outcome = np.where(labelled, vectors.outcome, UNLABELLED)
        classes = tuple(str(label) for label in range(vectors.classes))
    else:
        prediction, y, weights, times = check_events(prediction, y, weight=weight, time_ms=time)
        outcome = np.where(np.isnan(y), UNLABELLED, y).astype(np.int8)
    names, x = _features(features, outcome.size)
    table = EventTable(
        prediction,
        outcome,
        None if times is None else np.floor(times).astype(np.int64),
        _segments(segments, outcome.size),
        weight=weights,
        features=x,
        classes=classes,
        values={} if x is None else dict(zip(names, x.T, strict=True)),
    )
    return table, Columns(segments=tuple(table.segments), features=names)


def _unlabelled(p: Any, features: Any, segments: Any, segment: str | None) -> EventTable:
    """Read predictions without outcomes; segments that are one column are of the name ``segment``."""
    require_same_index(p=p, features=features, segments=segments)
    prediction = predictions_of(p, of_classes=True)
    check(prediction.ravel(), (prediction >= 0.0).ravel() & (prediction <= 1.0).ravel(), "p must be in [0, 1]")
    n = prediction.shape[0]
    unlabelled = np.full(n, UNLABELLED, np.int8)
    return EventTable(
        prediction, unlabelled, segments=_segments(segments, n, segment), features=_features(features, n)[1]
    )


def _segments(segments: Any, n: int, name: str | None = None) -> Mapping[str, SegmentColumn]:
    """Read segments that are values by name, or one column, which is called ``name`` or as it is itself."""
    if segments is None:
        return {}
    if isinstance(segments, str) or (_are_names(segments) and len(segments) != n):
        raise InputError("segments must hold values where p is no table; several by name, such as {'region': values}")
    if not is_table(segments):
        segments = {name or getattr(segments, "name", None) or "segment": segments}
    columns = {}
    table = MemoryTable(segments)
    for key in table.names():
        builder = Segments()
        for (array,) in table.pieces([key]):
            builder.add(array)
        codes, values = builder.finish()
        if codes.size != n:
            raise InputError(f"segment {key!r} must be as long as p, got {codes.size} and {n}")
        columns[key] = SegmentColumn(codes, values)
    return columns


def _features(features: Any, n: int) -> tuple[tuple[str, ...], Floats | None]:
    """Read features that are numbers by name, or an array of shape (n, D)."""
    if features is None:
        return (), None
    if _are_names(features):
        raise InputError("features names columns, and p is no table: pass numbers by name, such as {'age': values}")
    names: tuple[str, ...]
    if is_table(features):
        table = MemoryTable(features)
        names = tuple(table.names())
        x = np.column_stack([_feature(table, name) for name in names])
    else:
        x = feature_table(features)
        names = tuple(f"feature {number}" for number in range(x.shape[1]))
    if x.shape[0] != n:
        raise InputError(f"features must be as long as p, got {x.shape[0]} and {n}")
    return names, x


def _model_of(data: _InputData, table: EventTable | CountedRows) -> str:
    """The default name of a model: that of its file, or of the column of its predictions."""
    if data.is_stored or isinstance(table, CountedRows):
        return model_of(data.p.name)
    columns = table.prediction_columns
    return columns[0] if len(columns) == 1 else UNNAMED


def _feature(table: MemoryTable, name: str) -> Floats:
    pieces = [column(f"feature {name!r}", array.to_numpy(zero_copy_only=False)) for (array,) in table.pieces([name])]
    return np.concatenate(pieces) if pieces else np.zeros(0)


def _are_names(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, Sequence) and bool(value) and all(isinstance(name, str) for name in value)
    )


def _listed(names: Names | None) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


@contextmanager
def shown_progress(progress: Shown) -> Iterator[Callable[[str, float], None]]:
    """Show progress as the caller wants; yields a function of the stage and the share of it that is done."""
    if progress is True:
        with patient_progress() as report:
            yield report
    elif progress is False:
        yield no_progress
    else:
        yield lambda _, share: progress(share)
