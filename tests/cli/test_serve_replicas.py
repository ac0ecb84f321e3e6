"""Two `monitor serve` of one consumer group on one store: each reports on what it holds, and takes over exactly."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.kafka_service import Log, Served, reports_of, unjoined_as_one, write_settings
from tests.real.kafka import KafkaBroker
from tests.real.mixed_log import LogLine

pytestmark = pytest.mark.kafka

EVENTS = 20_000
SUFFIX = "replicas"


def held(served: Served) -> set[int]:
    """The partitions that a replica says it reports on."""
    return set(served.get("/v1/models")[1].get("partitions", ()))


def test_each_reports_on_its_own_partitions_and_takes_over_the_other_ones(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        write_settings(folder, kafka_broker, SUFFIX, store={"url": f"sqlite:///{tmp_path}/state.db"})
    log = Log(folders[0], EVENTS)
    half = len(log.lines) // 2
    log.write(kafka_broker, SUFFIX, half)
    with Served(folders[0]) as one, Served(folders[1]) as two:
        one.eventually(lambda: len(held(one)) == len(held(two)) == 2, shown=lambda: (held(one), held(two)))
        assert held(one) | held(two) == {0, 1, 2, 3}
        log.write_rest(kafka_broker, SUFFIX, half)
        for replica in (one, two):
            partitions = held(replica)
            lines = [line for line in log.lines if line.partition in partitions]
            replica.reports_as(reports_of(replica.folder, lines))
            # Counts are published at the end of the turn in which the reports can be had already.
            replica.eventually(has(replica, lines), shown=replica.counted)
            assert replica.get("/readyz")[1]["partitions"] == sorted(partitions)

        assert two.stop() < 10
        one.eventually(has(one, log.lines), shown=one.counted)
        one.reports_as(log.reports)
        assert held(one) == {0, 1, 2, 3}
        assert unjoined_as_one(one.counted()) == unjoined_as_one(log.mixed.expected.counters)

        # One that is killed is missed once its session has timed out; what it saved is there.
        with Served(folders[1]) as three:
            three.eventually(lambda: len(held(three)) == 2 == len(held(one)))
            one.kill()
            three.eventually(has(three, log.lines), shown=three.counted)
            three.reports_as(log.reports)
            assert unjoined_as_one(three.counted()) == unjoined_as_one(log.mixed.expected.counters)


def has(served: Served, lines: list[LogLine]) -> Callable[[], bool]:
    """Whether a replica has counted as many events as there are lines."""
    return lambda: sum(served.counted().values()) == len(lines)
