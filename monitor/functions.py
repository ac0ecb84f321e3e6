"""The functions of the package: report on data in memory or files, compare, recalibrate, and apply a map."""

from __future__ import annotations  # so that signatures are shown as they are written

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, overload

from numpy.typing import ArrayLike

from monitor.arrays import Floats
from monitor.data import (
    Given,
    Names,
    Table,
    listed,
    open_data,
    read,
    read_arrays,
    read_either,
    read_unlabelled,
    shown_progress,
)
from monitor.errors import InputError, OptionError
from monitor.maps import RecalibrationMap
from monitor.maps.artifact import Artifact
from monitor.maps.base import Method, OptionValue
from monitor.options import TOLERANCE, Option, in_python
from monitor.progress import no_progress
from monitor.recalibration.apply_file import columns_for, needed_columns, read_map, read_rows, recalibrated
from monitor.recalibration.compare import DRAWS
from monitor.recalibration.data import HELD_OUT
from monitor.recalibration.refit_file import choose_methods, labelled_rows, refit_rows
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.counting import CountedRows
from monitor.reports.evaluation.evaluate import UNNAMED
from monitor.reports.evaluation.files import FileReport, model_of
from monitor.reports.evaluation.inputs import Measures, Resampling
from monitor.reports.findings import (
    ReportOptions,
    chosen_measures,
    measure_groups,
    measure_rows,
    measure_table,
    read_within_memory,
)
from monitor.reports.progress import rows_progress
from monitor.results import DataClassReport, DataComparison, DataGroups, DataReport, Measured, Recalibration
from monitor.scores.labelled import LabelledEvents
from monitor.sources.feature_columns import read_with_words
from monitor.sources.tables import EventTable


@overload
def evaluate(
    p: Sequence[float],
    y: ArrayLike,
    *,
    weight: ArrayLike | None = ...,
    segments: Any = ...,
    features: Any = ...,
    find_segments: bool = ...,
    measures: Measures | None = ...,
    draws: int | None = ...,
    seed: int | None = ...,
    tolerance: float = ...,
) -> DataReport: ...


@overload
def evaluate(
    p: Any,
    y: ArrayLike | None = ...,
    *,
    weight: str | ArrayLike | None = ...,
    segments: Any = ...,
    features: Any = ...,
    find_segments: bool = ...,
    measures: Measures | None = ...,
    draws: int | None = ...,
    seed: int | None = ...,
    tolerance: float = ...,
) -> DataReport | DataClassReport: ...


def evaluate(
    p: Any,
    y: ArrayLike | None = None,
    *,
    weight: str | ArrayLike | None = None,
    segments: Any = None,
    features: Any = None,
    find_segments: bool = False,
    measures: Measures | None = None,
    draws: int | None = None,
    seed: int | None = None,
    tolerance: float = TOLERANCE,
) -> DataReport | DataClassReport:
    """Report on the calibration of predictions: ``evaluate(p, y)``, or ``evaluate(table)``.

    Parameters
    ----------
    p
        Predictions P(y = 1), shape (n,), or those of 0 and of 1, shape (n, 2), as ``predict_proba`` returns them; or
        probability vectors, shape (n, K). Or a table that holds predictions and outcomes, in memory or files: what
        :func:`read` returned, or what it takes; then columns are guessed by their names.
    y
        Outcomes, shape (n,): 0 or 1, or the class that came true; nan or masked where it is not known. None where ``p``
        is a table.
    weight
        How much each event counts: numbers of at least 0, shape (n,); or a column of the table.
    segments
        Groups to report on, worst first: values, shape (n,), also several by name; or names of columns of the table.
    features
        What says which events are alike, for local calibration: numbers by name, shape (n,) each, or of shape (n, D);
        or names of columns of the table.
    find_segments
        Whether to search the groups of one and two columns of the table for those that the model is wrong about.
    measures
        Names of the measures, of many classes those of the top label; those of a report on a file if left out. If one
        is of many classes, such as ``"skce"``, two columns are read as two classes.
    draws
        Resamples for intervals and levels, at least 19; 0 leaves both out. 999 if left out, of many classes 199.
    seed
        For the resamples; the data themselves if left out. 0 gives the numbers of ``monitor report``.
    tolerance
        Error of the logits up to which the verdict calls nothing a fault: 0.05 changes odds by 5%.

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
    >>> from monitor import Columns, read
    >>> table = {"score": [0.9, 0.4, 0.2, 0.6], "label": [1, 0, 0, 1], "region": ["eu", "us", "us", "eu"]}
    >>> report = evaluate(read(table, Columns(prediction="score", outcome="label")), segments=["region"])
    >>> [segment.report.segment for segment in report.segments]
    ['region=eu', 'region=us']
    """
    with in_python():
        options = ReportOptions(
            measures=chosen_measures(measures),
            resampling=Resampling(draws, seed),
            tolerance=tolerance,
            find_segments=find_segments,
        )
        return evaluate_data(p, y, options, weight=weight, segments=segments, features=features)


def evaluate_data(p: Any, y: Any, options: ReportOptions, **arrays: Any) -> DataReport | DataClassReport:
    """Report on data as :func:`evaluate` does, with all options of a report; named as they say, or as the data say."""
    with in_python(), shown_progress() as progress:
        data = Given(open_data(p), y, **arrays)
        options = options._replace(columns=data.columns())
        table: EventTable | CountedRows
        if data.is_table:
            given: Table = data.p
            options = options._replace(file=given.source, memory=given.memory if given.is_stored else None)
            table = read_within_memory(options)
        else:
            table, columns = read_arrays(data, options)
            options = options._replace(columns=columns)
        options = options._replace(models=options.models or (_model_of(data, table),))
        findings = measure_rows(options, table, None, progress)
    measured = Measured(options, table, findings)
    if isinstance(findings.result, ClassReport):
        return DataClassReport.of(findings.result, class_names=findings.class_names, measured=measured)
    report = cast("FileReport", findings.result)
    return DataReport.of(report.whole, segments=report.segments, search=report.search, measured=measured)


def evaluate_by(
    table: Any,
    by: Names,
    *,
    measures: Measures | None = None,
    draws: int | None = None,
    seed: int | None = None,
    tolerance: float = TOLERANCE,
) -> DataGroups:
    """Report on each combination of values of some columns, and of each span of time, as ``monitor report --by`` does.

    Parameters
    ----------
    table
        What :func:`read` returned, or what it takes.
    by
        Names of columns; ``hour``, ``day``, ``week`` and ``month`` are spans of the times unless a column is called so.
    measures
        Names of the measures; those of a window if left out.
    draws
        Resamples for intervals and levels, at least 19; 0 leaves both out. 199 if left out.
    seed, tolerance
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
    with in_python(), shown_progress() as progress:
        rows = table if isinstance(table, Table) else read(table)
        options = ReportOptions(
            rows.source,
            rows.columns,
            measures=chosen_measures(measures),
            resampling=Resampling(draws, seed),
            tolerance=tolerance,
            by=listed(by),
            models=(Given(rows).model or _only(rows.columns.prediction) or UNNAMED,),
            memory=rows.memory if rows.is_stored else None,
        )
        return DataGroups(measure_groups(options, progress))


def compare(
    first: Any,
    second: Any,
    *,
    measures: Measures | None = None,
    draws: int | None = None,
    seed: int | None = None,
    tolerance: float = TOLERANCE,
) -> DataComparison:
    """Compare the calibration of two models, or of two periods, as ``monitor report --compare`` does.

    Rows are paired where both are of the same events: by their ids, or where they have the same outcomes row by row.

    Parameters
    ----------
    first, second
        Each a table, what :func:`read` returned or what it takes; or a pair ``(p, y)`` of predictions P(y = 1) and
        outcomes. They are called as the tables say with ``model``, or like their columns of predictions.
    measures, draws, seed, tolerance
        As of :func:`evaluate`.

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
    >>> from monitor import Columns, read
    >>> table = {"y": [0, 0, 1, 1] * 50, "old": [0.4, 0.6] * 100, "new": [0.1, 0.2, 0.8, 0.9] * 50}
    >>> old, new = (read(table, Columns(prediction=name)) for name in ("old", "new"))
    >>> comparison = compare(old, new, measures=["smce"], seed=0)
    >>> comparison.first.model, comparison.second.model, comparison.pairing
    ('old', 'new', 'rows')
    """
    with in_python(), shown_progress() as progress:
        both = open_data(first), open_data(second)
        options = ReportOptions(
            measures=chosen_measures(measures),
            resampling=Resampling(draws, seed),
            tolerance=tolerance,
            models=_names_of(*both),
        )
        one, two = (read_either(options, data) for data in both)
        findings = measure_table(options, one, two, progress)
    return DataComparison.of(findings.result, measured=Measured(options, two, findings))


def recalibrate(
    p: Any,
    y: ArrayLike | None = None,
    *,
    weight: str | ArrayLike | None = None,
    segments: Any = None,
    features: Any = None,
    methods: Names | Mapping[str, Mapping[str, Any]] = (),
    held_out: float = HELD_OUT,
    since_change: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
) -> Recalibration:
    """Fit recalibration maps on the earlier rows, and compare them with no map on the later ones.

    Parameters
    ----------
    p, y, weight, segments, features
        As of :func:`evaluate`. Rows without times, such as those of arrays, are taken to be in their order.
    methods
        Names of the methods, or the options of each by its name, such as ``{"beta": {}, "lore": {"gamma": 0.4}}``; the
        usual methods for such rows if left out.
    held_out
        Share of the latest rows, which no fit sees; above 0 and below 1.
    since_change
        Whether to leave out what was before the last change of calibration.
    draws
        Resamples for intervals and levels, at least 19; 0 leaves both out.
    seed
        Of what is drawn.

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
    with in_python(), shown_progress() as progress:
        data = Given(open_data(p), y, weight, segments, features)
        columns = data.columns()
        if data.is_table:
            with rows_progress(f"reading {data.p.source.name}") as count:
                table, columns = read_with_words(data.p.source, columns, count)
        else:
            table, columns = read_arrays(data, ReportOptions())
        rows = labelled_rows(table)
        trial = refit_rows(
            rows,
            methods_for(methods, rows.events),
            held_out=held_out,
            since_change=since_change,
            draws=draws,
            seed=seed,
            progress=progress,
        )
    return Recalibration.of(trial, model=_model_of(data, table), columns=needed_columns(table, columns))


def apply(
    recalibration: Recalibration | Artifact | RecalibrationMap | str | Path,
    p: Any,
    *,
    features: Any = None,
    segments: Any = None,
) -> Floats:
    """Recalibrate predictions by a map.

    Parameters
    ----------
    recalibration
        What :func:`recalibrate` returned, a map, or the file of one.
    p
        Predictions P(y = 1), shape (n,), or probability vectors, shape (n, K); or a table, what :func:`read` returned
        or what it takes. Columns that the table does not name are called as in the one that the map was fitted on.
    features, segments
        Features and groups that the map needs, as of :func:`evaluate`.

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
    with in_python(), shown_progress() as progress:
        data = Given(open_data(p), segments=segments, features=features)
        named = data.columns()
        if data.is_table:
            if named.skip_bad_rows:
                raise OptionError(Option.SKIP_BAD_ROWS, " leaves rows without a result: read the table without it")
            columns = columns_for(chosen, named)
            table, segment = read_rows(data.p.source, columns, no_progress), next(iter(columns.segments), None)
        else:
            segment = chosen.map.segment_key
            table = read_unlabelled(p, features, segments, segment)
            if segment is not None and segment not in table.segments:
                raise InputError(f"the map needs groups; pass segments={{{segment!r}: values}}")
        if chosen.map.feature_count is not None and table.features is None:
            raise InputError(f"the map needs {chosen.map.feature_count} features a row; pass features")
        return recalibrated(chosen, table, segment, progress)


def methods_for(
    methods: Names | Mapping[str, Mapping[str, Any]], events: LabelledEvents
) -> list[tuple[Method, dict[str, OptionValue]]]:
    """The methods with their options, as :func:`recalibrate` takes them."""
    if isinstance(methods, Mapping):
        return [pair for name, options in methods.items() for pair in choose_methods([name], options, events)]
    return choose_methods(listed(methods), {}, events)


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


def _model_of(data: Given, table: EventTable | CountedRows) -> str:
    """Name of the model: as the data say, or the column of the predictions."""
    if data.model is not None:
        return data.model
    if isinstance(table, CountedRows):
        return model_of(data.p.source.name)
    return _only(table.prediction_columns) or UNNAMED


def _only(columns: Sequence[str]) -> str | None:
    """The column, if it is one."""
    return columns[0] if len(columns) == 1 else None


def _names_of(first: Any, second: Any) -> tuple[str, str]:
    """Names of the two that are compared: as their tables say, or their columns if those differ."""
    models = [data.model if isinstance(data, Table) else None for data in (first, second)]
    columns = [_only(data.columns.prediction) if isinstance(data, Table) else None for data in (first, second)]
    if None in columns or columns[0] == columns[1]:
        columns = ["first", "second"]
    one, two = (model or str(column) for model, column in zip(models, columns, strict=True))
    return one, two
