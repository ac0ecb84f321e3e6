"""What Spark reads for a backfill is what the file reader makes of the same rows, to the last count."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from monitor.app.backfill import past_predictions
from monitor.app.settings import Settings, load_settings
from monitor.app.spark_backfill import read_by_spark
from monitor.errors import InputError
from monitor.events.strata import Caps
from monitor.sources.tables import Columns, read_table
from tests.spark.test_tables import events

COLUMNS = Columns(["p"], "y", "ts")
START_MS = 1_700_000_000_000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "monitor.yaml").write_text(
        "models: {defaults: {horizon: 1h, allowed_lateness: 10m, segments: [region]}}"
    )
    return load_settings(tmp_path / "monitor.yaml", {})


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.int64()])
def test_panes_are_those_of_the_file_reader(
    spark: SparkSession, settings: Settings, tmp_path: Path, kind: pa.DataType
) -> None:
    p, y, _ = events(8_000)
    rng = np.random.default_rng(3)
    milliseconds = START_MS + rng.integers(0, 3 * 86_400_000, p.size)
    ts = pa.array(milliseconds if kind == pa.int64() else milliseconds * 1000 + 999, pa.int64()).cast(kind)
    region = rng.choice(["eu", "us", ""], p.size).astype(object)
    region[::50] = None
    (tmp_path / "rows").mkdir()
    table = pa.table({"p": p, "y": y, "ts": ts, "region": pa.array(region, pa.string())})
    pq.write_table(table[:3_000], tmp_path / "rows" / "a.parquet")
    pq.write_table(table[3_000:], tmp_path / "rows" / "b.parquet")
    pq.write_table(table, tmp_path / "whole.parquet")
    found = read_by_spark(
        settings,
        "churn",
        str(tmp_path / "rows"),
        COLUMNS,
        version="2",
        to_ms=None,
    )
    read = read_table(tmp_path / "whole.parquet", Columns(segments=["region"]))
    expected = past_predictions(settings, "churn", read, version="2")
    assert found.panes.to_bytes() == expected.panes.to_bytes()
    assert found._replace(panes=expected.panes) == expected
    assert found.not_settled > 0


def test_values_beyond_the_cap_are_other_and_the_most_frequent_keep_their_names(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    p, y, _ = events(8_000)
    rng = np.random.default_rng(4)
    ts = START_MS + rng.integers(0, 86_400_000, p.size)
    region = rng.choice(["eu", "us", "asia", "other", ""], p.size, p=[0.2, 0.3, 0.1, 0.3, 0.1])
    pq.write_table(pa.table({"p": p, "y": y, "ts": ts, "region": region}), tmp_path / "rows.parquet")
    capped = settings.model_copy(update={"caps": Caps(segment_values=2)})
    found = read_by_spark(capped, "churn", str(tmp_path / "rows.parquet"), COLUMNS, version="2", to_ms=None)
    assert {name.segment for name in found.panes.names} == {"all", "region=us", "region=eu", "region=other"}
    read = read_table(tmp_path / "rows.parquet", Columns(segments=["region"]))
    expected = past_predictions(capped, "churn", read, version="2")
    assert found.panes.to_bytes() == expected.panes.to_bytes()
    whole = read_by_spark(settings, "churn", str(tmp_path / "rows.parquet"), COLUMNS, version="2", to_ms=None)
    assert found.predictions == whole.predictions


def test_rows_that_cannot_be_counted_are_refused_or_left_out(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    ts = [START_MS, None, START_MS, START_MS + 86_400_000]
    table = pa.table(
        {"p": [0.5, 0.5, 2.0, 0.5], "y": [1, 1, 1, 0], "ts": pa.array(ts, pa.int64()), "region": ["eu"] * 4}
    )
    path = tmp_path / "bad.parquet"
    pq.write_table(table, path)

    def read(rows: Path, *, skip: bool = False) -> int:
        columns = COLUMNS._replace(skip_bad_rows=skip)
        return read_by_spark(settings, "churn", str(rows), columns, version="", to_ms=None).predictions

    with pytest.raises(InputError, match="1 rows have no time"):
        read(path)
    pq.write_table(table.filter(table["ts"].is_valid()), path.with_name("no_time.parquet"))
    with pytest.raises(InputError, match="rows cannot be counted, the first for the reason invalid_prediction"):
        read(path.with_name("no_time.parquet"))
    assert read(path, skip=True) == 1
    pq.write_table(table.drop(["region"]), path.with_name("bare.parquet"))
    with pytest.raises(InputError, match="there is no column 'region' for the segment"):
        read(path.with_name("bare.parquet"), skip=True)
