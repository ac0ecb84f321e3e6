"""`monitor map` proposes settings that are valid as they are printed, and that read the messages they came from."""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from confluent_kafka import Producer

from monitor.app.mapping_proposal import detect_format, propose_topic
from monitor.app.settings.load import load_settings
from monitor.clock import ManualClock
from monitor.errors import InputError
from monitor.events.model import Record
from monitor.events.schemas import Schema, SchemaId
from monitor.simulation.traffic import Traffic
from tests.app.foreign import FORMATS, MAPPINGS, as_foreign, serialiser
from tests.app.settings.test_mappings import CAPTURED, PROBABILITIES, SELDON, kserve, seldon, v2
from tests.cli.command import inside, one_error_line
from tests.events.messages import LABELLED, NOW_MS, OUTCOME, PREDICTION, Message
from tests.events.test_avro import EVENT as AVRO_EVENT
from tests.events.test_avro import encode as encode_avro
from tests.events.test_avro import framed
from tests.events.test_avro import record as avro_record
from tests.patience import PATIENCE_SECONDS
from tests.real.kafka import KafkaBroker
from tests.real.registry import SchemaRegistryServer

DOCUMENTED = Path("docs/mapping.md").read_text("utf-8")
"""Its first two blocks of JSON are the scorer's message and the back office's; then the settings that read them."""


def mapped(folder: Path, *messages: Any, arguments: Sequence[str] = ()) -> tuple[dict[str, Any], str, str]:
    """The topics of the proposal for a file, its text, and how the messages are read."""
    (folder / "shop.jsonl").write_text("".join(f"{json.dumps(message)}\n" for message in messages), encoding="utf-8")
    done = inside("map", "--file", "shop.jsonl", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "monitor.yaml").write_text(done.stdout, encoding="utf-8")
    load_settings(folder / "monitor.yaml", {})
    return yaml.safe_load(done.stdout)["source"]["topics"], done.stdout, done.stderr


def documented(language: str) -> list[str]:
    return [block.split("```")[0] for block in DOCUMENTED.split(f"```{language}\n")[1:]]


def test_the_messages_of_the_documentation(tmp_path: Path) -> None:
    score, case = map(json.loads, documented("json")[:2])
    topics, text, read = mapped(tmp_path, score)
    assert topics["predictions"]["mapping"] == {
        "model": "=shop",
        "id": "request.id",
        "ts": "created_at",
        "ts_unit": "seconds",
        "p": "scores",
        "features": ["inputs.amount", "inputs.age"],
        "segments": {"region": "request.customer.region"},
    }
    assert yaml.safe_load(text)["models"]["defaults"]["segments"] == ["region"]
    assert "# no model was seen in the messages" in text
    assert "shop: 1 messages read, 1 events" in read
    assert "shop: p from scores in 100% of the events: [0.25, 0.75]" in read
    topics, _, read = mapped(tmp_path, case, case | {"case": 9004, "label": "genuine"})
    expected = yaml.safe_load(documented("yaml")[0])["source"]["topics"]["outcomes"]["mapping"]
    assert topics["outcomes"]["mapping"] == expected | {"model": "=shop"}
    assert "shop: y from label in 100% of the events: 1; 0" in read


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ([PREDICTION] * 3, "predictions"),
        ([OUTCOME], "outcomes"),
        ([LABELLED], "labelled"),
        ([PREDICTION, OUTCOME], "events"),
    ],
)
def test_events_of_ours_need_no_mapping(tmp_path: Path, values: list[bytes], key: str) -> None:
    topics, text, read = mapped(tmp_path, *map(json.loads, values))
    assert topics == {key: {"name": "shop"}}
    assert "# these messages have the fields of an event: no mapping is needed" in text
    assert f"shop: {len(values)} messages read, {len(values)} events" in read


def with_headers(headers: dict[str, str], body: Any) -> Message:
    return Message(json.dumps(body).encode(), [(name, value.encode()) for name, value in headers.items()])


@pytest.mark.parametrize(
    ("preset", "messages"),
    [
        (
            "kserve_v1",
            [
                with_headers(kserve("request"), {"instances": [[1, 2]]}),
                with_headers(kserve("response"), {"predictions": PROBABILITIES}),
            ],
        ),
        ("kserve_v2", [with_headers(kserve("response"), v2(model_version="3"))]),
        ("mlserver", [with_headers({}, v2(model_version="3"))]),
        ("seldon_core_1", [with_headers(seldon("inference.response"), SELDON)]),
        ("sagemaker_capture", [with_headers({}, CAPTURED)]),
    ],
)
def test_ready_made_mappings_are_recognised(tmp_path: Path, preset: str, messages: list[Record]) -> None:
    settings, clock = load_settings(None, {}), ManualClock(NOW_MS)
    topic = detect_format(settings, "log", messages, None)
    text, findings = propose_topic(settings, topic, messages, None, clock)
    mapping = {"preset": preset, "model": "=log"} if preset == "sagemaker_capture" else preset
    assert yaml.safe_load(text)["source"]["topics"] == {"predictions": {"name": "log", "mapping": mapping}}
    assert f"log: {len(messages)} messages read" in findings[0].detail


def test_messagepack_is_seen_by_its_bytes(tmp_path: Path) -> None:
    settings, clock = load_settings(None, {}), ManualClock(NOW_MS)
    records = [Message(msgspec.msgpack.encode({"order": {"id": number}, "risk": 0.25})) for number in range(3)]
    text, findings = propose_topic(settings, detect_format(settings, "log", records, None), records, None, clock)
    topic = yaml.safe_load(text)["source"]["topics"]["predictions"]
    assert topic["format"] == "messagepack"
    assert topic["mapping"] == {"model": "=log", "id": "order.id", "ts": "$timestamp", "p": "risk"}
    assert findings[0].detail == "log: 3 messages read, 3 events"


@pytest.mark.kafka
@pytest.mark.parametrize("format_", FORMATS)
def test_topics_under_a_registry(
    tmp_path: Path, kafka_broker: KafkaBroker, schema_registry: SchemaRegistryServer, format_: str
) -> None:
    """By Confluent's serialisers; the settings that are printed are those by which the topics are read in tests."""
    names = {topic: kafka_broker.create_topic(f"{topic}-{uuid.uuid4()}", partitions=2) for topic in ("scores", "cases")}
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap})
    traffic = Traffic("events", start_ms=NOW_MS - 900_000, change_ms=NOW_MS, seed=8, rate=0.5)
    values = [message.value or b"" for message in traffic.until(NOW_MS) if b'"local-error"' in (message.value or b"")]
    with schema_registry.client() as client:
        write = {topic: serialiser(format_, topic, client, name) for topic, name in names.items()}
        for value in values:
            if b"click" in value or b"bad" in value:
                continue  # what the traffic has of garbage
            topic, message = as_foreign(value)
            producer.produce(names[topic], write[topic](message), message["request_id"].encode())
    assert producer.flush(PATIENCE_SECONDS) == 0
    (tmp_path / "monitor.yaml").write_text(
        f"source: {{kind: kafka, kafka: {{bootstrap_servers: '{kafka_broker.bootstrap}', connect_timeout: 60s}}, "
        f"registry: {{url: '{schema_registry.url}'}}}}"
    )
    for topic, key in (("scores", "predictions"), ("cases", "outcomes")):
        first = inside("map", "--topic", names[topic], cwd=tmp_path)
        assert first.returncode == 0, first.stderr
        proposed = yaml.safe_load(first.stdout)["source"]["topics"][key]
        assert proposed == {"name": names[topic], "format": format_, "mapping": MAPPINGS[topic]}
        assert f"{names[topic]}: 100 messages read, 100 events" in first.stderr
        if topic == "scores":
            assert ("double in the schema" in first.stdout) is (format_ != "json_schema")
            assert "in the schema, but in none of these messages: note (string)" in first.stdout
        assert inside("map", "--topic", names[topic], cwd=tmp_path).stdout == first.stdout
    if format_ != "json_schema":  # which no schema is needed to read
        kafka_broker.produce(names["cases"], [b"\0\0\1\x86\x9fx"] * 2)
        done = inside("map", "--topic", names["cases"], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert yaml.safe_load(done.stdout)["source"]["topics"]["outcomes"]["mapping"] == MAPPINGS["cases"]
        assert "# - 2 of the 100 messages could not be read, and nothing is proposed from them: 2 times" in done.stdout
        assert "100 messages read, 98 events, 2 dead letters: unknown_schema 2" in done.stderr
        assert "has no schema of id 99999" in done.stderr


def test_the_exit_status_says_whether_any_message_is_an_event(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text('{"case":"c-1","closed":"2026-11-20T10:00:00Z","finding":"abuse"}\n' * 2)
    done = inside("map", "--file", "cases.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert "cases: 2 messages read, 0 events" in done.stderr


@pytest.mark.kafka
def test_what_cannot_be_read_is_said(
    tmp_path: Path, kafka_broker: KafkaBroker, schema_registry: SchemaRegistryServer
) -> None:
    (tmp_path / "monitor.yaml").write_text(
        f"source: {{kind: kafka, kafka: {{bootstrap_servers: '{kafka_broker.bootstrap}', connect_timeout: 60s}}}}"
    )

    def error(*arguments: str) -> str:
        done = inside("map", *arguments, cwd=tmp_path)
        assert done.returncode == 2, done.stdout
        return one_error_line(done)

    topic = kafka_broker.create_topic(f"map-{uuid.uuid4()}", partitions=1)
    assert "there are no messages in topic" in error("--topic", topic)
    assert "there is no topic map-none at" in error("--topic", "map-none")
    kafka_broker.produce(topic, [b"\x02\x04abc"])
    assert "neither JSON nor MessagePack" in error("--topic", topic)
    assert "give --schema-file" in error("--topic", topic)
    assert "must end in .avsc (Avro) or .proto (Protobuf), got x.xsd" in error(
        "--topic", topic, "--schema-file", "x.xsd"
    )
    framed = kafka_broker.create_topic(f"map-{uuid.uuid4()}", partitions=1)
    kafka_broker.produce(framed, [b"\0\0\0\0\7abc"])
    assert "set source.registry.url in monitor.yaml" in error("--topic", framed)
    assert "name a topic, or a file of messages" in error()
    (tmp_path / "empty.jsonl").touch()
    assert "there are no messages in it" in error("--file", "empty.jsonl")
    (tmp_path / "monitor.yaml").unlink()
    assert "set source.kind to kafka" in error("--topic", topic)


@pytest.mark.kafka
def test_a_schema_file_and_one_type_of_several(tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    """Without a registry: the file's schema, and the settings name the file."""
    topic = kafka_broker.create_topic(f"map-{uuid.uuid4()}", partitions=1)
    (tmp_path / "monitor.yaml").write_text(
        f"source: {{kind: kafka, kafka: {{bootstrap_servers: '{kafka_broker.bootstrap}', connect_timeout: 60s}}}}"
    )
    (tmp_path / "shop.proto").write_text(
        'syntax = "proto3"; package shop; message Other { string a = 1; }'
        " message Score { string order_id = 1; double risk = 2; optional bool label = 3; }"
    )
    # order_id "a1", risk 0.5
    kafka_broker.produce(topic, [b"\x0a\x02a1\x11" + bytes(6) + b"\xe0\x3f"])
    done = inside("map", "--topic", topic, "--schema-file", "shop.proto", "--message", "shop.Score", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["source"]["topics"]["predictions"] == {
        "name": topic,
        "format": "protobuf",
        "schema_file": "shop.proto",
        "message": "shop.Score",
        "mapping": {"model": f"={topic}", "id": "order_id", "ts": "$timestamp", "p": "risk"},
    }
    assert "in the schema, but in none of these messages: label (bool)" in done.stdout
    assert f"{topic}: 1 messages read, 1 events" in done.stderr


class OneKnown:
    """A registry that knows the schema 1 alone."""

    def schema(self, identifier: SchemaId) -> Schema | None:
        return Schema("AVRO", json.dumps(avro_record())) if identifier == 1 else None


def test_messages_of_an_unknown_schema_do_not_stop_a_proposal() -> None:
    settings = load_settings(None, {})
    registry: Any = OneKnown()
    known = [
        Message(framed(encode_avro(avro_record(), AVRO_EVENT | {"id": f"id-{at}"})), offset=at, timestamp=NOW_MS + at)
        for at in range(20)
    ]
    newest = Message(framed(b"", 9), offset=20, timestamp=NOW_MS + 99)
    topic = detect_format(settings, "scores", [*known, newest], registry)
    assert topic.format == "avro"
    text = propose_topic(settings, topic, [*known, newest], registry, ManualClock(NOW_MS)).text
    assert "format: avro" in text
    with pytest.raises(InputError, match="has no schema of id 9"):
        detect_format(settings, "scores", [newest], registry)
