"""`monitor demo`: the service on five simulated models."""

import errno
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from monitor.app.demo import demo_settings, demo_simulator
from monitor.app.logs import configure_logs
from monitor.app.service import Service
from monitor.cli.demo_view import Links, final_lines, plain_line, view
from monitor.cli.running import leave, run_service
from monitor.clock import SystemClock
from monitor.demo import Simulator
from monitor.errors import InputError, SettingsError

app = typer.Typer(add_completion=False)

_USUAL_PORT = 8000
_QUIET_SEED = 32
"""One with which chance stays within chance in the first hours, as it does with most but not all."""
_REFRESH_SECONDS = 1.0
_LINE_SECONDS = 5.0


@app.command(
    epilog="Examples: `monitor demo`; `monitor demo --seconds 120 --keep demo-data`, then "
    "`monitor dead-letters list --config demo-data/monitor.yaml`."
)
def demo(
    *,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="Stop by itself so long after events begin to flow.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of pages, REST and /metrics; 8000, or a free one if it is taken."),
    ] = None,
    speed: Annotated[float, typer.Option(min=1, max=1000, help="Simulated seconds that pass in a second.")] = 120.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the simulation: the same seed, the same events.")] = _QUIET_SEED,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep log, state and settings there; by default they go.")
    ] = None,
) -> None:
    """Run the service on five simulated models, watch what becomes of their calibration, and repair them.

    One stays calibrated, one becomes overconfident, one's prevalence falls while it stays calibrated, one starts to
    miss a rare event, and one is right on the whole but wrong for two kinds of customers, whom only their features
    tell apart. Outcomes come late, out of order, twice, corrected, or never. No service is needed.
    """
    with _directory(keep) as directory, (directory / "monitor.log").open("w", encoding="utf-8") as log:
        configure_logs("info", "console", stream=log)
        console = Console()

        def run(port: int) -> int:
            settings = demo_settings(directory, port)
            service = Service(settings)
            simulator = demo_simulator(service, settings, SystemClock(), speed=speed, seed=seed)
            return run_service(service, _Screen(console, directory, simulator, seconds).run)

        status = _on_usual_port(run, console) if port is None else run(port)
        if keep is not None:
            message = f"kept in {directory}; look at it with: monitor serve --config {directory / 'monitor.yaml'}"
            console.print(message, markup=False, soft_wrap=True)
    leave(status)


class _Screen:
    """What the terminal shows while the service runs."""

    def __init__(self, console: Console, directory: Path, simulator: Simulator, seconds: float | None) -> None:
        self._console = console
        self._directory = directory
        self._simulator = simulator
        self._seconds = seconds
        self._ends_at = float("inf")

    def run(self, service: Service) -> None:
        """Show it until the service is to end."""
        links = Links(service.server.url, self._directory)
        self._console.print(links.text(), soft_wrap=True)
        self._wait_until_warm(service)
        producer = threading.Thread(target=self._simulator.run, name="simulator", daemon=True)
        producer.start()
        if self._seconds is not None:
            self._ends_at = time.monotonic() + self._seconds
        try:
            if self._console.is_terminal:
                self._show_live(service)
            else:
                self._show_lines(service)
        finally:
            self._simulator.stop()
            producer.join(5.0)
        for line in final_lines(service.evaluator.latest):
            self._console.print(line, soft_wrap=True)

    def _wait_until_warm(self, service: Service) -> None:
        message = "compiling the numerical kernels (the first start takes a while, later ones do not)"
        if not self._console.is_terminal:
            self._console.print(message, soft_wrap=True)
        with self._console.status(message):
            while not service.warm and not service.wait(0.1):
                pass

    def _show_live(self, service: Service) -> None:
        with Live(console=self._console, auto_refresh=False) as live:
            while not self._over(service, _REFRESH_SECONDS):
                live.update(view(service, self._simulator, self._console.width), refresh=True)
        # The last state stays on the screen.

    def _show_lines(self, service: Service) -> None:
        while not self._over(service, _LINE_SECONDS):
            self._console.print(plain_line(service, self._simulator), soft_wrap=True)

    def _over(self, service: Service, wait_seconds: float) -> bool:
        left = self._ends_at - time.monotonic()
        return service.wait(max(0.0, min(wait_seconds, left))) or time.monotonic() >= self._ends_at


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


def _on_usual_port(run: Callable[[int], int], console: Console) -> int:
    """Run on the usual port or, where that is taken, on any."""
    try:
        return run(_USUAL_PORT)
    except SettingsError as error:
        # Known by listening alone: between a look and that, another program may take it.
        cause = error.__cause__
        if not (isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE):
            raise
    console.print(f"port {_USUAL_PORT} is taken, so a free one is used; --port chooses one", soft_wrap=True)
    return run(0)
