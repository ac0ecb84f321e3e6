"""Settings of the demo, and its simulator, which can also write to the configured source."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from monitor.app.parts import make_topics
from monitor.app.replay import route
from monitor.app.service import Service
from monitor.app.settings import Settings
from monitor.clock import Clock
from monitor.demo import HORIZON_MS, LATENESS_MS, Pace, Simulator
from monitor.durations import format_duration
from monitor.errors import SettingsError
from monitor.sources.base import Message, Topics, Writer

_RETENTION_BYTES: Final = 64 * 1024 * 1024
"""Of a partition of the log: the demonstration may run for days."""

_HOUR_MS: Final = 3_600_000
_HISTORY_MS: Final = 2 * _HOUR_MS
_CALM_MS: Final = _HOUR_MS // 2
_CATCHING_UP_SECONDS: Final = 180

_HEAD: Final = "# Settings of `monitor demo`. What is not named is as in `monitor config --default`.\n"


def demo_settings(directory: Path, port: int) -> Settings:
    """Settings of the demo: the embedded log, with a horizon and windows for simulated time. Also write them to a file.

    ``monitor.yaml`` in the directory holds them, so that other commands can read the demo's state.
    """
    # Other commands may be started elsewhere.
    directory = directory.resolve()
    tree: dict[str, Any] = {
        "source": {"embedded": {"directory": str(directory / "log"), "retention_bytes": _RETENTION_BYTES}},
        "store": {"url": f"sqlite:///{directory / 'state.db'}"},
        "models": {
            "defaults": {
                "horizon": format_duration(timedelta(milliseconds=HORIZON_MS)),
                "allowed_lateness": format_duration(timedelta(milliseconds=LATENESS_MS)),
            },
            # The method that fits the change of each model; overconfident has the default one.
            "declared": {
                "rare-event": {"recalibration": {"method": "offset"}},
                "local-error": {"recalibration": {"method": "lore"}},
            },
        },
        "windows": [{"length": "1h"}, {"length": "6h"}],
        "evaluation": {"interval": "2s"},
        "api": {"port": port},
        # It listens on loopback alone and holds no real data.
        "access": {"mode": "off"},
    }
    settings = Settings.model_validate(tree)
    (directory / "monitor.yaml").write_text(_HEAD + yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    return settings


def demo_simulator(service: Service, settings: Settings, clock: Clock, *, speed: float, seed: int) -> Simulator:
    """The producer: it writes to the topic that the service reads."""
    topic = settings.source.topics.named["events"]
    if topic is None:
        raise ValueError("the demonstration needs a topic of all types of event")
    return Simulator(service.log.writer, topic, clock, pace=Pace(speed=speed), seed=seed)


def source_simulator(writer: Writer, settings: Settings, clock: Clock, *, speed: float, seed: int) -> Simulator:
    """The same models for the configured source, whose events catch up with the present and then keep to it.

    Raises
    ------
    SettingsError
        There are no topics for both predictions and outcomes.
    """
    named = settings.source.topics.named
    if named["events"] is None and (named["predictions"] is None or named["outcomes"] is None):
        topics_set = ", ".join(f"{kind}: {topic}" for kind, topic in named.items() if topic is not None)
        raise SettingsError(
            f"source.topics must name predictions and outcomes, or events, for the simulator to write to, got"
            f" {topics_set}"
        )
    topics = make_topics(settings)
    # _ByType replaces the topic by that of the message's type.
    return Simulator(
        _ByType(writer, topics), next(iter(topics.kinds)), clock, pace=pace_to_now(clock, speed), seed=seed
    )


def pace_to_now(clock: Clock, speed: float) -> Pace:
    """At least two hours of history, then so far in the past that the present is reached after three minutes.

    At a speed of 1 it is reached at once, and the models change after half an hour.
    """
    now_ms = clock.now_ms()
    start_ms = now_ms - round(_CATCHING_UP_SECONDS * 1000 * (speed - 1.0))
    # The simulator begins on a whole hour: so the history is a little longer, rather than the present out of reach.
    begin_ms = (start_ms - _HISTORY_MS) // _HOUR_MS * _HOUR_MS
    return Pace(speed=speed, history_ms=start_ms - begin_ms, calm_ms=_CALM_MS, behind_ms=now_ms - begin_ms)


class _ByType:
    """Writes each message to the topic of its event's type."""

    def __init__(self, writer: Writer, topics: Topics) -> None:
        self._writer = writer
        self._topics = topics

    def write(self, messages: Sequence[Message]) -> None:
        """Write the messages."""
        if len(self._topics.kinds) > 1:
            messages = [
                replace(message, topic=route(message.value or b"", self._topics).message.topic) for message in messages
            ]
        self._writer.write(messages)

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()
