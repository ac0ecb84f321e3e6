"""One Spark session for all tests of the run."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.real.spark import local_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A running local Spark."""
    session = local_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def frame(spark: SparkSession, tmp_path: Path) -> Callable[..., DataFrame]:
    """Makes a DataFrame of a Parquet file with these columns."""

    def read(**columns: Any) -> DataFrame:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
        pq.write_table(pa.table(columns), path)
        return spark.read.parquet(str(path))

    return read
