"""`monitor demo`: the service on five simulated models."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer
import yaml
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from monitor.app.logs import configure_logs
from monitor.app.service import Service
from monitor.app.settings import Settings
from monitor.cli.options import SeedOption, option
from monitor.cli.running import leave, run_service
from monitor.cli.service import USUAL_URL
from monitor.clock import SystemClock
from monitor.durations import format_ms
from monitor.errors import InputError, PortTaken
from monitor.events import event_results
from monitor.events.model import ALL
from monitor.reports.evaluation.report import Report, ReportKey
from monitor.reports.formatting import time_text, value_text
from monitor.reports.report_view import reports_table
from monitor.reports.view import Word
from monitor.simulation.models import MODELS
from monitor.simulation.simulator import DEMO_SEED, Pace, Simulator
from monitor.simulation.traffic import HORIZON_MS, LATENESS_MS

app = typer.Typer(add_completion=False)

_USUAL_PORT = 8000
_REFRESH_SECONDS: Final = 1.0
_LINE_SECONDS: Final = 5.0
_LINE_WINDOW: Final = "1h"
_ORDER: Final = [model.name for model in MODELS]
_TOPIC: Final = "calibration-events"
_EMPTY: Final = "the first windows are being filled"
_RETENTION_BYTES: Final = 64 * 1024 * 1024
"""Size of a partition of the log: the demo may run for days."""
_HEAD: Final = "# Settings of `monitor demo`. Other settings are as in `monitor config --default`.\n"


@app.command(
    epilog="Examples: `monitor demo`; `monitor demo --seconds 120 --keep demo-data`, then "
    "`monitor dead-letters list --config demo-data/monitor.yaml`."
)
def demo(
    *,
    seconds: Annotated[float | None, option(None, "Stop this long after events begin to flow.", min=1)] = None,
    port: Annotated[
        int | None,
        option(None, "Port of pages, REST and /metrics; 8000, or a free one if it is taken.", min=0, max=65535),
    ] = None,
    speed: Annotated[float, option(None, "Simulated seconds per second.", min=1, max=1000)] = 120.0,
    seed: SeedOption = DEMO_SEED,
    keep: Annotated[
        Path | None, option("DIR", "Keep log, state and settings there; they are removed otherwise.")
    ] = None,
) -> None:
    """Run the service on five simulated models, watch what becomes of their calibration, and repair them.

    One stays calibrated, one becomes overconfident, one's prevalence falls while it stays calibrated, one starts to
    miss a rare event, and one is right on average but wrong for two kinds of customers, which only the features
    distinguish. Outcomes come late, out of order, twice, corrected, or never. No service is needed.
    """
    with _directory(keep) as directory, (directory / "monitor.log").open("w", encoding="utf-8") as log:
        configure_logs("info", "console", stream=log)
        console = Console()

        def run(port: int) -> int:
            # The simulator writes to the log that the service opens; nobody asks before both are there.
            service = Service(demo_settings(directory, port), SystemClock(), lambda: simulator.time)
            write = service.log.writer.write
            simulator = Simulator(write, _TOPIC, SystemClock(), pace=Pace(speed=speed), seed=seed)
            return run_service(service, _Screen(console, service, simulator, directory, seconds).run)

        status = _run_on_usual_port(run, console) if port is None else run(port)
        if keep is not None:
            message = f"kept in {directory}; look at it with: monitor serve --config {directory / 'monitor.yaml'}"
            console.print(message, markup=False, soft_wrap=True)
    leave(status)


def demo_settings(directory: Path, port: int) -> Settings:
    """Settings of the demo: the embedded log, with a horizon and windows for simulated time.

    They are also written to ``monitor.yaml`` in the directory, so that other commands can read the demo's state.
    """
    directory = directory.resolve()  # other commands may run elsewhere
    tree: dict[str, Any] = {
        "source": {"embedded": {"directory": str(directory / "log"), "retention_bytes": _RETENTION_BYTES}},
        "store": {"url": f"sqlite:///{directory / 'state.db'}"},
        "models": {
            "defaults": {
                "horizon": format_ms(HORIZON_MS),
                "allowed_lateness": format_ms(LATENESS_MS),
            },
            # The method that fits the change of each model; overconfident has the default one.
            "declared": {
                "rare-event": {"recalibration": {"method": "offset"}},
                "local-error": {"recalibration": {"method": "lore"}},
            },
        },
        "windows": [{"length": "1h"}, {"length": "6h"}],
        "evaluation": {"interval": "2s"},
        # For dashboards, which one may want to try on it.
        "exposition": {"level": "all"},
        "api": {"port": port},
        # It listens on loopback only and holds no real data.
        "access": {"mode": "off"},
    }
    settings = Settings.model_validate(tree)
    (directory / "monitor.yaml").write_text(_HEAD + yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    return settings


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="monitor-demo-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InputError(f"--keep must name a new or empty directory, got {keep}, which holds something")
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--keep: cannot make the directory {keep}: {error.strerror}") from error
    yield keep


def _run_on_usual_port(run: Callable[[int], int], console: Console) -> int:
    """Run on the usual port or, if that is taken, on a free one."""
    # Only listening tells: a port that was free a moment ago may be taken.
    with suppress(PortTaken):
        return run(_USUAL_PORT)
    console.print(f"port {_USUAL_PORT} is taken, so a free one is used; --port chooses one", soft_wrap=True)
    return run(0)


class _Screen:
    """What the terminal shows while the service runs."""

    def __init__(
        self, console: Console, service: Service, simulator: Simulator, directory: Path, seconds: float | None
    ) -> None:
        self._console = console
        self._service = service
        self._simulator = simulator
        self._directory = directory
        self._seconds = seconds

    def run(self) -> None:
        """Show it until the service is to end."""
        self._console.print(links(self._service.server.url, self._directory), soft_wrap=True)
        self._wait_until_warm()
        producer = threading.Thread(target=self._simulator.run, name="simulator", daemon=True)
        producer.start()
        ends_at = float("inf") if self._seconds is None else time.monotonic() + self._seconds
        try:
            if self._console.is_terminal:
                with Live(console=self._console, auto_refresh=False) as live:
                    while not self._is_over(_REFRESH_SECONDS, ends_at):
                        live.update(_live_view(self._service, self._simulator, self._console.width), refresh=True)
            else:
                while not self._is_over(_LINE_SECONDS, ends_at):
                    self._console.print(_plain_line(self._service, self._simulator), soft_wrap=True)
        finally:
            self._simulator.stop()
            producer.join(5.0)
        snapshot = self._service.snapshots.latest
        for report in _reports(snapshot.reports, _LINE_WINDOW):
            state = snapshot.state(report.model, report.version)
            line = Text(f"{report.model:<14} ").append(state.words, style=state.style)
            self._console.print(line.append(f". {state.sentence}", style="default"), soft_wrap=True)

    def _wait_until_warm(self) -> None:
        message = "compiling the numerical kernels (the first start takes a while, later ones do not)"
        if not self._console.is_terminal:
            self._console.print(message, soft_wrap=True)
        with self._console.status(message):
            while not self._service.warm and not self._service.wait(0.1):
                pass

    def _is_over(self, wait_seconds: float, ends_at: float) -> bool:
        left = ends_at - time.monotonic()
        return self._service.wait(max(0.0, min(wait_seconds, left))) or time.monotonic() >= ends_at


def links(url: str, directory: Path) -> Text:
    """The addresses of the demo, one per line, its models, and commands to try."""
    at = "" if urlsplit(url).port == urlsplit(USUAL_URL).port else f" --url {url}"
    addresses = {
        "all pages": f"{url}/",
        "refits": f"{url}/recalibrations",
        "Prometheus": f"{url}/metrics",
        "REST, to try": f"{url}/docs",
        "a report": f"{url}/v1/models/overconfident/report?window={_LINE_WINDOW}",
        "settings, log": f"{directory}/",
    }
    text = Text(f"Calibration monitor: {len(MODELS)} simulated models. Ctrl-C ends it.\n", style="bold")
    for name, address in addresses.items():
        text.append(f"  {name:<14}", style="dim").append(f"{address}\n", style="not bold")
    for model in MODELS:
        text.append(f"  {model.name:<14}", style="cyan").append(f"{model.story}\n", style="not bold")
    text.append("To repair two of them, two minutes from now, in another terminal:\n", style="bold")
    for arguments in ("overconfident --wait --promote", "local-error --method lore --wait"):
        text.append(f"  monitor recalibrate {arguments}{at}\n", style="not bold")
    return text


def _live_view(service: Service, simulator: Simulator, width: int) -> RenderableType:
    """The measures of each model and window, and the results of the events."""
    snapshot = service.snapshots.latest
    all_reports = _reports(snapshot.reports)
    reports = [report for report in all_reports if report.n or report.predictions]
    parts: list[RenderableType] = [_time_line(simulator)]
    if reports:

        def evidence(report: Report) -> Word:
            state = snapshot.state(report.model, report.version)
            return Word(state.words, state.style)

        parts.append(reports_table(reports, columns=("model", "window"), width=width, evidence=evidence))
    else:
        parts.append(Text(_EMPTY, style="dim"))
    # One line for all models.
    empty = {report.window: report.insufficient for report in all_reports if not report.predictions}
    parts += [Text(f"{window} {reason}", style="dim") for window, reason in sorted(empty.items())]
    return Group(*parts, _events_line(service))


def _plain_line(service: Service, simulator: Simulator) -> str:
    snapshot = service.snapshots.latest
    models = " | ".join(
        f"{report.model} {_smce(report)} {snapshot.state(report.model, report.version).words}"
        for report in _reports(snapshot.reports, _LINE_WINDOW)
    )
    return f"{time_text(simulator.now_ms)} simulated | {models or _EMPTY}"


def _reports(reports: Mapping[ReportKey, Report], window: str | None = None) -> list[Report]:
    """The reports on the whole models, of one window or of all, in the order of the models."""
    of_models = [
        report
        for key, report in reports.items()
        if key.series.segment == ALL and report.model in _ORDER and window in {None, report.window}
    ]
    return sorted(of_models, key=lambda report: (_ORDER.index(report.model), report.window))


def _smce(report: Report) -> str:
    result = report.measures.get("smce")
    if result is None:
        return "smCE -"
    return f"smCE {value_text(result.value, result.unit)} (null 95% {value_text(result.null_q95, result.unit)})"


def _time_line(simulator: Simulator) -> Text:
    text = Text(f"simulated time {time_text(simulator.now_ms)}", style="bold")
    left_ms = simulator.change_ms - simulator.now_ms
    if left_ms > 0:
        return text.append(f"   the models begin to change in {left_ms // 60_000 + 1} simulated minutes", style="dim")
    return text.append(f"   the models began to change at {time_text(simulator.change_ms)}", style="dim")


def _events_line(service: Service) -> Text:
    status = service.status
    counts = status.counters
    numbers = {
        "read": status.records_read,
        "predictions": counts.get((event_results.PREDICTION, event_results.ACCEPTED), 0),
        "joined": counts.get((event_results.OUTCOME, event_results.JOINED), 0),
        "corrected": counts.get((event_results.OUTCOME, event_results.CORRECTED), 0),
        "duplicates": sum(count for (_, result), count in counts.items() if result == event_results.DUPLICATE),
        "too late": counts.get((event_results.OUTCOME, event_results.AFTER_HORIZON), 0),
        "dead letters": counts.get((event_results.UNKNOWN, event_results.DEAD_LETTER), 0),
        "pending": status.unanswered,
        "lag": sum(status.lag.values()),
    }
    line = Text("events ", style="dim")
    for name, count in numbers.items():
        line.append(f" {name} ", style="dim").append(f"{count:,}")
    if status.detail:
        line.append(f"\n{status.phase.value}: {status.detail}", style="bold red")
    return line
