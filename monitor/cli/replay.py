"""`monitor replay`: write the events of a file into the log."""

import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Final

import typer

from monitor.app.parts import make_writer
from monitor.app.replay import make_route
from monitor.cli.options import ConfigOption, argument, option, read_settings
from monitor.clock import SystemClock
from monitor.reports.progress import bytes_progress
from monitor.sources.files import EventFile

app = typer.Typer(add_completion=False)

_BATCH: Final = 2_000
_BATCHES_PER_SECOND: Final = 10
"""Batches a second with --rate."""


@app.command(
    epilog="Examples: `monitor replay events.jsonl`; `monitor replay events.jsonl.gz -c monitor.yaml --rate 5000`."
)
def replay(
    file: Annotated[Path, argument("FILE", "JSON lines of events, plain, .gz, .bz2 or .zst.")],
    *,
    topic: Annotated[
        str | None, option(None, "Write all to this topic; by default each event goes to the topic of its type.")
    ] = None,
    rate: Annotated[float | None, option("N", "Events per second at most; without it, no limit.", min=0.1)] = None,
    config: ConfigOption = None,
) -> None:
    """Write the events of a file into the configured source: the embedded log or Kafka.

    Events are keyed by their prediction's id. Lines that are no valid events are written unchanged, and become dead
    letters as from any producer. Events that the service has already read change nothing. Lines in the words of another
    producer go to the topic whose mapping reads them: name it by --topic.
    """
    settings = read_settings(config)
    events = EventFile(file)
    route = make_route(settings, topic)
    writer = make_writer(settings, SystemClock())
    written: Counter[str] = Counter()
    without_key = 0
    began = time.monotonic()
    try:
        with bytes_progress(f"writing {file.name}") as progress:
            size = _BATCH if rate is None else max(1, min(_BATCH, round(rate / _BATCHES_PER_SECOND)))
            for batch in events.batches(size):
                messages = [route.message(record) for record in batch.records]
                writer.write(messages)
                written.update(message.topic for message in messages)
                without_key += sum(message.key is None for message in messages)
                progress(events.bytes_read, events.size)
                if rate is not None:
                    time.sleep(max(0.0, began + written.total() / rate - time.monotonic()))
    finally:
        # Even after an interrupt, report what was written.
        writer.close()
        seconds = time.monotonic() - began
        where = ", ".join(f"{number:,} to {topic}" for topic, number in sorted(written.items())) or "nothing written"
        per_second = written.total() / seconds if seconds > 0 else 0.0
        typer.echo(f"{file.name}: {written.total():,} events in {seconds:.1f} s ({per_second:,.0f}/s): {where}")
        if without_key:
            typer.echo(f"{without_key:,} of them {route.without_key}", err=True)
