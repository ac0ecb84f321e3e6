"""`monitor replay`: events from a file into the log."""

import time
from pathlib import Path
from typing import Annotated

import typer

from monitor.app.parts import make_topics, make_writer
from monitor.app.replay import Routed, route
from monitor.cli.options import ConfigOption, read_settings
from monitor.clock import SystemClock
from monitor.reports.progress import bytes_progress
from monitor.sources.base import Topics
from monitor.sources.files import EventFile

app = typer.Typer(add_completion=False)

_BATCH = 2_000
_TURNS_A_SECOND = 10
"""At a given rate, this many batches are written a second."""


@app.command(
    epilog="Examples: `monitor replay events.jsonl`; `monitor replay events.jsonl.gz -c monitor.yaml --rate 5000`."
)
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines of events, plain or .gz.")],
    *,
    topic: Annotated[
        str | None,
        typer.Option(help="Write all to this topic; by default each event goes to the topic of its type."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.1, metavar="N", help="Events a second at the most; without it, no limit.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Write the events of a file into the configured source: the embedded log or Kafka.

    Events are keyed by their prediction's id. Lines that are no valid events are written as they are, so that they
    meet the dead letters as they would from any producer. Events that the service knows already change nothing.
    """
    settings = read_settings(config)
    events = EventFile(file)
    clock = SystemClock()
    topics = make_topics(settings)
    writer = make_writer(settings, clock)
    counts = {"events": 0, "without_id": 0}
    written: dict[str, int] = {}
    began = time.monotonic()
    try:
        with bytes_progress(f"writing {file.name}") as progress:
            size = _BATCH if rate is None else max(1, min(_BATCH, round(rate / _TURNS_A_SECOND)))
            for batch in events.batches(size):
                routed = [_routed(record.value or b"", topic, topics) for record in batch.records]
                writer.write([event.message for event in routed])
                counts["events"] += len(routed)
                counts["without_id"] += sum(not event.has_id for event in routed)
                for event in routed:
                    written[event.message.topic] = written.get(event.message.topic, 0) + 1
                progress(events.bytes_read, events.size)
                if rate is not None:
                    time.sleep(max(0.0, began + counts["events"] / rate - time.monotonic()))
    finally:
        # Also when interrupted: what was written is written.
        writer.close()
        _say(file, counts, written, time.monotonic() - began)


def _routed(value: bytes, topic: str | None, topics: Topics) -> Routed:
    return route(value, topics if topic is None else Topics({topic: None}))


def _say(file: Path, counts: dict[str, int], written: dict[str, int], seconds: float) -> None:
    where = ", ".join(f"{number:,} to {topic}" for topic, number in sorted(written.items())) or "nothing written"
    rate = counts["events"] / seconds if seconds > 0 else 0.0
    typer.echo(f"{file.name}: {counts['events']:,} events in {seconds:.1f} s ({rate:,.0f}/s): {where}")
    if counts["without_id"]:
        typer.echo(f"{counts['without_id']:,} of them have no readable id and will be dead letters", err=True)
