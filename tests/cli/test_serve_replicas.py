"""Two `monitor serve` of one consumer group on one store: each reports on what it holds, and takes over exactly."""

from pathlib import Path

import pytest

from tests.cli.kafka_service import Log, Served, reports_of, unjoined_as_one, write_settings
from tests.real.kafka import KafkaBroker

pytestmark = pytest.mark.kafka

EVENTS = 20_000
SUFFIX = "replicas"


def halves(one: Served, other: Served) -> list[set[int]]:
    """What two replicas hold, once each has two of the four partitions."""
    shares = [held(one), held(other)]
    return shares if [len(share) for share in shares] == [2, 2] and set.union(*shares) == {0, 1, 2, 3} else []


def held(served: Served) -> set[int]:
    """The partitions that a replica says it reports on."""
    return set(served.get("/v1/models")[1].get("partitions", ()))


def test_each_reports_on_its_own_partitions_and_takes_over_the_other_ones(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    folders = tmp_path / "one", tmp_path / "two"
    # Who is killed is missed after its session; who ends in order has one that nobody's patience would outlast.
    for folder, session in zip(folders, ("10s", "20m"), strict=True):
        source = {"kafka": {"session_timeout": session}}
        write_settings(folder, kafka_broker, SUFFIX, store={"url": f"sqlite:///{tmp_path}/state.db"}, source=source)
    log = Log(folders[0], EVENTS)
    half = len(log.lines) // 2
    log.write(kafka_broker, SUFFIX, half)
    with Served(folders[0]) as one, Served(folders[1]) as two:
        shares = one.eventually(lambda: halves(one, two), lambda: (held(one), held(two)))
        log.write_rest(kafka_broker, SUFFIX, half)
        for replica, partitions in zip((one, two), shares, strict=True):
            lines = [line for line in log.lines if line.partition in partitions]
            replica.reports_as(reports_of(replica.folder, lines))
            replica.counts(len(lines))
            assert replica.get("/readyz")[1]["partitions"] == sorted(partitions)

        two.stop()
        one.counts(len(log.lines))
        one.reports_as(log.reports)
        assert held(one) == {0, 1, 2, 3}
        assert unjoined_as_one(one.counted()) == unjoined_as_one(log.mixed.expected.counters)

        # One that is killed is missed once its session has timed out; what it saved is there.
        with Served(folders[1]) as three:
            three.eventually(lambda: halves(one, three), lambda: (held(one), held(three)))
            one.kill()
            three.counts(len(log.lines))
            three.reports_as(log.reports)
            assert unjoined_as_one(three.counted()) == unjoined_as_one(log.mixed.expected.counters)
