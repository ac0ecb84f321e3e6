"""Score tables of DataFrames: counted by group and cell in Catalyst expressions, with no Python for a row."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql import types as T  # noqa: N812

from monitor.errors import InputError
from monitor.scores import grid
from monitor.sources.columns import MISSING_WORDS, OUTCOME_SPELLINGS, UNLABELLED
from monitor.spark.cells import cell, units_above_anchor

REASON: Final = "reason"
CELL: Final = "cell"
COUNTS: Final = ("positives", "negatives", "unanswered")
SUMS: Final = ("positive_sum", "negative_sum", "unanswered_sum")
REJECTED: Final = "rejected"
WEIGHTS: Final = (
    *("positive_weight", "negative_weight", "positive_weight_sum", "negative_weight_sum"),
    *("positive_squares", "negative_squares"),
)
"""Sums of weighted tables, in units of 2**-40: weights, weighted distance from the cell's anchor, squared weights."""
COLUMNS: Final = (REASON, CELL, *COUNTS, *SUMS, REJECTED)
"""Columns of every table, beside those that it is grouped by."""

MAX_WEIGHT: Final = 2.0**20
"""Weights are whole units of 2**-40, so that their sums are exact in any order; their squares stay below 2**80."""

PREDICTION: Final = "__p"
OUTCOME: Final = "__y"
"""Columns of :func:`with_values`."""

_WHOLE: Final = "decimal(38,0)"
_POSITIVE, _NEGATIVE = 1, 0


def score_tables(
    df: DataFrame,
    by: Sequence[str | Column] = (),
    *,
    prediction: str | Column = "prediction",
    outcome: str | Column = "outcome",
    weight: str | Column | None = None,
    positive: str | None = None,
) -> DataFrame:
    """Count predictions and outcomes by group and cell of the shared grid.

    Tables add: those of several days, files or clusters are united and summed by :func:`merge`. Sums are integers, so
    the order does not matter, and they are what the service has of the same rows.

    Parameters
    ----------
    df
        A row for each prediction.
    by
        Columns to group by: names, or expressions such as ``F.to_date("ts").alias("day")``.
    prediction
        P(y = 1): numbers, decimals, or text that spells numbers.
    outcome
        0 or 1 as numbers, decimals or booleans, or text as ``monitor report`` reads it (``true``, ``no``, ...). Null
        and NaN: the outcome is not known.
    weight
        How much a row counts: numbers from 0 to 2**20, rounded to 2**-40. Only their ratios matter, so weights that are
        larger, or all tiny, are best divided by their mean first.
    positive
        The value of ``outcome`` that is 1, such as ``"bad"``; any other is then 0.

    Returns
    -------
    DataFrame
        The columns ``by``; then ``reason`` and ``cell``, one of which is null. In rows with a cell: ``positives``,
        ``negatives`` and ``unanswered``, numbers of predictions, and ``positive_sum``, ``negative_sum`` and
        ``unanswered_sum``, sums of the predictions in units of 2**-40 above the cell's lower edge. In rows with a
        reason: ``rejected``, the number of rows of ``df`` that could not be counted. With weights the columns
        :data:`WEIGHTS`, too.

    Raises
    ------
    InputError
        A column does not exist or is of a type that cannot be read, or is called as one of the result.
    """
    keys = list(df.select(*by).columns) if by else []
    reserved = {*COLUMNS, *WEIGHTS}
    if clash := [name for name in keys if name in reserved]:
        raise InputError(f"by must not name a column {clash[0]!r}, which tables have: give it another name by alias")
    if repeated := {name for name in keys if keys.count(name) > 1}:
        raise InputError(f"by must name each column once, got {min(repeated)!r} twice")
    values = with_values(df, by, prediction=prediction, outcome=outcome, weight=weight, positive=positive)
    return count_cells(values, keys, weighted=weight is not None)


def with_values(
    df: DataFrame,
    others: Sequence[str | Column],
    *,
    prediction: str | Column,
    outcome: str | Column,
    weight: str | Column | None = None,
    positive: str | None = None,
) -> DataFrame:
    """Read the columns that :func:`score_tables` counts.

    Returns
    -------
    DataFrame
        The columns ``others``; :data:`PREDICTION`, a double, null where the row cannot be counted; :data:`OUTCOME`, 1,
        0 or UNLABELLED; the weight; and :data:`REASON`, why the row cannot be counted, or null.
    """
    read = df.select(
        *others,
        number_of(df, prediction, "prediction").alias(PREDICTION),
        column_of(df, prediction, "prediction").isNull().alias("__p_is_missing"),
        outcome_of(df, outcome, positive).alias(OUTCOME),
        (F.lit(1.0) if weight is None else number_of(df, weight, "weight")).alias("__w"),
    )
    is_share = (F.col(PREDICTION) >= 0.0) & (F.col(PREDICTION) <= 1.0)
    is_weight = (F.col("__w") >= 0.0) & (F.col("__w") <= MAX_WEIGHT)
    reason = (
        F.when(F.col("__p_is_missing"), "missing_prediction")
        .when(~F.coalesce(is_share, F.lit(False)), "invalid_prediction")
        .when(F.col(OUTCOME).isNull(), "invalid_outcome")
        .when(~F.coalesce(is_weight, F.lit(False)), "invalid_weight")
    )
    names = quoted(read.columns[:-4])
    value = F.when(reason.isNull(), F.col(PREDICTION)).alias(PREDICTION)
    return read.select(*names, value, OUTCOME, "__w", reason.alias(REASON))


def count_cells(values: DataFrame, keys: Sequence[str], *, weighted: bool = False) -> DataFrame:
    """Count the rows of :func:`with_values` by group and cell."""
    located = values.select("*", cell(F.col(PREDICTION)).alias(CELL))
    counted = located.select("*", units_above_anchor(F.col(PREDICTION), F.col(CELL)).alias("__above"))
    return counted.groupBy(*quoted(keys), REASON, CELL).agg(*_aggregates(weighted=weighted))


def merge(tables: DataFrame, by: Sequence[str] | None = None) -> DataFrame:
    """Sum tables by group and cell.

    Parameters
    ----------
    tables
        What :func:`score_tables` returned, or the union of several.
    by
        The columns to group by from now on, some of those that the tables are grouped by; all of them if left out.

    Raises
    ------
    InputError
        These are no score tables, or are not grouped by such a column.
    """
    grouped = group_columns(tables)
    keys = grouped if by is None else list(by)
    if unknown := [name for name in keys if name not in grouped]:
        raise InputError(f"these tables are grouped by {', '.join(grouped) or 'nothing'}, not by {unknown[0]!r}")
    sums = [name for name in tables.columns if name not in {*grouped, REASON, CELL}]
    return tables.groupBy(*quoted(keys), REASON, CELL).agg(
        *(F.sum(F.col(name)).cast(tables.schema[name].dataType).alias(name) for name in sums)
    )


def group_columns(tables: DataFrame) -> list[str]:
    """Names of the columns that tables are grouped by.

    Raises
    ------
    InputError
        These are no score tables.
    """
    if missing := [name for name in COLUMNS if name not in tables.columns]:
        raise InputError(f"these are no score tables, which have a column {missing[0]!r}: make them by score_tables")
    return [name for name in tables.columns if name not in {*COLUMNS, *WEIGHTS}]


def _aggregates(*, weighted: bool) -> list[Column]:
    accepted = F.col(REASON).isNull()
    rows = {
        name: accepted & (F.col(OUTCOME) == outcome)
        for name, outcome in zip(COUNTS, (_POSITIVE, _NEGATIVE, UNLABELLED), strict=True)
    }
    result = [F.count_if(is_row).alias(name) for name, is_row in rows.items()]
    result += [_sum(F.col("__above"), is_row, name) for name, is_row in zip(SUMS, rows.values(), strict=True)]
    result.append(F.count_if(~accepted).alias(REJECTED))
    if weighted:
        weight = F.col("__w")
        parts = (weight * grid.UNITS, weight * F.col("__above"), weight * weight * grid.UNITS)
        labelled = (rows["positives"], rows["negatives"])
        pairs = [(part, is_row) for part in parts for is_row in labelled]
        result += [
            _sum(F.rint(part).cast(_WHOLE), is_row, name) for name, (part, is_row) in zip(WEIGHTS, pairs, strict=True)
        ]
    return result


def _sum(values: Column, rows: Column, name: str) -> Column:
    total = F.coalesce(F.sum(F.when(rows, values)), F.lit(0))
    return total.cast(_WHOLE if name in WEIGHTS else "bigint").alias(name)


def quoted(names: Sequence[str]) -> list[Column]:
    """Columns by names that may hold dots."""
    return [F.col(f"`{name.replace('`', '``')}`") for name in names]


def column_of(df: DataFrame, column: str | Column, role: str) -> Column:
    """A column by name or as an expression; raises InputError if there is none of that name."""
    if isinstance(column, Column):
        return column
    if column not in df.columns:
        raise InputError(f"there is no column {column!r} for the {role}; columns are {', '.join(df.columns)}")
    return quoted([column])[0]


def _typed(df: DataFrame, column: str | Column, role: str) -> tuple[Column, T.DataType]:
    expression = column_of(df, column, role)
    return expression, df.select(expression).schema[0].dataType


def id_of(df: DataFrame, column: str | Column) -> Column:
    """Ids as text. Raises InputError for bytes, for which no text is certain: events hold the one of their writer."""
    expression, kind = _typed(df, column, "id")
    if isinstance(kind, T.BinaryType):
        raise InputError(
            f"ids in column {column!r} are bytes: give a column of text as the events have it, such as one of hex(id)"
        )
    return expression.cast("string")


def number_of(df: DataFrame, column: str | Column, role: str) -> Column:
    """A column as double, null where text spells no number. Raises InputError for other types."""
    expression, kind = _typed(df, column, role)
    if isinstance(kind, T.StringType):
        return expression.try_cast("double")
    if isinstance(kind, T.NumericType | T.NullType):
        return expression.cast("double")
    hint = "; of an array of the probabilities of 0 and 1 pass F.get(column, F.lit(1))" if role == "prediction" else ""
    raise InputError(f"{role} must be a column of numbers, got one of {kind.simpleString()}{hint}")


def outcome_of(df: DataFrame, column: str | Column, positive: str | None) -> Column:
    """A column as 1, 0, UNLABELLED, or null where it is no outcome. Raises InputError for other types."""
    expression, kind = _typed(df, column, "outcome")
    if not isinstance(kind, T.StringType | T.NumericType | T.BooleanType | T.NullType):
        raise InputError(f"outcome must be a column of numbers, booleans or text, got one of {kind.simpleString()}")
    if isinstance(kind, T.BooleanType):
        expression = expression.cast("int")
    text = F.lower(F.trim(expression.cast("string")))
    if positive is not None:
        read = F.when(_spells(text, kind, positive), _POSITIVE).otherwise(_NEGATIVE)
    elif isinstance(kind, T.StringType):
        read = _when_one(text.try_cast("double"))
        for spelling in (UNLABELLED, _POSITIVE, _NEGATIVE):
            words = [word for word, outcome in OUTCOME_SPELLINGS.items() if outcome == spelling]
            read = F.when(text.isin(words), spelling).otherwise(read)
    else:
        read = _when_one(expression)
    is_missing = expression.isNull() | text.isin(*MISSING_WORDS)
    return F.when(is_missing, UNLABELLED).otherwise(read).cast("int")


def _when_one(number: Column) -> Column:
    return F.when(number == 1, _POSITIVE).when(number == 0, _NEGATIVE)


def _spells(text: Column, kind: T.DataType, positive: str) -> Column:
    """Whether a value is the positive one, as ``--positive`` of ``monitor report`` compares."""
    wanted = positive.strip().lower()
    if isinstance(kind, T.BooleanType):
        return text == {"true": "1", "false": "0"}.get(wanted, wanted)
    try:
        number = float(wanted)
    except ValueError:
        return text == wanted
    return (text == wanted) | F.coalesce(text.try_cast("double") == number, F.lit(False))
