"""`monitor serve` while the broker, the topics or the messages are not what they should be."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from tests.cli.command import inside
from tests.cli.kafka_service import Log, Served, topics, typed, write_settings
from tests.long import short_of
from tests.real.kafka import KafkaBroker, KafkaProcess

pytestmark = pytest.mark.kafka

EVENTS = 6_000
GARBAGE = [b"\xffgarbage %d" % at for at in range(600)]


def small_log(folder: Path, broker: KafkaBroker, suffix: str, **changes: Any) -> Log:
    """A folder with settings, and a log that is not written yet."""
    write_settings(folder, broker, suffix, **changes)
    return Log(folder, EVENTS)


def test_the_broker_and_the_topics_come_late_and_the_broker_goes_and_comes_back(
    own_broker: KafkaProcess, tmp_path: Path
) -> None:
    suffix = "late"
    # A broker that comes back waits so long for the member that it remembers.
    log = small_log(tmp_path, own_broker, suffix, source={"kafka": {"session_timeout": "6s"}})
    own_broker.stop()
    with Served(tmp_path) as served:
        assert served.says("Connection refused") == (
            503,
            (
                "source_unavailable: the log of events cannot be read, and is retried: cannot connect to "
                f"Kafka at {own_broker.bootstrap}: Connection refused; trying again"
            ),
        )
        assert served.get("/healthz")[0] == 200
        assert served.get("/v1/models") == (200, {"models": [], "caps": [], "next_cursor": None, "partitions": []})
        event = next(line for line in log.lines if line.event is not None)
        status, body = served.ask("/v1/events", typed(event))
        assert status == 503
        assert b"cannot connect to Kafka" in body

        own_broker.start()
        status, detail = served.says("do not exist yet")
        assert status == 503
        assert f"waiting for topics that do not exist yet: {', '.join(topics(suffix))}; create them" in detail

        half = len(log.lines) // 2
        log.write(own_broker, suffix, half)
        served.counts(half)
        served.ready()
        shown = served.eventually(lambda: served.get("/v1/models")[1]["models"])
        own_broker.kill()
        assert served.says("no broker of Kafka")[0] == 503
        # What was known is served on.
        models = {model["model"] for model in served.get("/v1/models")[1]["models"]}
        assert {model["model"] for model in shown} <= models
        own_broker.start()
        log.write_rest(own_broker, suffix, half)
        served.counts(len(log.lines))
        served.reports_as(log.reports)
        served.ready()
        served.stop()


def test_too_many_dead_letters_stop_reading_until_the_producer_is_mended(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    suffix, dead = "bad", "bad-dead"
    kafka_broker.create_topic(dead, 2)
    letters = {"max_ratio": 0.3, "block": 100, "topic": dead}
    # The group misses the first service, which is killed, until its session has timed out.
    session = {"kafka": {"session_timeout": "6s"}}
    log = small_log(tmp_path, kafka_broker, suffix, dead_letters=letters, source=session)
    log.write(kafka_broker, suffix)
    predictions, _ = topics(suffix)
    with Served(tmp_path) as served:
        served.reports_as(log.reports)
        kafka_broker.produce(predictions, GARBAGE, partition=1)
        status, detail = served.says("consumption has stopped for good")
        assert status == 503
        assert "were no valid events, more than the ceiling of 30%" in detail
        assert (
            "look at them with `monitor dead-letters list`, correct the producer, and start the service again" in detail
        )
        # All that is known is served on.
        assert served.get("/healthz")[0] == 200
        assert served.reports() == log.reports
        read = sum(served.counted().values())
        assert len(log.lines) < read
        assert served.process.poll() is None

    listed = inside("dead-letters", "list", "--json", "--limit", "10000", cwd=tmp_path).stdout.splitlines()
    stored = [json.loads(line) for line in listed]
    assert len(stored) == served.last_counted["unknown", "dead_letter"]
    ours = [letter for letter in stored if base64.b64decode(letter["value_base64"]) in GARBAGE]
    assert {(letter["reason"], letter["topic"], letter["partition"]) for letter in ours} == {
        ("invalid_utf8", predictions, 1)
    }
    assert [base64.b64decode(letter["value_base64"]) for letter in ours] == GARBAGE[: len(ours)]
    assert "invalid_utf8" in inside("dead-letters", "list", cwd=tmp_path).stdout
    in_topic = {headers_of(record)["offset"]: record for record in all_of(kafka_broker, dead) if is_ours(record)}
    assert {offset: record.value for offset, record in in_topic.items()} == {
        str(letter["offset"]): base64.b64decode(letter["value_base64"]) for letter in ours
    }
    headers = [headers_of(record) for record in in_topic.values()]
    assert {(header["reason"], header["topic"], header["partition"]) for header in headers} == {
        ("invalid_utf8", predictions, "1")
    }

    # They are sent back as they were; what is still no event comes back.
    sent_back = sum(letter["reason"] == "invalid_utf8" for letter in stored)
    done = inside("dead-letters", "replay", "--reason", "invalid_utf8", cwd=tmp_path)
    assert done.stdout.startswith(f"sent back {sent_back} dead letters: ")
    write_settings(tmp_path, kafka_broker, suffix, dead_letters={"max_ratio": 1.0, "topic": dead}, source=session)
    with Served(tmp_path) as again:
        again.counts(len(log.lines) + len(GARBAGE) + sent_back)
        again.reports_as(log.reports)
        again.stop()


def all_of(broker: KafkaBroker, topic: str) -> list[Any]:
    """Every record of a topic."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    try:
        parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        records: list[Any] = []
        while len(records) < sum(ends.values()):
            for fetched in consumer.poll(timeout_ms=1000).values():
                records += fetched
        return records
    finally:
        consumer.close()


def headers_of(record: Any) -> dict[str, str]:
    """What a dead letter's own headers say."""
    return {name.removeprefix("calibration-dead-letter-"): value.decode() for name, value in record.headers}


def is_ours(record: Any) -> bool:
    return record.value in GARBAGE


@pytest.mark.parametrize("policy", short_of(["stop", "earliest"], 1))
def test_offsets_that_were_purged(kafka_broker: KafkaBroker, tmp_path: Path, policy: str) -> None:
    suffix = f"purged-{policy}"
    log = small_log(tmp_path, kafka_broker, suffix, source={"when_purged": policy})
    log.write(kafka_broker, suffix)
    with Served(tmp_path) as served:
        served.reports_as(log.reports)
        served.stop()
    # While it stood still, more was written than the topic keeps.
    predictions, _ = topics(suffix)
    end = sum((line.topic, line.partition) == ("predictions", 2) for line in log.lines)
    more = [b'{"model":"late","id":"%d","ts":1760000000000,"p":0.5}' % at for at in range(50)]
    kafka_broker.produce(predictions, more, partition=2)
    kafka_broker.delete_records(predictions, {2: end + 20})
    with Served(tmp_path) as served:
        if policy == "stop":
            status, detail = served.says("consumption has stopped for good")
            assert status == 503
            assert (
                f"topic {predictions} partition 2: the stored offset {end} was purged: the log begins at {end + 20}."
                in detail
            )
            assert "set source.when_purged to earliest" in detail
            served.reports_as(log.reports)
            return
        served.counts(len(log.lines) + 30)
        served.ready()
        assert served.samples()["calibration_purged_offsets_total", frozenset()] == 20
        (warning,) = [line for line in served.log() if "not in the log" in line["event"]]
        assert (warning["level"], warning["skipped"], warning["going_on_from"]) == ("warning", 20, end + 20)


def test_topics_of_different_partition_counts_are_one_clear_line_until_they_are_made_anew(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    predictions, outcomes = topics("uneven")
    kafka_broker.create_topic(predictions, 4)
    kafka_broker.create_topic(outcomes, 2)
    write_settings(tmp_path, kafka_broker, "uneven")
    with Served(tmp_path) as served:
        status, detail = served.says(
            f"got {predictions}: 4, {outcomes}: 2; create the topics anew with 4 partitions each"
        )
        assert status == 503
        assert detail.startswith("source_unavailable: ")
        assert len(detail.splitlines()) == 1
        assert served.get("/healthz")[0] == 200
        assert not any(name == "calibration_consumer_lag" for name, _ in served.samples())
        (line,) = [
            line for line in served.log() if line["level"] in {"warning", "error"} and "got " in line.get("detail", "")
        ]
        assert (line["level"], line["detail"]) == ("warning", detail.partition(": ")[2].partition(": ")[2])
        with kafka_broker.admin() as admin:
            admin.create_partitions({outcomes: 4})
        served.ready()
