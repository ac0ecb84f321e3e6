"""Backfills that spark-submit starts read Delta tables as of their newest version: the closings of the file reader.

Two landed topics give those of the service.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
import yaml
from deltalake import write_deltalake

from monitor.app.parts import open_store
from monitor.app.settings import load_settings
from monitor.clock import SystemClock
from monitor.store.base import BACKFILL
from monitor.store.schema import CLOSINGS
from tests.cli.command import inside
from tests.real.delta import spark_submit
from tests.spark.landed import PARTITIONS, landed_table, make_events, options, panes_of, serve, settings_of

START_MS = 1_700_000_000_000
COMMAND = Path(__file__).parents[2] / "deploy" / "spark" / "monitor_command.py"


def rows(seed: int, count: int = 2_000) -> pa.Table:
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(1.0, 3.0, count), 3)
    ts = pa.array((START_MS + rng.integers(0, 3 * 86_400_000, count)) * 1000, pa.timestamp("us", "UTC"))
    y, region = (rng.random(count) < p).astype(np.int64), rng.choice(["eu", "us"], count)
    return pa.table({"score": p, "label": y, "ts": ts, "region": region})


def closings(folder: Path, store: str) -> list[tuple[object, ...]]:
    settings = load_settings(folder / f"{store}.yaml", {})
    columns = [CLOSINGS.c[name] for name in ("from_ms", "to_ms", "pane_ms", "cells")]
    with open_store(settings, SystemClock()) as opened, opened.database.reading() as connection:
        return [tuple(row) for row in connection.execute(sa.select(*columns).order_by(CLOSINGS.c.to_ms))]


def test_a_delta_table_is_backfilled_by_spark_submit(tmp_path: Path) -> None:
    table = tmp_path / "scores"
    # Files of earlier versions lie in the folder, too.
    write_deltalake(table, rows(1))
    write_deltalake(table, rows(2), mode="overwrite")
    write_deltalake(table, rows(3), mode="append")
    names = ["--prediction", "score", "--outcome", "label", "--time", "ts", "--model", "churn", "--batch", "2023"]
    for store in ("spark", "file"):
        tree = {
            "store": {"url": f"sqlite:///{tmp_path}/{store}.db"},
            "models": {"defaults": {"horizon": "1h", "allowed_lateness": "10m", "segments": ["region"]}},
            "evaluation": {"draws": 0},
        }
        (tmp_path / f"{store}.yaml").write_text(yaml.safe_dump(tree))
    done = spark_submit(
        tmp_path, COMMAND, "backfill", f"delta.`{table}`", "--spark", *names, "--config", tmp_path / "spark.yaml"
    )
    assert done.returncode == 0, done.stderr
    pq.write_table(pa.concat_tables([rows(2), rows(3)]), tmp_path / "scores.parquet")
    read = inside("backfill", "scores.parquet", *names, "--config", str(tmp_path / "file.yaml"), cwd=tmp_path)
    assert read.returncode == 0, read.stderr
    assert done.stdout.splitlines()[-1] == read.stdout.rstrip()
    assert closings(tmp_path, "spark") == closings(tmp_path, "file") != []


def test_landed_topics_in_delta_are_joined_as_the_service_joins_them(tmp_path: Path) -> None:
    landed = make_events(5, 900)
    for name, of_topic in landed._asdict().items():
        for number in range(3):
            write_deltalake(tmp_path / name, landed_table(of_topic[number::3]), mode="append")
    lake, service = settings_of(tmp_path, "lake"), settings_of(tmp_path, "service")
    done = spark_submit(tmp_path, COMMAND, *options(tmp_path, "lake", "delta.`{}`"))
    assert done.returncode == 0, done.stderr
    serve(tmp_path, service, landed)
    assert panes_of(lake, BACKFILL) == panes_of(service, *range(PARTITIONS)) != {}
