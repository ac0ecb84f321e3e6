"""Reports on score tables: of every group on the cluster, or of one with its figures on the driver."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - Spark's own convention
from pyspark.sql.pandas.types import from_arrow_schema

from monitor.arrays import Ints
from monitor.events.model import ALL, UNVERSIONED, SeriesKey
from monitor.measures import REPORT_MEASURES, WINDOW_MEASURES
from monitor.options import TOLERANCE, in_python
from monitor.reports.evaluation.assess import DRAWS, FILE_MINIMUM, WINDOW_DRAWS, Minimum, assess, build_report
from monitor.reports.evaluation.compare import compare_scores
from monitor.reports.evaluation.counting import CountedRows
from monitor.reports.evaluation.diagnosis import diagnosed
from monitor.reports.evaluation.evaluate import UNNAMED
from monitor.reports.evaluation.files import FileReport
from monitor.reports.evaluation.inputs import Resampling, measures_by_name, require_tolerance
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.reports.findings import Findings, ReportOptions
from monitor.results import DataComparison, DataReport, Measured
from monitor.scores import GridTable, ScoreTable, grid
from monitor.scores.grid_table import COLUMNS as GRID_COLUMNS
from monitor.scores.grid_table import POSITIVES
from monitor.sources.columns import EMPTY, is_missing, text_of
from monitor.spark.tables import CELL, COUNTS, REASON, REJECTED, SUMS, WEIGHTS, group_columns, merge, quoted

MEASURE_FIELDS: Final = ("value", "lower", "upper", "null_mean", "null_q95", "p_value", "error_bound")
"""Fields of the column of a measure; see :class:`monitor.reports.evaluation.report.MeasureResult`."""

_MEASURE: Final = pa.struct([(name, pa.float64()) for name in MEASURE_FIELDS])
_COUNTS: Final = (REJECTED, "predictions", "n", "positives")
_SHARES: Final = ("prevalence", "mean_prediction")
_TEXTS: Final = ("verdict", "insufficient")


def reports(
    tables: DataFrame,
    *,
    measures: Iterable[str] = tuple(WINDOW_MEASURES),
    minimum: Minimum | None = None,
    draws: int = WINDOW_DRAWS,
    seed: int | None = None,
    tolerance: float = TOLERANCE,
) -> DataFrame:
    """Measure every group of score tables, on the cluster: a row for each group.

    Parameters
    ----------
    tables
        What :func:`~monitor.spark.score_tables` returned.
    measures
        Names of the measures; those of windows if left out.
    minimum
        How much data a group needs: by default 100 outcomes, 5 of each kind.
    draws
        Resamples for intervals and levels, at least 19; 0 leaves both out.
    seed
        For the resamples; each table's content if left out, so that the same data give the same numbers.
    tolerance
        Error of the logits up to which the verdict calls nothing a fault.

    Returns
    -------
    DataFrame
        The columns that the tables are grouped by; ``rejected``, ``predictions``, ``n`` (those with an outcome) and
        ``positives``; ``prevalence``, ``mean_prediction``, ``verdict``, and ``insufficient``, why there are no
        measures; a column for each measure, with the fields ``value``, ``lower`` and ``upper`` (its 95% interval),
        ``null_mean``, ``null_q95`` and ``p_value``; and ``report``, the whole report as JSON. In a group called
        ``model``, ``version`` or ``segment`` the report is named so; other groups become its segment.

    Raises
    ------
    InputError
        These are no score tables, or an option is wrong.
    """
    keys = group_columns(tables)
    options = _options(measures, minimum or Minimum(), draws, seed, tolerance)
    schema = pa.schema(
        [
            *((name, pa.int64()) for name in _COUNTS),
            *((name, pa.float64()) for name in _SHARES),
            *((name, pa.string()) for name in _TEXTS),
            *((name, _MEASURE) for name in options.measures),
            ("report", pa.string()),
        ]
    )

    def measured(rows: pa.Table) -> pa.Table:
        group = rows.select(keys).slice(0, 1)
        row = pa.Table.from_pylist([_row(rows, group.to_pylist()[0], options)], schema)
        return pa.Table.from_arrays([*group.columns, *row.columns], [*keys, *schema.names])

    spark_schema = T.StructType([*(tables.schema[name] for name in keys), *from_arrow_schema(schema)])
    return tables.groupBy(*quoted(keys)).applyInArrow(measured, spark_schema)


def report(
    tables: DataFrame,
    *,
    measures: Iterable[str] = tuple(REPORT_MEASURES),
    minimum: Minimum = FILE_MINIMUM,
    draws: int = DRAWS,
    seed: int | None = 0,
    tolerance: float = TOLERANCE,
    model: str = UNNAMED,
) -> DataReport:
    """Report on all rows of score tables together, with figures: what ``monitor.evaluate`` returns.

    Parameters
    ----------
    tables
        What :func:`~monitor.spark.score_tables` returned; of one group, where it was filtered.
    measures, minimum, draws, seed, tolerance
        As of :func:`reports`; by default those of ``monitor report``.
    model
        What the predictions are of.

    Returns
    -------
    DataReport
        It prints its verdict and main numbers; ``plot()`` draws the reliability diagram, ``to_html()`` makes a page.

    Raises
    ------
    InputError
        These are no score tables, or an option is wrong.
    """
    options = _options(measures, minimum, draws, seed, tolerance, model)
    counted, result = _measured(tables, model, options)
    findings = Findings(model, counted.scores, FileReport(result), (_NOTE,), counted.cautions, on_grid=True)
    return DataReport.of(result, measured=Measured(options, counted.rows, findings))


def compare(
    first: DataFrame,
    second: DataFrame,
    *,
    measures: Iterable[str] = tuple(REPORT_MEASURES),
    draws: int = DRAWS,
    seed: int | None = 0,
    tolerance: float = TOLERANCE,
    models: tuple[str, str] = ("first", "second"),
) -> DataComparison:
    """Compare all rows of two score tables, of different events: two models, or two periods.

    Tables do not say which predictions are of the same events. To compare two models on the same ones, whose common
    chance cancels, compare a sample of the rows by :func:`monitor.compare`.

    Parameters
    ----------
    first, second
        What :func:`~monitor.spark.score_tables` returned.
    measures, draws, seed, tolerance
        As of :func:`report`.
    models
        What the two are called.

    Returns
    -------
    DataComparison
        What ``monitor.compare`` returns: it prints which is better calibrated; ``plot()`` draws the measures of both.

    Raises
    ------
    InputError
        These are no score tables, or an option is wrong.
    """
    options = _options(measures, FILE_MINIMUM, draws, seed, tolerance, *models)
    (one, a), (two, b) = (
        _measured(tables, name, options) for tables, name in zip((first, second), models, strict=True)
    )
    chosen = measures_by_name(options.measures)
    compared = compare_scores((a, one.scores), (b, two.scores), measures=chosen, draws=draws, seed=seed)
    cautions = [
        f"{name}: {line}" for name, counted in zip(models, (one, two), strict=True) for line in counted.cautions
    ]
    cautions = [*compared.cautions, *cautions]
    notes = (_NOTE, compared.note)
    findings = Findings(models[1], two.scores, compared, notes, tuple(cautions), other=one.scores, on_grid=True)
    return DataComparison.of(compared, measured=Measured(options, two.rows, findings))


_NOTE: Final = "predictions are summed on the cells of the grid: measures have an error bound"


def _options(
    measures: Iterable[str], minimum: Minimum, draws: int, seed: int | None, tolerance: float, *models: str
) -> ReportOptions:
    resampling = Resampling(draws, seed)
    with in_python():
        resampling.check()
    require_tolerance(tolerance)
    names = tuple(measures_by_name(measures))
    return ReportOptions(measures=names, resampling=resampling, tolerance=tolerance, minimum=minimum, models=models)


def _measured(tables: DataFrame, model: str, options: ReportOptions) -> "tuple[Counted, Report]":
    """Measure all rows of score tables, here."""
    counted = Counted.of(merge(tables, by=[]).toArrow())
    return counted, counted.report(SeriesKey(model, UNVERSIONED, ALL), options)


class Counted(NamedTuple):
    """The rows of one group of score tables."""

    table: GridTable
    scores: ScoreTable
    """The labelled predictions, by weight where there are weights."""
    rejected: Mapping[str, int]
    """Reason -> rows that could not be counted."""

    @classmethod
    def of(cls, rows: pa.Table) -> "Counted":
        """Read the columns of :func:`~monitor.spark.score_tables`, all of one group."""
        has_cell = pc.is_valid(rows[CELL])
        counted, refused = rows.filter(has_cell), rows.filter(pc.invert(has_cell))
        cell = _ints(counted[CELL])
        dense = np.zeros((grid.cell_count(), GRID_COLUMNS), np.int64)
        np.add.at(dense, cell, np.stack([_ints(counted[name]) for name in (*COUNTS, *SUMS)], axis=1))
        table = GridTable.from_dense(dense)
        scores = table.to_scores() if WEIGHTS[0] not in rows.column_names else _weighted_scores(counted, cell)
        rejected: Counter[str] = Counter()
        for reason, count in zip(refused[REASON].to_pylist(), refused[REJECTED].to_pylist(), strict=True):
            rejected[reason] += count
        return cls(table, scores, rejected)

    @property
    def rows(self) -> CountedRows:
        """The same, as a report of files on the grid is made of."""
        return CountedRows(self.table, (), None, (_NOTE,), self.cautions)

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to mind about the rows that could not be counted."""
        return tuple(
            f"{count:,} {'row' if count == 1 else 'rows'} left out: {reason.replace('_', ' ')}"
            for reason, count in sorted(self.rejected.items())
        )

    def report(self, series: SeriesKey, options: ReportOptions) -> Report:
        """Measure the labelled predictions."""
        counts = self.table.values.sum(axis=0).tolist()
        measures = measures_by_name(options.measures)
        made = build_report(
            ReportKey(series, ALL),
            self.scores,
            assess(self.scores, measures=measures, minimum=options.minimum, **options.resampling.arguments),
            from_ms=None,
            to_ms=None,
            n=self.table.labelled,
            positives=counts[POSITIVES],
            predictions=self.table.predictions,
            emptiness=None if self.table.predictions else "there are no predictions",
        )
        return diagnosed(made, self.scores, tolerance=options.tolerance, **options.resampling.arguments)


def _row(rows: pa.Table, group: Mapping[str, Any], options: ReportOptions) -> dict[str, Any]:
    """The row of a group in the result of :func:`reports`."""
    counted = Counted.of(rows)
    result = counted.report(_series(group), options)
    return {
        REJECTED: sum(counted.rejected.values()),
        **{name: getattr(result, name) for name in (*_COUNTS[1:], *_SHARES, "insufficient")},
        "verdict": None if result.diagnosis is None else result.diagnosis.verdict.value,
        **{name: measured.to_dict() for name, measured in result.measures.items()},
        "report": json.dumps(result.to_dict()),
    }


def _series(group: Mapping[str, Any]) -> SeriesKey:
    """The name of a group: its model and version, where it has them, and what else it is grouped by."""
    texts = {name: EMPTY if is_missing(value) else text_of(value) for name, value in group.items()}
    model, version = texts.pop("model", UNNAMED), texts.pop("version", UNVERSIONED)
    return SeriesKey(model, version, ", ".join(f"{name}={text}" for name, text in texts.items()) or ALL)


def _weighted_scores(rows: pa.Table, cell: Ints) -> ScoreTable:
    """The score table of weighted predictions; only the ratios of weights matter, so their mean becomes about 1."""
    sums = np.zeros((grid.cell_count(), len(WEIGHTS)))
    np.add.at(sums, cell, np.stack([np.array(rows[name].to_pylist(), np.float64) for name in WEIGHTS], axis=1))
    held = np.flatnonzero(sums[:, :2].any(axis=1))
    weights, above, squares = np.split(sums[held].T / grid.UNITS, 3)
    mean = weights.sum() / max(_labelled(rows), 1)
    anchor = grid.anchors()[held] / grid.UNITS
    lower, upper = grid.edges()[held], grid.upper_edges()[held]
    weights, above, squares = weights / mean, above / mean, squares / mean**2
    positive_sum, negative_sum = weights * anchor + above
    return ScoreTable(
        score=np.clip((positive_sum + negative_sum) / weights.sum(axis=0), lower, upper),
        positives=weights[0],
        negatives=weights[1],
        positive_sum=positive_sum,
        negative_sum=negative_sum,
        lower=lower,
        upper=upper,
        squares=squares,
    )


def _labelled(rows: pa.Table) -> int:
    return int(_ints(rows["positives"]).sum() + _ints(rows["negatives"]).sum())


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.to_numpy(), np.int64)
