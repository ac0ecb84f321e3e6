"""`monitor serve` makes of other people's messages the very reports that it makes of the same events as JSON.

The messages have fields of their own, and are written by Confluent's serialisers under a real registry, a format for
each topic.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from monitor.events.model import Kind
from tests.app.foreign import FORMATS, MAPPINGS, Foreign, as_foreign, serialiser
from tests.cli.kafka_service import Served, reports_of, write_settings
from tests.real.kafka import KafkaBroker
from tests.real.mixed_log import LogLine, MixedLog
from tests.real.produce import produce
from tests.real.registry import SchemaRegistryServer

pytestmark = pytest.mark.kafka

TOPICS = {"predictions": "scores", "outcomes": "cases", "labelled": "decisions"}


def labelled(line: LogLine) -> LogLine:
    """A prediction as one that carries its outcome."""
    assert line.event is not None
    y = int(line.event.p > 0.5)
    return replace(line, topic="labelled", value=line.value[:-1] + b',"y":%d}' % y, event=replace(line.event, y=y))


def test_reports_are_to_the_last_bit_those_of_the_same_events_as_json(
    tmp_path: Path, kafka_broker: KafkaBroker, schema_registry: SchemaRegistryServer
) -> None:
    """With duplicates, corrections, late events and garbage."""
    suffix = "foreign"
    formats = dict(zip(TOPICS, FORMATS, strict=True))
    lines = MixedLog(6_000, features=True, settled=True).lines
    whole = MixedLog(2_000, seed=2, models=("price",), features=True, settled=True).lines
    lines += [labelled(line) for line in whole if line.event is not None and line.event.kind is Kind.PREDICTION]
    topics = {
        key: {"name": f"{key}-{suffix}", "format": formats[key], "mapping": MAPPINGS[of]} for key, of in TOPICS.items()
    }
    source = {"topics": topics, "registry": {"url": schema_registry.url, "cache": "schemas"}}
    write_settings(tmp_path, kafka_broker, suffix, source=source)
    expected = reports_of(tmp_path, lines)
    with schema_registry.client() as client:
        write = {of: serialiser(formats[key], of, client, f"{key}-{suffix}") for key, of in TOPICS.items()}
        foreign = [line if line.event is None else replace(line, value=_as(write, line.value)) for line in lines]
    for topic in topics.values():
        kafka_broker.create_topic(str(topic["name"]), 4)
    produce(kafka_broker.bootstrap, foreign, suffix)
    with Served(tmp_path) as served:
        served.reports_as(expected)
        served.counts(len(lines))
        assert {report["model"] for report in expected if report["measures"]} == {"churn", "credit", "fraud", "price"}
        dead_letters = sum(line.event is None for line in lines)
        assert sum(count for (_, result), count in served.counted().items() if result == "dead_letter") == dead_letters


def _as(write: Mapping[str, Callable[[Foreign], bytes]], value: bytes) -> bytes:
    topic, message = as_foreign(value)
    return write[topic](message)
