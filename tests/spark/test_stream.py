"""The streaming job comes to what the service comes to on the same log, though it is killed twice with all of Spark.

It reads over TLS with a log-in and writes to PostgreSQL; the service does without, and has SQLite. Once it is killed
after it has saved a batch and before Spark knows, once before it saves one. A service without the role consume
evaluates its store: reports, evidence and alerts are those of a service that reads the log itself.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from monitor.store.alerts import AlertStore
from monitor.store.sql import SqlStore
from tests.cli.kafka_service import REPORTS, Log, Served, topics, unjoined_as_one, write_settings
from tests.patience import eventually
from tests.real.kafka import PASSWORD, USERNAME, KafkaBroker
from tests.real.mixed_log import MODELS, LogLine
from tests.real.postgres import PostgresServer
from tests.spark.stream_job import StreamJob
from tests.stream.published import PublishedPanes, panes_of

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.timeout(1200)]

EVENTS = 24_000
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


def drifting(lines: Sequence[LogLine]) -> list[LogLine]:
    """The lines with every other outcome of one model positive, so that there is an alert."""
    of_model = [at for at, line in enumerate(lines) if b'"model":"churn"' in line.value and b'"y":0' in line.value]
    changed = list(lines)
    for at in of_model[::2]:
        changed[at] = replace(lines[at], value=lines[at].value.replace(b'"y":0', b'"y":1'))
    return changed


def evaluated(served: Served) -> Mapping[str, Any]:
    """Reports of all windows with what evidence says of them, and the evidence on all models."""
    evidence = {model: served.get(f"/v1/models/{model}/evidence")[1] for model in MODELS}
    return {"reports": served.get(REPORTS)[1].get("reports"), "evidence": evidence}


def alerts_of(store: SqlStore) -> list[tuple[Any, ...]]:
    """All alerts without ids and wall-clock times."""
    found = [(*alert.key, alert.reason, asdict(alert.finding)) for alert in AlertStore(store.database).alerts(limit=99)]
    return sorted(found, key=lambda row: row[:3])


def test_as_the_service_though_killed_twice(
    tmp_path: Path, kafka_broker: KafkaBroker, postgres_server: PostgresServer
) -> None:
    log = Log(tmp_path / "by-service", EVENTS, PARTITIONS)
    log.lines = drifting(log.lines)
    encrypted = {
        "bootstrap_servers": kafka_broker.address("SASL_SSL"),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(kafka_broker.ca_file),
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": USERNAME,
        "sasl_plain_password": PASSWORD,
    }
    suffix = f"spark-{tmp_path.name}"
    write_settings(tmp_path / "by-service", kafka_broker, suffix)
    database = postgres_server.url(postgres_server.new_database())
    changes = {"source": {"kafka": encrypted}, "store": {"url": database}}
    write_settings(tmp_path / "by-spark", kafka_broker, suffix, ["evaluate", "serve"], **changes)
    log.write(kafka_broker, suffix)
    job = StreamJob(tmp_path / "by-spark", EVENTS // 6)
    job.killed("after", 1)
    job.killed("before", 3)
    with (
        SqlStore.open(database) as by_spark,
        SqlStore.open(f"sqlite:///{tmp_path}/by-service/state.db") as by_service,
    ):
        with job.running():
            eventually(lambda: read_whole(by_spark, suffix, log), shown=job.tail)
        with Served(tmp_path / "by-service") as service:
            service.reports_as(log.reports)
            assert read_whole(by_service, suffix, log)
            assert counted(by_spark) == counted(by_service)
            assert by_spark.count_dead_letters() == by_service.count_dead_letters()
            assert published(by_spark) == published(by_service)
            assert sum(len(panes) for _, panes in published(by_spark).values()) > 1_000
            with Served(tmp_path / "by-spark") as evaluator:
                evaluator.reports_as(log.reports)
                evaluator.eventually(lambda: evaluated(evaluator) == evaluated(service), lambda: evaluated(evaluator))
                evaluator.eventually(lambda: alerts_of(by_spark) == alerts_of(by_service), lambda: alerts_of(by_spark))
            assert any(row[0] == "churn" for row in alerts_of(by_spark))
