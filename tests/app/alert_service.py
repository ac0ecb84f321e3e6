"""A service whose evidence is what a test says it is, with a receiver of its alerts."""

import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from monitor.alarms.watcher import Watched
from monitor.app.parts import make_topics, make_writer
from monitor.app.replay import route
from monitor.app.service import Service
from monitor.app.settings import Settings
from monitor.clock import SystemClock
from monitor.events.encode import encode_labelled
from monitor.store.alert import Finding
from tests.alarms.findings import Script, finding
from tests.patience import PATIENCE_SECONDS

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
SECRET = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


def settings_of(folder: Path, **more: Any) -> dict[str, Any]:
    """The settings of a service on an embedded log, with others."""
    return {
        "source": {"embedded": {"directory": str(folder / "log"), "partitions": 1}},
        "store": {"url": f"sqlite:///{folder / 'state.db'}"},
        "models": {"defaults": {"horizon": "10m", "allowed_lateness": "5m"}},
        "windows": [{"length": "1h"}],
        "evaluation": {"interval": "200ms", "draws": 0},
        "pipeline": {"checkpoint_interval": "100ms"},
        "api": {"port": 0},
        "access": {"mode": "off"},
        **more,
    }


@contextmanager
def running(settings: dict[str, Any], *findings: Finding, models: Sequence[str] = ("churn",)) -> Iterator[Service]:
    """A service that reads an hour of events of these models, one each second, whose evidence says these findings."""
    chosen = Settings.model_validate(settings)
    writer = make_writer(chosen, SystemClock())
    times = [*range(START_MS, START_MS + HOUR_MS, 1000), START_MS + 3 * HOUR_MS]
    events = [encode_labelled(of, f"id-{at}", at, 0.3, int(at % 3 == 0), version="7") for at in times for of in models]
    writer.write([route(value, make_topics(chosen)) for value in events])
    writer.close()
    service = Service(chosen, clock=SystemClock())
    say(service, *findings)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def service_of_alerts(folder: Path, webhook: str) -> AbstractContextManager[Service]:
    """A service in which the evidence against churn 7 has reached its line."""
    alerts = {"webhooks": {"oncall": {"url": webhook, "secret": SECRET}}}
    return running(settings_of(folder, alerts=alerts), finding(7.2))


def say(service: Service, *findings: Finding) -> None:
    """Let the evidence amount to these findings."""
    script = Script(*findings).now
    service.evaluation.watcher.update = lambda epochs: Watched({}, script)  # type: ignore[method-assign]


def metrics(service: Service) -> str:
    """The text of /metrics."""
    with urllib.request.urlopen(f"{service.server.url}/metrics", timeout=PATIENCE_SECONDS) as answer:
        return str(answer.read(), "utf-8")
