"""`monitor simulate`: the events of the demonstration's models into a source of one's own."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from monitor.app.demo import source_simulator
from monitor.app.parts import make_writer
from monitor.app.settings import Settings
from monitor.cli.options import ConfigOption, read_settings
from monitor.clock import SystemClock
from monitor.demo import MODELS, Simulator
from monitor.events.times import format_time

app = typer.Typer(add_completion=False)

_QUIET_SEED: Final = 32
"""As that of `monitor demo`."""
_TOLD_SECONDS: Final = 30.0


@app.command(
    epilog="Examples: `monitor simulate --config monitor.yaml`; "
    "`monitor simulate -c monitor.yaml --speed 1 --seconds 3600`."
)
def simulate(
    *,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Stop by itself so long after the history is written.")
    ] = None,
    speed: Annotated[
        float, typer.Option(min=1, max=1000, help="Simulated seconds that pass in a second, until the present.")
    ] = 60.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the simulation: the same seed, the same models.")] = _QUIET_SEED,
    config: ConfigOption = None,
) -> None:
    """Write the events of the demo's models into the configured source: the embedded log or Kafka.

    For a test installation, never for one that watches models in earnest. Two hours of history are written at once;
    then simulated time runs until it has caught up with the present, after three minutes, and keeps to it. Half a
    simulated hour after the history the models begin to drift. Ctrl-C ends it. The service that reads them should have
    `horizon: 10m` and `allowed_lateness: 5m` for these models.
    """
    settings = read_settings(config)
    clock = SystemClock()
    writer = make_writer(settings, clock)
    try:
        simulator = source_simulator(writer, settings, clock, speed=speed, seed=seed)
        _say_what_comes(settings, simulator, clock)
        with _ended_by_signals(simulator), _telling(simulator, clock):
            simulator.produce() if seconds is None else simulator.produce(seconds)
    finally:
        writer.close()
    typer.echo(_progress(simulator, clock))


def _say_what_comes(settings: Settings, simulator: Simulator, clock: SystemClock) -> None:
    kafka = settings.source.kind == "kafka"
    where = ", ".join(settings.source.kafka.bootstrap_servers) if kafka else settings.source.embedded.directory
    topics = ", ".join(topic for topic in settings.source.topics.named.values() if topic is not None)
    typer.echo(f"{len(MODELS)} models to {settings.source.kind} {where}, topics {topics}")
    typer.echo(
        f"history up to {_minute(simulator.start_ms)}, {_behind(simulator.start_ms, clock)}; then as time goes on"
    )
    typer.echo(f"the models begin to drift at {_minute(simulator.change_ms)}")


def _progress(simulator: Simulator, clock: SystemClock) -> str:
    return (
        f"{simulator.messages:,} messages up to {_minute(simulator.now_ms)}, {_behind(simulator.now_ms, clock)}; "
        f"drift {'began' if simulator.now_ms >= simulator.change_ms else 'begins'} at {_minute(simulator.change_ms)}"
    )


def _minute(time_ms: int) -> str:
    return f"{format_time(time_ms)[:16]}Z"


def _behind(time_ms: int, clock: SystemClock) -> str:
    minutes = (clock.now_ms() - time_ms) // 60_000
    return "level with the clock" if minutes < 1 else f"{minutes} min behind the clock"


@contextmanager
def _telling(simulator: Simulator, clock: SystemClock) -> Iterator[None]:
    """Say every half minute how far it is, as a container's log should."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(_TOLD_SECONDS):
            typer.echo(_progress(simulator, clock))

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _ended_by_signals(simulator: Simulator) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end it in order, after the batch that is being written."""
    before = {number: signal.signal(number, lambda *_: simulator.stop()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
