"""Refits of two `monitor serve` of one consumer group, on Kafka and PostgreSQL: what one does, both know."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli.refit_service import (
    Refitting,
    overconfident,
    replay,
    wait_until_gone,
    wait_until_sampled,
    write_settings,
)
from tests.real.kafka import KafkaBroker
from tests.real.postgres import PostgresProcess

pytestmark = pytest.mark.kafka

TOPIC = "refits-of-replicas"
P = [0.1, 0.5, 0.9]


def settings(broker: KafkaBroker, store: str) -> dict[str, Any]:
    kafka = {
        "bootstrap_servers": broker.bootstrap,
        "group_id": TOPIC,
        "session_timeout": "20s",
        "connect_timeout": "60s",
    }
    return {"store": {"url": store}, "source": {"kind": "kafka", "kafka": kafka, "topics": {"events": TOPIC}}}


def test_replicas_share_refits_and_survive_each_other_and_the_store(
    kafka_broker: KafkaBroker, own_postgres: PostgresProcess, tmp_path: Path
) -> None:
    url = own_postgres.url(own_postgres.new_database())
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        write_settings(folder, **settings(kafka_broker, url))
    kafka_broker.create_topic(TOPIC, 2)
    replay(folders[0], list(overconfident("churn", 3000, slope=2.5, features=lambda _: 4)))
    with Refitting(folders[0]) as one, Refitting(folders[1]) as two:
        both = (one, two)
        for served in both:
            served.ready()
        # The sample is of the partitions of both.
        for served in both:
            wait_until_sampled(served, url, {"churn": 2300})

        # Two ask at once, each another replica: one refit is made, and one replica runs it.
        def ask(served: Refitting) -> tuple[int, dict[str, Any]]:
            return served.ask_for("POST", "/v1/models/churn/recalibrations", {"method": "lore"})

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(ask, both))
        assert sorted(status for status, _ in answers) == [202, 409], answers
        (job,) = (body for status, body in answers if status == 202)
        busy = one.eventually(lambda: next((each for each in both if each.workers()), None), lambda: one.job(job))
        assert busy is not None
        idle = two if busy is one else one
        # However slow the machine is, it is not done before its service ends.
        worker = busy.working(job)
        worker.suspend()
        # The other one goes on with it, since it is given back, and not because its lease has run out.
        busy.stop()
        wait_until_gone(worker)
        job = idle.ended(job)
        assert (job["state"] in {"candidate", "rejected"}, job["attempts"]) == (True, 1), job

        with Refitting(busy.folder) as back:
            back.ready()
            champion = back.ended(back.refit("churn", method="temperature", promote=True))
            assert champion["state"] == "champion", champion["reason"]
            # Promoted by either: what serves is told by the store.
            idle.eventually(lambda: idle.recalibrate("churn", P)[1]["map"] == champion["id"])
            expected = back.recalibrate("churn", P)
            assert idle.recalibrate("churn", P) == expected

            # The store goes away: what served goes on, and what has to be written says so.
            own_postgres.stop()
            try:
                for served in (back, idle):
                    assert served.recalibrate("churn", P) == expected
                    status, problem = served.ask_for("POST", "/v1/models/churn/recalibrations", {})
                    assert (status, problem["type"].rpartition(":")[2]) == (503, "store-unavailable"), problem
                    assert "s3cret" not in str(problem)
                    assert served.ask_for("POST", "/v1/models/churn/rollback", {})[0] == 503
                    # Longer than it is good for.
                    served.eventually(lambda served=served: knows_that_it_is_away(served))  # type: ignore[misc]
                    assert served.recalibrate("churn", P) == expected
            finally:
                own_postgres.start()
            idle.eventually(lambda: idle.ask_for("POST", "/v1/models/churn/rollback", {})[0] == 200)
            back.eventually(lambda: back.recalibrate("churn", P)[1]["map"] is None)
            back.stop()
            idle.stop()


def knows_that_it_is_away(served: Refitting) -> bool:
    """Whether a replica has asked in vain who serves."""
    served.recalibrate("churn", P)
    return any(line["event"].startswith("champions cannot be read") for line in served.log())
