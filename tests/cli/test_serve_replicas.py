"""Three `monitor serve` on one store: every one that serves has all reports, each model is exported by one of them, and
others take over from one that ends, is paused or is killed."""

import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kafka_service import Log, Served, unjoined_as_one, write_settings
from tests.real.kafka import KafkaBroker

pytestmark = pytest.mark.kafka

EVENTS = 20_000
SUFFIX = "replicas"
ROLES = {
    "whole": ["consume", "evaluate", "serve"],
    "computing": ["evaluate", "serve"],
    "reading": ["consume"],
}


def partitions(served: Served) -> set[int]:
    """The partitions that a replica reads."""
    return set(served.get("/readyz")[1].get("partitions", ()))


def exported(served: Served) -> set[str]:
    """The models whose windows a replica exports."""
    return {
        dict(labels)["model"] for name, labels in served.samples() if name == "calibration_window_end_timestamp_seconds"
    }


def each_once(replicas: Sequence[Served], models: set[str]) -> bool:
    """Whether each of these models is exported by one of the replicas."""
    counted = Counter(model for replica in replicas for model in exported(replica))
    return counted == Counter(models)


def filled(reports: Sequence[Any]) -> list[Any]:
    """The reports of windows that hold predictions; others say in words when they will."""
    return [report for report in reports if report["predictions"]]


def same(replicas: Sequence[Served], reports: Sequence[Any]) -> bool:
    """Whether all of these replicas have these reports."""
    return all(filled(replica.reports()) == reports for replica in replicas)


def test_every_replica_has_all_reports_and_each_model_is_exported_by_one(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    for name, roles in ROLES.items():
        write_settings(
            tmp_path / name,
            kafka_broker,
            SUFFIX,
            roles,
            store={"url": f"sqlite:///{tmp_path}/state.db"},
            source={"kafka": {"session_timeout": "10s"}},
        )
    log = Log(tmp_path / "whole", EVENTS)
    models = {report["model"] for report in log.reports}
    assert len(models) > 1
    half = len(log.lines) // 2
    log.write(kafka_broker, SUFFIX, half)
    with (
        Served(tmp_path / "whole") as whole,
        Served(tmp_path / "computing") as computing,
        Served(tmp_path / "reading") as reading,
    ):
        for replica in (whole, computing, reading):
            replica.ready()
        whole.eventually(lambda: len(partitions(whole)) == len(partitions(reading)) == 2)
        assert partitions(whole) | partitions(reading) == {0, 1, 2, 3}
        log.write_rest(kafka_broker, SUFFIX, half)
        whole.eventually(lambda: sum(sum(one.counted().values()) for one in (whole, reading)) == len(log.lines))
        # Every replica that serves has the reports of the events in all partitions.
        reports = filled(log.reports)
        whole.eventually(lambda: same([whole, computing], reports), lambda: (whole.reports(), computing.reports()))
        # Each series of a model is exported once, and what the pipelines count adds up.
        whole.eventually(
            lambda: each_once([whole, computing, reading], models),
            lambda: [exported(replica) for replica in (whole, computing, reading)],
        )
        series = Counter(
            sample
            for replica in (whole, computing, reading)
            for sample in replica.samples()
            if "model" in dict(sample[1])
        )
        assert set(series.values()) == {1}
        counted: Counter[tuple[str, str]] = Counter()
        for replica in (whole, reading):
            counted.update(replica.counted())
        assert unjoined_as_one(counted) == unjoined_as_one(log.mixed.expected.counters)
        assert not computing.counted()

        # What is listed, and what one that does not serve answers.
        replicas = {tuple(one["roles"]): one for one in computing.get("/v1/replicas")[1]["replicas"]}
        assert set(replicas) == {tuple(sorted(roles)) for roles in ROLES.values()}
        assert sorted(model for one in replicas.values() for model in one["models"]) == sorted(models)
        assert "consume" in reading.get("/v1/reports")[1]["detail"]

        # One that is paused loses its models to the other, exports nothing of them when it goes on, and gets them back.
        before = exported(computing)
        computing.process.send_signal(signal.SIGSTOP)
        try:
            whole.eventually(lambda: exported(whole) == models, lambda: exported(whole))
            assert same([whole], reports)
        finally:
            computing.process.send_signal(signal.SIGCONT)

        def given_back() -> bool:
            # What it exports again, the other one does no more.
            exports = exported(computing)
            assert not exports & exported(whole)
            return exports == before

        computing.eventually(given_back, lambda: (exported(whole), exported(computing)))
        assert each_once([whole, computing], models)

        # One that is killed is followed too, in both roles.
        whole.kill()
        computing.eventually(lambda: exported(computing) == models, lambda: exported(computing))
        assert same([computing], reports)
        reading.eventually(lambda: partitions(reading) == {0, 1, 2, 3}, lambda: partitions(reading))
        assert unjoined_as_one(reading.counted()) == unjoined_as_one(log.mixed.expected.counters)

        # One that stops in order leaves nothing behind.
        with Served(tmp_path / "whole") as again:
            again.eventually(lambda: each_once([again, computing], models))
            computing.stop()
            again.eventually(lambda: exported(again) == models, lambda: exported(again))
            again.eventually(lambda: same([again], reports), again.reports)
            ids = again.get("/v1/replicas")[1]["replicas"]
            assert len([one for one in ids if one["roles"] == sorted(ROLES["computing"])]) == 0
