"""`monitor`: run a command; report an error as one line and an exit status."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from monitor.answers import name_of
from monitor.cli.options import flag, print_help_line
from monitor.errors import InputError, MonitorError, SettingsError
from monitor.free_memory import without_collection
from monitor.version import VERSION

FAILED: Final = 1
BAD_USE: Final = 2
INTERRUPTED: Final = 130


COMMANDS: Final = {
    "demo": "Run the service on five simulated models, watch what becomes of their calibration, and repair them.",
    "serve": "Run the service: read events, measure, export to Prometheus, answer over REST.",
    "report": "Report on the calibration of a file, or of a table in many files.",
    "apply": "Recalibrate the predictions of a file by a map.",
    "replay": "Write the events of a file into the configured source: the embedded log or Kafka.",
    "outcomes": "Send the outcomes in a table or a query to the configured source: the embedded log or Kafka.",
    "simulate": "Write the events of the demo's models into the configured source: the embedded log or Kafka.",
    "simulate-alarms": "Simulate false alarms and the delay of alarms, to choose a tolerance and a budget before an "
    "incident.",
    "dead-letters": "List messages that were no valid events, and send them back to their topic after the cause is "
    "fixed.",
    "recalibrate": "Fit recalibration maps, on a file or in a running service, and see on later data whether one is "
    "better than none.",
    "promote": "Let the map of a refit serve.",
    "rollback": "Roll back the map that serves a model: the previous one serves again, or none.",
    "alerts": "List alerts about models of a running service, show one, and acknowledge it.",
    "keys": "Make, list and revoke the API keys of the service. They take effect without a restart.",
    "check": "Check the settings and all that they lead to: log, store, clocks, disks, access, port.",
    "map": "Propose how a topic of your own messages is read: settings, with a comment on what each line was seen in.",
    "backfill": "Write past predictions into the store, so that windows, history and evidence begin with them.",
    "backup": "Back up a store in SQLite to one file, beside a running service, too; pg_dump backs up PostgreSQL.",
    "restore": "Restore a backup of a store in SQLite: all of it, or nothing. Stop the service first.",
    "config": "Print the settings in force, as YAML, with secrets hidden.",
    "explain": "Explain a verdict, a label or kind of an alert, a result of a refit or an error, and say what to do.",
}
"""Name -> the help of the command, repeated here so that the list of commands need not load all their modules."""

MATRICES: Final = {"recalibrate"}
"""Commands with products of large matrices, for which OpenBLAS may take all processors. For small ones its threads wait
for each other busily, which takes a report half as much processor time again and makes it no sooner."""

OLD_NAMES: Final = {"refit": "recalibrate"}
"""Commands that the help leaves out, and their new names."""


def module_of(name: str) -> str:
    """Return the name of the module whose ``app`` is the command."""
    return f"monitor.cli.{name.replace('-', '_')}"


class _Commands(TyperGroup):
    """Loads the module of a command only when it runs: most need libraries that take a while to load."""

    _only_listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in the order of the help."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name, or None."""
        del ctx
        name = OLD_NAMES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        if self._only_listing:
            return TyperCommand(cmd_name, help=COMMANDS[name])
        if name not in MATRICES:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        with without_collection():
            module = importlib.import_module(module_of(name))
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help without loading the commands."""
        self._only_listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._only_listing = False


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"monitor {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    *,
    debug: Annotated[bool, flag("--debug", "Show the traceback of an error.", envvar="MONITOR_DEBUG")] = False,
    version: Annotated[
        bool, flag("--version", "Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Watch the calibration of probabilistic classifiers in production.

    To see it work: `monitor demo`. For a file: `monitor report predictions.csv`.
    """
    del version
    context.obj = {"debug": debug}


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit status.

    0 is success, 1 a failure, 2 bad use: wrong arguments, settings or input. A command may have others.
    """
    debug = "--debug" in arguments or bool(os.environ.get("MONITOR_DEBUG"))
    try:
        status = app(list(arguments), prog_name="monitor", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except typer.TyperException as error:
        return _print_error(_usage(error), BAD_USE)
    except MonitorError as error:
        if debug:
            raise
        bad_use = isinstance(error, SettingsError | InputError)
        # The service tries again; a command does not.
        message = str(error).removesuffix("; trying again")
        return _print_error(message, BAD_USE if bad_use else FAILED, name_of(error))
    return status if isinstance(status, int) else 0


def _usage(error: typer.TyperException) -> str:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    if not message.strip():
        # No command was given, and the help was printed.
        return ""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "monitor"
    return f"{' '.join(message.split()).rstrip('.')}; see `{command} --help`"


def _print_error(message: str, status: int, name: str | None = None) -> int:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for line in message.splitlines():
        console.print("[bold red]error:[/]", end=" ")
        console.print(line, markup=False)
    if name is not None:
        print_help_line([name])
    return status


def main() -> NoReturn:
    """The entry point."""
    sys.exit(run(sys.argv[1:]))
