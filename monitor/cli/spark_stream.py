"""`monitor spark-stream`: the topics into closings by Spark, in place of the service's own reading."""

import importlib.util
import logging
import signal
import threading
from datetime import timedelta
from functools import partial
from typing import Annotated

import typer

from monitor.app.logs import configure_logs
from monitor.app.parts import open_store
from monitor.cli.options import ConfigOption, read_settings
from monitor.clock import SystemClock
from monitor.durations import parse_duration
from monitor.errors import InputError, SparkFailed

app = typer.Typer(add_completion=False)


@app.command(
    "spark-stream",
    epilog="Example: `spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 "
    "deploy/spark/monitor_command.py spark-stream --checkpoint s3a://lake/stream --config monitor.yaml`.",
)
def spark_stream_command(
    *,
    checkpoint: Annotated[
        str,
        typer.Option(
            "--checkpoint", metavar="FOLDER", help="Where Spark keeps offsets and state. It belongs to the store."
        ),
    ],
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="How far batches are apart at least.")
    ] = "10s",
    max_records: Annotated[
        int, typer.Option("--max-records", metavar="N", min=1, help="How many records a batch reads at most.")
    ] = 1_000_000,
    config: ConfigOption = None,
) -> None:
    """Read the topics by Spark, and write closings into the store, until SIGTERM.

    For a join that outgrows the memory of the service: predictions wait for their outcomes in Spark's state store, on
    disk. The rules are those of the service, and so are the numbers. Run the service beside it with
    `roles: [evaluate, serve]`.
    """
    settings = read_settings(config)
    configure_logs("info", "auto")
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs each call
    if importlib.util.find_spec("pyspark") is None:
        raise InputError("spark-stream needs pyspark: pip install 'calibration-monitor[spark]'")
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - an extra
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from monitor.app.spark_stream import start_stream  # noqa: PLC0415

    spark = SparkSession.builder.getOrCreate()
    query = start_stream(
        spark,
        settings,
        partial(open_store, settings, SystemClock()),
        folder=checkpoint,
        batch_seconds=_duration(interval).total_seconds(),
        max_records=max_records,
    )

    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    typer.echo(f"the query is {query.id}")
    try:
        # Spark must not be called from the handler of a signal, which may interrupt another call.
        while not (stopping.is_set() or query.awaitTermination(1)):
            pass
    except StreamingQueryException as error:
        raise SparkFailed(f"the query failed: {_reason(str(error))}") from error
    query.stop()
    spark.stop()


def _reason(error: str) -> str:
    """The line of an error that says why: Spark quotes the traceback of what failed in Python."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("monitor.errors.")]
    return ours[-1].removeprefix("monitor.errors.") if ours else lines[0]


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InputError(f"--interval must be a duration such as 10s, got {text!r}") from error
