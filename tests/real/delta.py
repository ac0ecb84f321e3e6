"""Spark with Delta, whose jars are built for the minor version of Spark that tests have."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark

from tests.real.jars import delta_jars
from tests.real.spark import java_home

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def spark_submit(directory: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run spark-submit with Delta, locally; what it writes is under a directory."""
    home = Path(pyspark.__file__).parent
    command: list[str | Path] = [home / "bin" / "spark-submit", "--master", "local[2]"]
    command += ["--jars", ",".join(map(str, delta_jars()))]
    for key, value in (_SETTINGS | {"spark.local.dir": str(directory / "local")}).items():
        command += ["--conf", f"{key}={value}"]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java_home(directory / "java")),
        "PYSPARK_PYTHON": sys.executable,
    }
    return subprocess.run(
        [*command, *arguments], cwd=directory, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
