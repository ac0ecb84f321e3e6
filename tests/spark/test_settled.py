"""What a scheduled job makes of two landed topics is what the service makes of their log, also after kills."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

from monitor.app.parts import make_evaluator, make_panes, make_watcher, open_store
from monitor.app.settings import Settings
from monitor.clock import SystemClock
from monitor.events.model import ALL
from monitor.spark import join
from monitor.store.base import BACKFILL
from monitor.store.schema import CLOSINGS, HISTORY, META, MODELS
from monitor.windows.panes import read_closings
from tests.cli.command import inside, one_error_line
from tests.long import longer
from tests.real.spark import java_home
from tests.spark.landed import (
    CLOCK,
    DAYS,
    PARTITIONS,
    Landed,
    make_events,
    options,
    panes_of,
    serve,
    settings_of,
    write_lake,
)

EVENTS = 4_000
EDGE = "2023-11-19T22:30:00.000Z"


class Served(NamedTuple):
    """The events, and a store that the service filled from them."""

    landed: Landed
    folder: Path
    settings: Settings
    counts: dict[tuple[str, str], int]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    folder, landed = tmp_path_factory.mktemp("served"), make_events(3, EVENTS)
    settings = settings_of(folder, "service")
    return Served(landed, folder, settings, dict(serve(folder, settings, landed)))


def reports_and_evidence(settings: Settings) -> tuple[Any, Any]:
    with open_store(settings, CLOCK) as store:
        panes = make_panes(settings)
        read_closings(store, panes)
        reports = make_evaluator(settings, panes, CLOCK).evaluate().reports
        evidence = make_watcher(settings, panes, store, SystemClock()).update({"churn": 1}).evidence["churn"]
    return reports, evidence.versions


def backfill(folder: Path, store: str, *more: str) -> str:
    done = inside(*options(folder, store), *more, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_closings_reports_and_evidence_are_those_of_the_service(
    spark: SparkSession, served: Served, tmp_path: Path
) -> None:
    write_lake(tmp_path, served.landed)
    settings = settings_of(tmp_path, "whole")
    said = backfill(tmp_path, "whole")
    expected = panes_of(served.settings, *range(PARTITIONS))
    assert panes_of(settings, BACKFILL) == expected != {}
    reports, evidence = reports_and_evidence(settings)
    of_service, evidence_of_service = reports_and_evidence(served.settings)
    assert {key.series.version for key in reports} == {"1", "2"}
    assert reports == of_service
    assert evidence == evidence_of_service != {}
    left = re.fullmatch(rf"(\d+) predictions from {EDGE} on are not settled yet.*", said.splitlines()[-1])
    assert left is not None
    # Whatever was accepted is either in the store or left to the next run.
    of_whole = [table for (_, series), table in expected.items() if series.segment == ALL]
    kept = sum(table.predictions for table in of_whole)
    assert int(left[1]) + kept == served.counts["prediction", "accepted"]
    # Run again, it finds nothing new.
    assert f"churn: no predictions have settled since {EDGE}" in backfill(tmp_path, "whole")
    assert panes_of(settings, BACKFILL) == expected


def test_counts_are_those_of_the_service(spark: SparkSession, served: Served, tmp_path: Path) -> None:
    write_lake(tmp_path, served.landed)
    tables = (spark.read.parquet(str(tmp_path / name)) for name in ("scores", "labels"))
    counts = join(*tables, horizon="2h", lateness="30m").counts()
    found, expected = ({key: count for key, count in of.items() if count} for of in (counts, served.counts))
    # An outcome whose prediction has left the join waits, and is an orphan; the table of the lake still has it.
    apart = [("outcome", result) for result in ("early", "orphan", "after_horizon")]
    assert sum(found.pop(key, 0) for key in apart) == sum(expected.pop(key, 0) for key in apart)
    assert found == expected
    assert len(found) == 9


def test_night_after_night_gives_the_same_as_once(spark: SparkSession, served: Served, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "nights")
    ends = []
    for share in (0.1, 0.45, 0.5, 0.8, 1.0):
        write_lake(tmp_path, served.landed.until(share))
        backfill(tmp_path, "nights")
        with open_store(settings, CLOCK) as store:
            ends.append(store.clocks()["churn"][BACKFILL])
    assert panes_of(settings, BACKFILL) == panes_of(served.settings, *range(PARTITIONS))
    assert len({clock.closed_to_ms for clock in ends}) == len(ends)
    # What goes on is no new backfill: evidence goes on with it.
    assert len({clock.saved_ms for clock in ends}) == 1
    assert reports_and_evidence(settings) == reports_and_evidence(served.settings)


def content(settings: Settings) -> list[Any]:
    """All that backfills write, to the last byte, without the times at which they did."""
    columns = {
        CLOSINGS: ("model", "from_ms", "to_ms", "pane_ms", "cells"),
        MODELS: ("name", "closed_to_ms", "prediction_watermark_ms"),
        META: ("key", "value"),
        HISTORY: tuple(column.name for column in HISTORY.columns),
    }
    with open_store(settings, CLOCK) as store, store.database.reading() as connection:
        of_tables = []
        for table, names in columns.items():
            rows = connection.execute(sa.select(*(table.c[name] for name in names)).order_by(*table.primary_key))
            of_tables.append([tuple(row) for row in rows if table is not META or row.key.startswith("backfill/")])
    return of_tables


@pytest.mark.longer
@pytest.mark.timeout(1_800)  # several sessions of Spark are started
def test_a_driver_that_is_killed_leaves_the_same_store(spark: SparkSession, served: Served, tmp_path: Path) -> None:
    write_lake(tmp_path, served.landed)
    once, killed = settings_of(tmp_path, "once"), settings_of(tmp_path, "killed")
    spans = backfill(tmp_path, "once").count("are in the store")
    assert spans == DAYS
    submit = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home(tmp_path / "java")),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": " ".join(
            ["--master local[2]", *(f"--conf {key}={value}" for key, value in submit.items()), "pyspark-shell"]
        ),
    }
    command = [sys.executable, "-m", "monitor", *options(tmp_path, "killed")]
    rng = np.random.default_rng(7)

    def run(kill_after: int | None) -> int:
        """Run the job, in a group of its own; kill it some time after so many spans. Returns the spans it saved."""
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        saved = 0
        with process:
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    saved += "are in the store" in line
                    if kill_after is not None and saved == kill_after:
                        time.sleep(rng.uniform(0.0, 0.2))
                        break
            finally:
                if kill_after is not None:
                    os.killpg(process.pid, signal.SIGKILL)
        return saved

    for kill_after in longer((1,), (1, 2)):
        run(kill_after)
        assert content(killed) != content(once)
    run(None)
    assert content(killed) == content(once)


def test_what_cannot_be_joined_is_said(spark: SparkSession, served: Served, tmp_path: Path) -> None:
    settings_of(tmp_path, "bad")
    landed = served.landed.until(0.5)
    broken = [{**row, "p": 1.5 if at % 100 == 0 else row["p"]} for at, row in enumerate(landed.scores)]
    write_lake(tmp_path, landed._replace(scores=broken))
    command = options(tmp_path, "bad")

    def error(*more: str) -> str:
        return one_error_line(inside(*command, *more, cwd=tmp_path))

    count = len(broken[::100])
    assert f"{count} events cannot be joined: invalid prediction; add --skip-bad-rows" in error()
    assert "--settled needs --spark, --predictions and --outcomes, and neither FILE nor --replace" in error("--replace")
    assert "there is no column 'log_offset' for the order" in error("--order", "log_offset")
    assert "order must be a column of offsets or timestamps, got one of double" in error("--order", "p")
    done = inside(*command, "--skip-bad-rows", cwd=tmp_path)
    assert f"{count} events left out: invalid prediction" in done.stderr
    # Of one partition little has landed.
    kept = [row for row in landed.scores if row["partition"] or row["offset"] < 10]
    write_lake(tmp_path, landed._replace(scores=kept))
    settings_of(tmp_path, "held")
    assert "partition 0 holds the others back, which are settled to 2023-11-1" in backfill(tmp_path, "held")
