"""`monitor serve`: run the service."""

import typer

from monitor.app.logs import configure_logs, log_uncaught_errors, secrets_of
from monitor.app.service import Service
from monitor.cli.options import ConfigOption, read_settings
from monitor.cli.running import leave, run_service
from monitor.clock import SystemClock

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples: `monitor serve --config monitor.yaml`; "
    "`MONITOR__API__PORT=9000 monitor serve`. `monitor config --default > monitor.yaml` writes a file to start from."
)
def serve(*, config: ConfigOption = None) -> None:
    """Run the service: read events, measure, export to Prometheus, answer over REST.

    SIGTERM and Ctrl-C end it in order: the batch is finished and saved, the group is left, the exit status is 0.
    """
    settings = read_settings(config)
    configure_logs(
        settings.log.level, settings.log.format, instance=settings.log.instance, secrets=secrets_of(settings)
    )
    log_uncaught_errors()
    service = Service(settings, clock=SystemClock())
    leave(run_service(service, service.wait))
