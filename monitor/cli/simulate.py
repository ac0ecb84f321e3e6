"""`monitor simulate`: write the events of the demo's models into the configured source."""

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Annotated, Final

import typer

from monitor.app.parts import make_json_topics, make_writer
from monitor.app.replay import route
from monitor.app.settings import Settings
from monitor.app.upkeep import Periodic
from monitor.cli.options import ConfigOption, SeedOption, option, read_settings
from monitor.cli.running import ended_by_signals
from monitor.clock import Clock, SystemClock
from monitor.errors import SettingsError
from monitor.events.log import Writer
from monitor.events.model import Kind, Message
from monitor.events.times import format_time
from monitor.simulation.models import MODELS
from monitor.simulation.simulator import DEMO_SEED, Pace, Simulator

app = typer.Typer(add_completion=False)

_PROGRESS_SECONDS: Final = 30.0
_HOUR_MS: Final = 3_600_000
_HISTORY_MS: Final = 2 * _HOUR_MS
_CALM_MS: Final = _HOUR_MS // 2
_CATCHING_UP_SECONDS: Final = 180


@app.command(
    epilog="Examples: `monitor simulate --config monitor.yaml`; "
    "`monitor simulate -c monitor.yaml --speed 1 --seconds 3600`."
)
def simulate(
    *,
    seconds: Annotated[float | None, option(None, "Stop this long after the history is written.", min=1)] = None,
    speed: Annotated[
        float, option(None, "Simulated seconds per second, until the present is reached.", min=1, max=1000)
    ] = 60.0,
    seed: SeedOption = DEMO_SEED,
    config: ConfigOption = None,
) -> None:
    """Write the events of the demo's models into the configured source: the embedded log or Kafka.

    For test installations only. Two hours of history are written at once; then simulated time runs until it has caught
    up with the present, after three minutes, and keeps to it. Half a simulated hour after the history the models begin
    to drift. Ctrl-C ends it. The service that reads them should have `horizon: 10m` and `allowed_lateness: 5m` for
    these models.
    """
    settings = read_settings(config)
    clock = SystemClock()
    with closing(make_writer(settings, clock)) as writer:
        simulator = source_simulator(writer, settings, clock, speed=speed, seed=seed)
        _print_plan(settings, simulator, clock)
        progress = Periodic("progress", _PROGRESS_SECONDS, lambda: typer.echo(_progress(simulator, clock)))
        progress.start()
        try:
            with ended_by_signals(simulator.stop):
                simulator.produce(math.inf if seconds is None else seconds)
        finally:
            progress.stop(1.0)
    typer.echo(_progress(simulator, clock))


def source_simulator(writer: Writer, settings: Settings, clock: Clock, *, speed: float, seed: int) -> Simulator:
    """The demo's models, writing to the topics of the settings; they catch up with the present and then keep to it.

    Raises
    ------
    SettingsError
        There are no topics for both predictions and outcomes.
    """
    topics = make_json_topics(settings)
    kinds = set(topics.kinds.values())
    if None not in kinds and not {Kind.PREDICTION, Kind.OUTCOME} <= kinds:
        topics_set = ", ".join(f"{key}: {topic.name}" for key, topic in settings.source.topics.read.items())
        raise SettingsError(
            f"source.topics must name predictions and outcomes, or events, for the simulator to write to, got"
            f" {topics_set}"
        )

    def write(messages: Sequence[Message]) -> None:
        if len(topics.kinds) > 1:
            messages = [replace(message, topic=route(message.value or b"", topics).topic) for message in messages]
        writer.write(messages)

    return Simulator(write, next(iter(topics.kinds)), clock, pace=pace_to_now(clock, speed), seed=seed)


def pace_to_now(clock: Clock, speed: float) -> Pace:
    """At least two hours of history, then so far in the past that the present is reached after three minutes.

    At a speed of 1 it is reached at once, and the models change after half an hour.
    """
    now_ms = clock.now_ms()
    start_ms = now_ms - round(_CATCHING_UP_SECONDS * 1000 * (speed - 1.0))
    # The simulator begins on a whole hour, so the history is a little longer.
    begin_ms = (start_ms - _HISTORY_MS) // _HOUR_MS * _HOUR_MS
    return Pace(speed=speed, history_ms=start_ms - begin_ms, calm_ms=_CALM_MS, behind_ms=now_ms - begin_ms)


def _print_plan(settings: Settings, simulator: Simulator, clock: Clock) -> None:
    kafka = settings.source.kind == "kafka"
    where = ", ".join(settings.source.kafka.bootstrap_servers) if kafka else settings.source.embedded.directory
    topics = ", ".join(make_json_topics(settings).kinds)
    typer.echo(f"{len(MODELS)} models to {settings.source.kind} {where}, topics {topics}")
    typer.echo(
        f"history up to {_minute(simulator.start_ms)}, {_behind(simulator.start_ms, clock)}; then as time goes on"
    )
    typer.echo(f"the models begin to drift at {_minute(simulator.change_ms)}")


def _progress(simulator: Simulator, clock: Clock) -> str:
    return (
        f"{simulator.messages:,} messages up to {_minute(simulator.now_ms)}, {_behind(simulator.now_ms, clock)}; "
        f"drift {'began' if simulator.now_ms >= simulator.change_ms else 'begins'} at {_minute(simulator.change_ms)}"
    )


def _minute(time_ms: int) -> str:
    return f"{format_time(time_ms)[:16]}Z"


def _behind(time_ms: int, clock: Clock) -> str:
    minutes = (clock.now_ms() - time_ms) // 60_000
    return "level with the clock" if minutes < 1 else f"{minutes} min behind the clock"
