"""Avro topics as others write them: a real broker and registry, Confluent's serialiser, and a schema that evolves.

What the service reports is, to the last bit, what it reports of the same events as JSON.
"""

import base64
import io
import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pydantic import ValidationError

from monitor.app.offline import LogReport, report_log
from monitor.app.parts import make_formats, make_json_topics
from monitor.app.service import Service
from monitor.app.settings import Settings
from monitor.clock import SystemClock
from monitor.errors import SettingsError
from monitor.events.codec import Decoder
from monitor.events.model import ModelPolicy, Reason, RecordBatch
from monitor.events.strata import Strata
from monitor.reports.evaluation.report import Report
from monitor.simulation.traffic import Traffic
from monitor.stream.status import Phase
from tests.events.messages import Message
from tests.last_events import last_events
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.kafka import KafkaBroker
from tests.real.registry import Demands, SchemaRegistryServer, proxy

pytestmark = pytest.mark.kafka

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000

FIRST = {
    "type": "record",
    "name": "Event",
    "namespace": "shop",
    "fields": [
        {"name": "type", "type": "string"},
        {"name": "model", "type": "string"},
        {"name": "id", "type": "string"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "p", "type": ["null", "double"], "default": None},
        {"name": "y", "type": ["null", "int"], "default": None},
        {"name": "segments", "type": ["null", {"type": "map", "values": "string"}], "default": None},
        {"name": "version", "type": ["null", "string"], "default": None},
        {"name": "features", "type": ["null", {"type": "array", "items": "double"}], "default": None},
        {"name": "note", "type": "string", "default": ""},
    ],
}
"""A field is added in the second, one is removed, and another holds more than before."""
SECOND = FIRST | {
    "fields": [
        *(field for field in FIRST["fields"] if field["name"] not in {"note", "y"}),  # type: ignore[index]
        {"name": "y", "type": ["null", "long"], "default": None},
        {"name": "comment", "type": ["null", "string"], "default": None},
    ]
}


def settings(
    folder: Path, broker: KafkaBroker, topic: Any, *, labelled: str | None = None, **registry: Any
) -> Settings:
    return Settings.model_validate(
        {
            "source": {
                "kind": "kafka",
                "kafka": {"bootstrap_servers": broker.bootstrap, "group_id": str(uuid.uuid4())},
                "topics": {"events": topic, "labelled": labelled},
                "registry": {"cache": str(folder / "schemas"), **registry},
            },
            "store": {"url": f"sqlite:///{folder / f'{uuid.uuid4()}.db'}"},
            "models": {"defaults": {"horizon": "10m", "allowed_lateness": "5m", "segments": ["region"]}},
            "windows": [{"length": "1h"}, {"last": 2000, "length": "6h"}],
            "evaluation": {"interval": "1s", "draws": 0},
            "pipeline": {"checkpoint_interval": "100ms"},
            "api": {"port": 0},
            "access": {"mode": "off"},
        }
    )


@pytest.fixture(scope="module")
def events() -> list[bytes]:
    """Events as JSON, with some garbage among them."""
    traffic = Traffic("events", start_ms=START_MS, change_ms=START_MS + HOUR_MS, seed=8, rate=0.5)
    values = [message.value or b"" for message in traffic.until(START_MS + 2 * HOUR_MS)]
    return values + last_events(START_MS + 3 * HOUR_MS)


def as_avro(event: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """An event with the fields of a schema."""
    chosen = {name: event.get(name, "" if name == "note" else None) for name in names}
    if isinstance(chosen["features"], str):
        chosen["features"] = np.frombuffer(base64.b64decode(chosen["features"]), "<f4").tolist()
    return chosen


def send(broker: KafkaBroker, topic: str, values: Sequence[tuple[bytes | None, bytes]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
    for key, value in values:
        producer.produce(topic, value, key)
        producer.poll(0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def serialised(registry: SchemaRegistryServer, topic: str, events: Sequence[bytes]) -> list[tuple[bytes | None, bytes]]:
    """Key and value of each event by Confluent's serialiser; from the middle on with the second schema."""
    with registry.client() as client:
        context = SerializationContext(topic, MessageField.VALUE)
        serialisers = []
        for schema in (FIRST, SECOND):
            names = [field["name"] for field in schema["fields"]]  # type: ignore[index]
            serialisers.append((AvroSerializer(client, json.dumps(schema)), names))
        values: list[tuple[bytes | None, bytes]] = []
        for at, value in enumerate(events):
            serialise, names = serialisers[2 * at >= len(events)]
            try:
                event = json.loads(value)
                values.append((str(event["id"]).encode(), serialise(as_avro(event, names), context)))
            except (KeyError, TypeError, ValueError):
                values.append((None, value))  # garbage, which no schema describes
        return values


@contextmanager
def running(chosen: Settings) -> Iterator[Service]:
    service = Service(chosen, clock=SystemClock())
    service.start()
    try:
        yield service
    finally:
        service.stop()


def told(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """What reports say, without the intervals that are renewed in their turn."""
    trees = [report.to_dict() for report in reports]
    for tree in trees:
        tree["measures"] = {name: result["value"] for name, result in tree["measures"].items()}
    return trees


@pytest.mark.long
def test_a_report_is_to_the_last_bit_that_of_the_same_events_as_json(
    tmp_path: Path,
    kafka_broker: KafkaBroker,
    schema_registry: SchemaRegistryServer,
    events: list[bytes],
    patient: None,
) -> None:
    """The schema changes in the middle, while the registry is away; and a later start has no registry at all."""
    topic = kafka_broker.create_topic(f"avro-{uuid.uuid4()}", partitions=3)
    values = serialised(schema_registry, topic, events)
    half = len(values) // 2
    send(kafka_broker, topic, values[:half])
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(value or b"-" for value in events))
    demands = Demands()
    with proxy(schema_registry.url, demands) as url:
        chosen = settings(tmp_path, kafka_broker, {"name": topic, "format": "avro"}, url=url)
        offline = report_log(file, chosen, SystemClock())
        with running(chosen) as service:
            eventually(lambda: service.status.records_read == half, shown=lambda: service.status)
            demands.away = True
            try:
                send(kafka_broker, topic, values[half:])
                silent = f"the schema registry at {url} does not answer"
                eventually(lambda: silent in service.status.detail, shown=lambda: service.status)
                problem = not_ready(service)
                assert problem["phase"] == "schema_unavailable"
                assert f"{topic} partition" in problem["detail"]
                assert silent in problem["detail"]
            finally:
                demands.away = False
            assert_reads(service, offline, len(events))
            assert {Reason.UNKNOWN_SCHEMA, Reason.UNDECODABLE}.isdisjoint(service.status.dead_letters)
        demands.answer = (503, b"")
        again = settings(tmp_path, kafka_broker, {"name": topic, "format": "avro"}, url=url)
        with running(again) as service:
            assert_reads(service, offline, len(events))


def assert_reads(service: Service, offline: LogReport, count: int) -> None:
    """The service reads all events, and reports what was computed from their file."""
    eventually(lambda: service.status.ready and service.status.records_read == count, shown=lambda: service.status)
    expected = told(offline.snapshot.reports.values())

    def evaluated() -> bool:
        service.evaluation.tick()
        return told(service.snapshots.latest.reports.values()) == expected

    eventually(evaluated)
    assert sum(len(report["measures"]) > 0 for report in expected) >= 16
    counted = {key: number for key, number in service.status.counters.items() if number}
    assert counted == {key: number for key, number in offline.events.items() if number}
    assert sum(counted.values()) == count


def not_ready(service: Service) -> dict[str, Any]:
    """The problem that /readyz answers."""
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"{service.server.url}/readyz", timeout=PATIENCE_SECONDS)
    with raised.value as error:
        assert error.code == 503
        problem: dict[str, Any] = json.load(error)
    return problem


def test_a_registry_that_does_not_answer_holds_up_only_the_partitions_that_need_it(
    tmp_path: Path, kafka_broker: KafkaBroker, schema_registry: SchemaRegistryServer, patient: None
) -> None:
    """Another topic, and partitions whose schema is known, are read while a request hangs."""
    avro, plain = (kafka_broker.create_topic(f"{name}-{uuid.uuid4()}", partitions=2) for name in ("avro", "json"))
    now_ms = SystemClock().now_ms()
    values = [
        json.dumps({"type": "prediction", "model": "m", "id": f"{at}", "ts": now_ms, "p": 0.5, "version": "1"}).encode()
        for at in range(200)
    ]
    labelled = [value.replace(b'"prediction"', b'"labelled"')[:-1] + b', "y": 1}' for value in values]
    written = serialised(schema_registry, avro, values)
    known = written[0][1][:5]
    demands = Demands()
    with proxy(schema_registry.url, demands) as url:
        topic = {"name": avro, "format": "avro"}
        chosen = settings(tmp_path, kafka_broker, topic, labelled=plain, url=url, timeout="10m")
        with running(chosen) as service:
            eventually(lambda: service.status.ready, shown=lambda: service.status)
            send(kafka_broker, avro, [pair for pair in written if pair[1][:5] == known])
            eventually(lambda: service.status.records_read == 100, shown=lambda: service.status)
            demands.answers.clear()
            send(kafka_broker, avro, [pair for pair in written if pair[1][:5] != known][:1])
            eventually(lambda: service.status.phase is Phase.SCHEMA_UNAVAILABLE, shown=lambda: service.status)
            assert "has not answered yet about the schema of id" in service.status.detail
            send(kafka_broker, plain, [(None, value) for value in labelled])
            eventually(lambda: service.status.records_read == 300, shown=lambda: service.status)
            assert len(demands.requests) == 2
            demands.answers.set()
            eventually(lambda: service.status.records_read == 301, shown=lambda: service.status)
            assert not service.status.dead_letters


def test_events_are_not_written_as_json_into_a_topic_of_avro(
    tmp_path: Path, kafka_broker: KafkaBroker, schema_registry: SchemaRegistryServer, patient: None
) -> None:
    topic = kafka_broker.create_topic(f"avro-{uuid.uuid4()}", partitions=1)
    chosen = settings(tmp_path, kafka_broker, {"name": topic, "format": "avro"}, url=schema_registry.url)
    with running(chosen) as service:
        eventually(lambda: service.status.ready)
        request = urllib.request.Request(
            f"{service.server.url}/v1/events", b'{"model": "m"}', {"content-type": "application/json"}
        )
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(request, timeout=PATIENCE_SECONDS)
        with raised.value as error:
            assert error.code == 409
            assert "reads no topic of JSON" in json.load(error)["detail"]
    with pytest.raises(SettingsError, match=r"is of format json without a mapping, got avro-\S+ \(avro\)"):
        make_json_topics(chosen)


def test_without_a_registry_and_without_a_schema_file_is_refused(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    with pytest.raises(ValidationError, match=r"must have registry.url, or topics.events.schema_file"):
        settings(tmp_path, kafka_broker, {"name": "t", "format": "avro"})


def test_a_schema_file(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    file = tmp_path / "event.avsc"
    topic = {"name": "t", "format": "avro", "schema_file": str(file)}
    with pytest.raises(SettingsError, match="cannot read the schema_file"):
        make_formats(settings(tmp_path, kafka_broker, topic), SystemClock())
    file.write_text(json.dumps(FIRST))
    made = make_formats(settings(tmp_path, kafka_broker, topic), SystemClock())
    written = io.BytesIO()
    names = [field["name"] for field in FIRST["fields"]]  # type: ignore[index]
    event = {"type": "outcome", "model": "m", "id": "7", "ts": START_MS, "y": 1}
    fastavro.schemaless_writer(written, fastavro.parse_schema(FIRST), as_avro(event, names))
    batch = RecordBatch("t", 0, [Message(written.getvalue(), timestamp=START_MS)], 1)
    policy = ModelPolicy(horizon_ms=1, lateness_ms=1)
    assert Decoder(formats=made).decode(batch, Strata(lambda _: policy), None).columns.outcome.tolist() == [1]
