"""The mixed events of the JSON test as Avro, with a real registry and ``kill -9``, come to the same closings.

The closings of both are compared with the same obvious loops. The long form has a million events.
"""

import io
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest

from monitor.events.model import Kind
from tests.patience import eventually
from tests.real.kafka import KafkaProcess
from tests.real.mixed_log import OF_CLASSES, LogLine, MixedLog
from tests.real.registry import SchemaRegistryServer
from tests.reference.naive_join import NaiveEvent
from tests.stream.published import assert_closed
from tests.stream.test_exactly_once import (
    NAMES,
    NUMBERS,
    World,
    a_process_is_killed,
    assert_counts_as_expected,
    published_of,
    wait_until_saved,
)

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800)]

KILLS: Final = 2


def schema(name: str, **fields: Any) -> dict[str, Any]:
    """A schema of events with these fields besides those that all have."""
    common = {"model": "string", "id": "string", "ts": {"type": "long", "logicalType": "timestamp-millis"}}
    listed = [{"name": key, "type": kind} for key, kind in (common | fields).items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": listed}


_DETAILS: Final = {
    "version": "string",
    "segments": ["null", {"type": "map", "values": "string"}],
    "features": ["null", {"type": "array", "items": "double"}],
}
SCHEMAS: Final = {
    "score": schema("Score", p="double", **_DETAILS),
    "scores": schema("Scores", p={"type": "array", "items": "double"}, **_DETAILS),
    "label": schema("Label", y="int"),
    "later": schema("Score", comment=["null", "string"], p=["null", "double"], **_DETAILS),
}
"""The first of a topic's schemas evolves to ``later`` in the middle of the log."""


class Serialiser:
    """Writes events as the registry's serialisers do: the byte 0, the schema's id, and the record."""

    def __init__(self, registry: SchemaRegistryServer, suffix: str) -> None:
        self._parsed = {name: fastavro.parse_schema(written) for name, written in SCHEMAS.items()}
        self._prefixes = {
            name: b"\0" + registry.register(f"{name}-{suffix}", written).to_bytes(4, "big")
            for name, written in SCHEMAS.items()
        }

    def line(self, line: LogLine, *, late: bool) -> LogLine:
        """The same line of the log in Avro; garbage behind a prefix, every other time, or as it is."""
        event = line.event
        if event is None:
            framed = line.value and line.partition % 2
            return replace(line, value=self._prefixes["score"] + line.value) if framed else line
        if event.kind is Kind.OUTCOME:
            name = "label"
        elif event.model == OF_CLASSES:
            name = "scores"
        else:
            name = "later" if late else "score"
        written = io.BytesIO(self._prefixes[name])
        written.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(written, self._parsed[name], _fields(event))
        return replace(line, value=written.getvalue())


def _fields(event: NaiveEvent) -> Mapping[str, Any]:
    return {
        "model": event.model,
        "id": event.id,
        "ts": event.time_ms,
        "p": list(event.vector) or event.p,
        "y": event.y,
        "version": event.version,
        "segments": dict(event.segments) or None,
        "features": list(event.features) or None,
        "comment": "more than before",
    }


@pytest.mark.long
@pytest.mark.parametrize("events", [40_000, 1_000_000])
def test_avro_through_kills(
    own_broker: KafkaProcess, schema_registry: SchemaRegistryServer, tmp_path: Path, events: int
) -> None:
    log = MixedLog(events, len(NUMBERS), models=NAMES, features=True)
    published = published_of(log)
    serialiser = Serialiser(schema_registry, tmp_path.name)
    size = len(log.lines)
    lines = [serialiser.line(line, late=2 * at > size) for at, line in enumerate(log.lines)]
    chance = random.Random(16)
    url = f"sqlite:///{tmp_path}/state.db"
    with World(log, own_broker, url, tmp_path, registry=schema_registry.url) as world:
        world.fleet.start()
        for part in range(KILLS):
            before = world.saved()
            with world.written(lines[part * size // KILLS : (part + 1) * size // KILLS]):
                eventually(lambda before=before: world.saved() > before)  # type: ignore[misc]
                a_process_is_killed(world, chance)
            world.unrevised.look()
        wait_until_saved(world, size)
        assert world.store.saved_offsets() == world.ends()
        world.end(*world.fleet.names)
        assert world.unrevised.look() > 0
        assert_counts_as_expected(world)
        for model in NAMES:
            closings = world.store.read_closings(model, dict.fromkeys(NUMBERS, -1))
            for number in NUMBERS:
                assert closings[number]
                assert_closed(closings[number], published[number][model])
