"""`monitor map`: propose how a topic of foreign messages is read."""

import re
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from monitor.app.checks.base import CheckStatus
from monitor.app.kafka_parts import make_connection
from monitor.app.logs import configure_logs
from monitor.app.mapping_proposal import detect_format, propose_topic, topic_of_schema
from monitor.app.settings import Settings
from monitor.cli.check import finding_line
from monitor.cli.options import ConfigOption, option, read_settings
from monitor.clock import SystemClock
from monitor.errors import InputError
from monitor.events.model import Record
from monitor.sources.files import EventFile
from monitor.sources.kafka_connection import MAX_NEWEST, partition_counts, read_newest
from monitor.sources.schema_registry import SchemaRegistry

app = typer.Typer(add_completion=False)

_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9._-]+")


@app.command(
    name="map",
    epilog="Examples: `monitor map --topic scores`; `monitor map --topic scores --schema-file scores.avsc`; "
    "`monitor map --file messages.jsonl`.",
)
def map_(
    *,
    topic: Annotated[str | None, option("NAME", "Topic whose newest 100 messages are read.")] = None,
    file: Annotated[Path | None, option("FILE", "Messages as JSON lines, instead of a topic.")] = None,
    schema_file: Annotated[
        Path | None, option("FILE", "The one schema of all messages, of a topic without a registry.")
    ] = None,
    message: Annotated[str | None, option("TYPE", "The messages' type, where a .proto has several.")] = None,
    config: ConfigOption = None,
) -> None:
    """Propose how a topic of your own messages is read: settings, with a comment on what each line was seen in.

    The settings go to standard output, and to standard error how these messages are read with them. Nothing is changed.
    The exit status is 1 if none of these messages is an event with them: comments say what is missing.
    """
    if (topic is None) == (file is None):
        raise typer.BadParameter("name a topic, or a file of messages", param_hint="--topic, --file")
    configure_logs("error", "auto")
    settings, clock = read_settings(config), SystemClock()
    name = topic or _NO_NAME.sub("-", file.name.partition(".")[0] if file else "") or "messages"
    records = _newest(settings, name) if file is None else _last_lines(file)
    with ExitStack() as stack:
        registry: SchemaRegistry | None = None
        if schema_file is None and settings.source.registry.url is not None:
            # What the registry does not have now is left out at once: a proposal does not wait for a schema.
            registry = SchemaRegistry(settings.source.registry, unknown_seconds=0.0, clock=clock)
            stack.enter_context(closing(registry))
        if schema_file is None:
            read = detect_format(settings, name, records, registry)
        else:
            read = topic_of_schema(name, schema_file, message)
        proposed = propose_topic(settings, read, records, registry, clock)
    typer.echo(proposed.text, nl=False)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for finding in proposed.findings:
        console.print(finding_line(finding))
    if any(finding.verdict is CheckStatus.FAIL for finding in proposed.findings):
        raise typer.Exit(1)


def _newest(settings: Settings, topic: str) -> Sequence[Record]:
    if settings.source.kind != "kafka":
        raise InputError(
            "monitor map reads a topic of Kafka: set source.kind to kafka and source.kafka.bootstrap_servers in "
            "monitor.yaml; or name a file of messages with --file"
        )
    connection = make_connection(settings.source.kafka)
    partitions = partition_counts(connection, [topic])[topic]
    if not partitions:
        raise InputError(f"there is no topic {topic} at {connection.servers}")
    records = read_newest(connection, topic, partitions)
    if not records:
        raise InputError(f"there are no messages in topic {topic} yet: a mapping is proposed from messages")
    return records


def _last_lines(file: Path) -> Sequence[Record]:
    records: deque[Record] = deque(maxlen=MAX_NEWEST)
    for batch in EventFile(file).batches():
        records += batch.records
    if not records:
        raise InputError(f"{file}: there are no messages in it")
    return list(records)
