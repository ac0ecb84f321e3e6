"""The streaming job comes to what the service comes to on the same log, though it is killed twice with all of Spark.

Once after it has saved a batch and before Spark knows, once before it saves one. A service without the role consume
evaluates its store: reports, evidence and alerts are those of a service that reads the log itself.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from monitor.store.sql import SqlStore
from tests.cli.kafka_service import REPORTS, Log, Served, topics, unjoined_as_one, write_settings
from tests.patience import eventually
from tests.real.kafka import KafkaBroker
from tests.real.mixed_log import MODELS
from tests.spark.stream_job import StreamJob
from tests.stream.published import PublishedPanes, panes_of

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1200)]

EVENTS = 40_000
PARTITIONS = 4


def published(store: SqlStore) -> dict[tuple[str, int], tuple[int, PublishedPanes]]:
    """(model, partition) -> time up to which it is closed, and all its panes."""
    found: dict[tuple[str, int], tuple[int, PublishedPanes]] = {}
    clocks = store.clocks()
    for model in MODELS:
        for partition, closings in store.read_closings(model, dict.fromkeys(range(PARTITIONS), -1)).items():
            panes: PublishedPanes = {}
            for closing in closings:
                panes |= panes_of(closing)
            found[model, partition] = clocks[model][partition].closed_to_ms, panes
    return found


def counted(store: SqlStore) -> dict[tuple[str, str], int]:
    """Results of events over all partitions."""
    total: Counter[tuple[str, str]] = Counter()
    for partition in range(PARTITIONS):
        total.update({key: n for key, n in store.load(partition).counters.items() if key[0] in TYPES})
    return unjoined_as_one(total)


TYPES = ("prediction", "outcome", "labelled", "unknown")


def read_whole(store: SqlStore, suffix: str, log: Log) -> bool:
    """Whether all records are saved."""
    return sum(store.saved_offsets().get((topic, n), 0) for topic in topics(suffix) for n in range(PARTITIONS)) == len(
        log.lines
    )


def evaluated(served: Served) -> Mapping[str, Any]:
    """What it says of models, without the times at which it said so."""
    evidence = {model: served.get(f"/v1/models/{model}/evidence")[1] for model in MODELS}
    alerts = served.get("/v1/alerts?limit=1000")[1]
    return {"reports": served.get(REPORTS)[1].get("reports"), "evidence": evidence, "alerts": alerts}


def test_as_the_service_though_killed_twice(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    log = Log(tmp_path / "by-service", EVENTS, PARTITIONS)
    suffix = f"spark-{tmp_path.name}"
    write_settings(tmp_path / "by-service", kafka_broker, suffix)
    write_settings(tmp_path / "by-spark", kafka_broker, suffix, ["evaluate", "serve"])
    log.write(kafka_broker, suffix)
    job = StreamJob(tmp_path / "by-spark", EVENTS // 8)
    job.killed("after", 1)
    job.killed("before", 4)
    with SqlStore.open(f"sqlite:///{tmp_path}/by-spark/state.db") as by_spark:
        with job.running():
            eventually(lambda: read_whole(by_spark, suffix, log), shown=job.tail)
        with Served(tmp_path / "by-service") as service:
            service.reports_as(log.reports)
            with SqlStore.open(f"sqlite:///{tmp_path}/by-service/state.db") as by_service:
                assert read_whole(by_service, suffix, log)
                assert counted(by_spark) == counted(by_service)
                assert published(by_spark) == published(by_service)
            with Served(tmp_path / "by-spark") as evaluator:
                evaluator.reports_as(log.reports)
                evaluator.eventually(lambda: evaluated(evaluator) == evaluated(service), lambda: None)
