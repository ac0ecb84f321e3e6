"""Records that Kafka allows and no producer of events means to send."""

import json
import time
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from kafka import KafkaProducer

from tests.cli.command import inside
from tests.cli.kafka_service import Served, topics, write_settings
from tests.patience import PATIENCE_SECONDS
from tests.real.kafka import KafkaBroker

NOW_MS: Final = time.time_ns() // 1_000_000
YEAR_2100_MS: Final = 4_102_444_800_000


class NotUtf8(str):
    """The name of a header, as a producer in another language may send it."""

    __slots__ = ()

    def encode(self, *_: str) -> bytes:
        """Bytes that are no UTF-8."""
        return b"\xff\xfe"


def prediction(name: str, ts: int = NOW_MS) -> bytes:
    return json.dumps({"model": "churn", "id": name, "ts": ts, "p": 0.5}).encode()


def test_odd_records_are_counted_once_each_and_the_service_goes_on(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    suffix = "odd-records"
    topic, outcomes = topics(suffix)
    any_time = str(2**63 - 1)
    for name in (topic, outcomes):
        kafka_broker.create_topic(
            name, message_timestamp_before_max_ms=any_time, message_timestamp_after_max_ms=any_time
        )
    nulls = Producer({"bootstrap.servers": kafka_broker.bootstrap})
    nulls.produce(topic, b"[]", headers=[("trace", None), ("empty", b"")])
    nulls.produce(topic, prediction("nulls"), headers=[("ce_type", None), ("content-type", None)])
    assert nulls.flush(PATIENCE_SECONDS) == 0
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, max_request_size=1 << 21)

    def send(value: bytes | None, key: bytes | None = b"k", headers: Any = (), at_ms: int = NOW_MS) -> None:
        producer.send(topic, value, key=key, headers=list(headers), timestamp_ms=at_ms).get(PATIENCE_SECONDS)

    send(None)
    send(b"", key=b"")
    send(b"{", headers=[(NotUtf8("name"), b"1")])
    send(b"[]", headers=[("h" * 1000, b"v" * 900_000)])
    send(b"[]", headers=[(f"h{at}", b"") for at in range(20_000)])
    send(b"[]", headers=[("content-type", b"x" * 500_000), ("ce_specversion", b"")])
    send(prediction("future", YEAR_2100_MS), at_ms=YEAR_2100_MS)
    send(prediction("end of time", 2**63 - 1), at_ms=2**63 - 1)
    send(prediction("ahead"), at_ms=0)
    send(prediction("without a timestamp"), at_ms=-1)
    send(prediction("the record is of the future"), at_ms=YEAR_2100_MS)
    for at in range(5):
        send(prediction(f"good-{at}"), headers=[("", b""), ("", b"")])
    producer.close()
    write_settings(tmp_path, kafka_broker, suffix)
    with Served(tmp_path) as served:
        served.counts(18)
        expected = {("prediction", "accepted"): 8, ("unknown", "dead_letter"): 10}
        assert {result: count for result, count in served.counted().items() if count} == expected
        served.stop()
    listed = [json.loads(line) for line in inside("dead-letters", "list", "--json", cwd=tmp_path).stdout.splitlines()]
    assert len(listed) == 10
    assert listed[0]["headers"] == [["trace", None], ["empty", ""]]
    assert inside("dead-letters", "replay", cwd=tmp_path).stdout == f"sent back 10 dead letters: 10 to {topic}\n"
    with Served(tmp_path) as served:
        served.counts(28)
        served.stop()
    again = [json.loads(line) for line in inside("dead-letters", "list", "--json", cwd=tmp_path).stdout.splitlines()]
    # Sent back now, it is no longer ahead of its record.
    still = [letter for letter in listed if letter["timestamp_ms"] != 0]
    assert [letter["headers"] for letter in again] == [letter["headers"] for letter in still]
