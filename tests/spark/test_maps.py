"""A map gives in Spark what it gives to arrays; what it cannot be applied to becomes null."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from monitor import recalibrate
from monitor.errors import InputError
from monitor.maps import METHODS, LabelledEvents, fit_map
from monitor.maps import apply_map as apply_to_arrays
from monitor.maps.artifact import from_bytes
from monitor.maps.temperature import Temperature
from monitor.spark import apply_map


def test_a_map_is_applied_as_to_arrays(frame: Callable[..., DataFrame], tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    p = rng.beta(1.0, 3.0, 6_000)
    y = (rng.random(p.size) < p**0.5).astype(float)
    found = recalibrate(p, y, methods=["beta"], draws=0)
    found.save(tmp_path / "beta.map")
    scored = p.copy()
    scored[:3] = np.nan, -0.5, 1.0
    rows = frame(score=scored, at=np.arange(p.size)).select("at", apply_map(tmp_path / "beta.map", "score").alias("q"))
    result = rows.orderBy("at").toArrow()["q"]
    assert result[:2].to_pylist() == [None, None]
    expected = apply_to_arrays(from_bytes((tmp_path / "beta.map").read_bytes()).map, scored[2:])
    assert np.array_equal(result[2:].to_numpy(), expected)


def test_features_and_segments_are_passed_on(frame: Callable[..., DataFrame]) -> None:
    rng = np.random.default_rng(3)
    p, x = rng.beta(2.0, 3.0, 2_000), rng.normal(size=(2_000, 2))
    group = rng.choice(["eu", "us"], p.size)
    y = rng.random(p.size) < p
    events = LabelledEvents.of(p, y.astype(int), features=x, segments={"region": group})
    df = frame(p=p, a=x[:, 0], b=x[:, 1], region=group, at=np.arange(p.size))
    local, by_group = (fit_map(METHODS[name], events) for name in ("lore", "group_wise_beta"))
    rows = df.select(
        "at", apply_map(local, "p", features=["a", "b"]), apply_map(by_group, "p", segment=F.col("region"))
    )
    result = rows.orderBy("at").toArrow()
    assert np.array_equal(result.column(1).to_numpy(), apply_to_arrays(local, p, features=x))
    assert np.array_equal(result.column(2).to_numpy(), apply_to_arrays(by_group, p, segments={"region": group}))


def test_what_a_map_needs_is_named(spark: SparkSession) -> None:
    with pytest.raises(InputError, match="a map of 3 classes is for vectors"):
        apply_map(Temperature(temperature=2.0, classes=3))
    with pytest.raises(InputError, match="the map needs no features, got 1 columns"):
        apply_map(Temperature(temperature=2.0, classes=2), features=["a"])
    with pytest.raises(InputError, match="the map needs no segment"):
        apply_map(Temperature(temperature=2.0, classes=2), segment="region")
