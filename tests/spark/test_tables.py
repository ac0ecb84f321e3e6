"""Score tables from Spark are those that the library makes of the same rows, and no row is lost."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from monitor.arrays import Floats
from monitor.errors import InputError
from monitor.scores import GridTable, grid
from monitor.spark import merge, score_tables
from monitor.spark.reports import Counted
from monitor.spark.tables import COUNTS, REJECTED, SUMS


def events(rows: int) -> tuple[Floats, Floats, Floats]:
    """Predictions with ties, edges and ends, outcomes of which some are unknown, and weights with ties."""
    rng = np.random.default_rng(1)
    p = np.round(1.0 / (1.0 + np.exp(-rng.normal(-2.0, 2.0, rows))), rng.integers(2, 9))
    p[: grid.cell_count()] = grid.edges()
    y = (rng.random(rows) < p).astype(np.float64)
    y[::7] = np.nan
    return p, y, rng.integers(0, 40, rows) / 8.0


def rejected(tables: DataFrame) -> dict[str, int]:
    """Reason -> rows that could not be counted."""
    return {row["reason"]: row[REJECTED] for row in tables.where("reason is not null").collect()}


def counts(tables: DataFrame) -> tuple[int, ...]:
    """Positives, negatives, unanswered predictions."""
    return tuple(tables.groupBy().sum(*COUNTS).collect()[0])


def test_tables_are_those_of_the_library_in_any_order_and_partition(frame: Callable[..., DataFrame]) -> None:
    p, y, _ = events(30_000)
    group = np.arange(p.size) % 3
    df = frame(score=p, label=y, group=group)
    tables = score_tables(
        df.repartition(5).sortWithinPartitions("label"), ["group"], prediction="score", outcome="label"
    )
    by_group = {row["group"]: row for row in tables.groupBy("group").sum(*COUNTS, *SUMS).collect()}
    answered = np.where(np.isnan(y), -1.0, y)
    for number in range(3):
        rows = tables.where(F.col("group") == number).toArrow()
        assert Counted.of(rows).table == GridTable.from_events(p[group == number], answered[group == number])
        assert sum(by_group[number][f"sum({name})"] for name in COUNTS) == (group == number).sum()
    # Tables of parts add up to that of the whole, whichever way the rows were divided.
    parts = [
        score_tables(
            df.where(F.col("score") <= limit if low else F.col("score") > limit), prediction="score", outcome="label"
        )
        for limit in (0.1,)
        for low in (True, False)
    ]
    whole = merge(tables, by=[])
    assert Counted.of(merge(parts[0].union(parts[1])).toArrow()).table == Counted.of(whole.toArrow()).table
    assert Counted.of(whole.toArrow()).table == GridTable.from_events(p, answered)


def test_what_cannot_be_counted_is_counted_by_reason(spark: SparkSession) -> None:
    schema = "p double, y double, w double"
    rows = [
        *[(0.5, 1.0, 1.0), (0.5, 0.0, 0.0), (0.0, None, 1.0), (1.0, float("nan"), 1.0), (-0.0, 1.0, 1.0)],
        *[(None, 1.0, 1.0), (float("nan"), 1.0, 1.0), (-1e-300, 1.0, 1.0), (1.0000000000000002, 0.0, 1.0)],
        *[(float("inf"), 0.0, 1.0), (0.5, 2.0, 1.0), (0.5, -1.0, 1.0), (0.5, 0.5, 1.0)],
        *[(0.5, 1.0, -1.0), (0.5, 1.0, None), (0.5, 1.0, float("nan")), (0.5, 1.0, 2.0**20 + 1.0)],
    ]
    tables = score_tables(spark.createDataFrame(rows, schema), prediction="p", outcome="y", weight="w")
    assert rejected(tables) == {
        "missing_prediction": 1,
        "invalid_prediction": 4,
        "invalid_outcome": 3,
        "invalid_weight": 4,
    }
    assert counts(tables) == (2, 1, 2)
    assert sum(counts(tables)) + sum(rejected(tables).values()) == len(rows)


@pytest.mark.parametrize(
    ("values", "kind", "positive", "expected"),
    [
        ([True, False, None], "boolean", None, (1, 1, 1)),
        ([1, 0, 2, None], "int", None, (1, 1, 1)),
        ([Decimal("1.000"), Decimal(0), Decimal("1.001"), None], "decimal(5,3)", None, (1, 1, 1)),
        (["1", "1.0", "true", " Yes", "0", "no", "F", "", "nan", "maybe", None], "string", None, (4, 3, 3)),
        (["bad", "good", "BAD ", "", None], "string", "bad", (2, 1, 2)),
        ([2, 1, None], "int", "2", (1, 1, 1)),
        ([True, False], "boolean", "false", (1, 1, 0)),
    ],
)  # fmt: skip
def test_outcomes_of_many_types_are_read(
    spark: SparkSession, values: Sequence[Any], kind: str, positive: str | None, expected: tuple[int, ...]
) -> None:
    df = spark.createDataFrame([(0.3, value) for value in values], f"prediction double, outcome {kind}")
    tables = score_tables(df, positive=positive)
    assert counts(tables) == expected
    assert sum(expected) + sum(rejected(tables).values()) == len(values)


def test_predictions_of_many_types_are_read(spark: SparkSession) -> None:
    text = spark.createDataFrame([("0.25", 1), ("1e-3", 0), ("a", 1), ("", 1)], "prediction string, outcome int")
    assert rejected(score_tables(text)) == {"invalid_prediction": 2}
    decimal = spark.createDataFrame([(Decimal("0.1"), 1), (Decimal("1.5"), 0)], "prediction decimal(3,1), outcome int")
    tables = score_tables(decimal)
    assert rejected(tables) == {"invalid_prediction": 1}
    assert Counted.of(tables.toArrow()).table == GridTable.from_events([0.1], [1])


def test_wrong_columns_are_refused_with_what_to_do(spark: SparkSession) -> None:
    df = spark.createDataFrame([(0.3, 1, "a", [0.3])], "p double, outcome int, cell string, vector array<double>")
    of_two = score_tables(df.withColumn("both", F.array(1 - F.col("p"), "p")), prediction=F.get("both", F.lit(1)))
    assert Counted.of(of_two.toArrow()).table == GridTable.from_events([0.3], [1])
    with pytest.raises(InputError, match="there is no column 'prediction' for the prediction; columns are p, outcome"):
        score_tables(df)
    with pytest.raises(
        InputError, match="prediction must be a column of numbers, got one of array<double>; of an array of"
    ):
        score_tables(df, prediction="vector")
    with pytest.raises(InputError, match="by must not name a column 'cell', which tables have"):
        score_tables(df, ["cell"], prediction="p")
    with pytest.raises(InputError, match="no score tables, which have a column 'reason'"):
        merge(df)
    tables = score_tables(df.withColumnRenamed("cell", "my.group"), ["`my.group`"], prediction="p")
    with pytest.raises(InputError, match=r"grouped by my\.group, not by 'day'"):
        merge(tables, by=["day"])
