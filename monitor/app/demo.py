"""The settings of the demonstration, and its simulator."""

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml

from monitor.app.service import Service
from monitor.clock import Clock
from monitor.demo import HORIZON_MS, LATENESS_MS, Pace, Simulator
from monitor.settings import Settings
from monitor.settings.values import format_duration

_RETENTION_BYTES: Final = 64 * 1024 * 1024
"""Of a partition of the log: the demonstration may run for days."""

_HEAD: Final = "# Settings of `monitor demo`. What is not named is as in `monitor config --default`.\n"


def demo_settings(directory: Path, port: int) -> Settings:
    """The service on its embedded log, with a horizon and windows for simulated time. Also writes them down.

    ``monitor.yaml`` in the directory says the same, so that other commands can look at the demonstration.
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
            # The method that repairs what becomes of each; overconfident takes the usual one.
            "declared": {
                "rare-event": {"recalibration": {"method": "offset"}},
                "local-error": {"recalibration": {"method": "lore"}},
            },
        },
        "windows": [{"length": "1h"}, {"length": "6h"}],
        "evaluation": {"interval": "2s"},
        "api": {"port": port},
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
