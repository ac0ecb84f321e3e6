"""The cell of every double is that of the grid: at all edges, between them, and at the ends."""

import math
from collections.abc import Callable

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from monitor.scores import grid
from monitor.spark import score_tables
from monitor.spark.cells import cell, units_above_anchor


def test_cells_and_units_are_those_of_the_grid(frame: Callable[..., DataFrame]) -> None:
    edges = grid.edges()
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            edges,
            np.nextafter(edges, -math.inf)[1:],
            np.nextafter(edges, math.inf)[:-1],
            [-0.0, 5e-324, 2.2250738585072014e-308, 1e-300, 2.0**-53, 1.0 - 2.0**-53],
            rng.random(20_000),
            10.0 ** rng.uniform(-320.0, 0.0, 20_000),
            1.0 - 10.0 ** rng.uniform(-17.0, 0.0, 20_000),
            1.0 / (1.0 + np.exp(-rng.uniform(-18.0, 18.0, 20_000))),
        ]
    )
    predictions = values[(values >= 0.0) & (values <= 1.0)]
    located = frame(p=predictions).select("p", cell(F.col("p")).alias("cell"))
    rows = located.select("*", units_above_anchor(F.col("p"), F.col("cell")).alias("above")).toArrow()
    # Spark keeps the order of the rows of one partition, not of several.
    p = rows["p"].to_numpy()
    assert sorted(p) == sorted(predictions)
    expected = grid.locate(p)
    assert np.array_equal(rows["cell"].to_numpy(), expected)
    assert np.array_equal(rows["above"].to_numpy(), grid.to_units(p) - grid.anchors()[expected])


def test_the_plan_does_not_spell_out_the_grid(frame: Callable[..., DataFrame]) -> None:
    plan = score_tables(frame(p=[0.5], y=[1]), prediction="p", outcome="y")._jdf.queryExecution().toString()
    assert 1_000 < len(plan) < 50_000
