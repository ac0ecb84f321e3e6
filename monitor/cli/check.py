"""`monitor check`: whether a service could run here."""

import json
import os
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from monitor.app.checks import CHECKS, CheckResult, CheckStatus, Surroundings, run_checks
from monitor.app.checks.base import fail
from monitor.app.logs import configure_logs
from monitor.app.settings import load_settings
from monitor.cli.options import ConfigOption, flag, option, settings_file
from monitor.errors import SettingsError
from monitor.reports.formatting import printable

app = typer.Typer(add_completion=False)

_STYLES: Final = {CheckStatus.OK: "green", CheckStatus.WARN: "yellow", CheckStatus.FAIL: "bold red"}


@app.command(
    epilog="Examples: `monitor check --config monitor.yaml`; `monitor check --json`; `monitor check --strict` for a CI."
)
def check(
    *,
    as_json: Annotated[bool, flag("--json", "One JSON object with every finding.")] = False,
    strict: Annotated[bool, flag("--strict", "Exit with status 1 on warnings, too.")] = False,
    only: Annotated[list[str] | None, option(None, f"Run only this check; repeatable: {', '.join(CHECKS)}.")] = None,
    config: ConfigOption = None,
) -> None:
    """Check the settings and all that they lead to: log, store, clocks, disks, access, port.

    One line each: ok, warn or fail, and what to do. Nothing is changed, and a service may run meanwhile. The exit
    status is 0 if nothing fails, and 1 otherwise.
    """
    unknown = [name for name in only or () if name not in CHECKS]
    if unknown:
        raise typer.BadParameter(
            f"there is no check {unknown[0]!r}; there are {', '.join(CHECKS)}", param_hint="--only"
        )
    configure_logs("error", "auto")
    console = Console(soft_wrap=True, highlight=False)
    file = settings_file(config)
    try:
        around = Surroundings(load_settings(file, os.environ), file)
    except SettingsError as error:
        running = iter([fail("configuration", line) for line in str(error).splitlines()])
    else:
        running = run_checks(around, only or tuple(CHECKS))
    findings: list[CheckResult] = []
    for finding in running:
        findings.append(finding)
        if not as_json:
            console.print(finding_line(finding))
    failed = sum(finding.verdict is CheckStatus.FAIL for finding in findings)
    warned = sum(finding.verdict is CheckStatus.WARN for finding in findings)
    passed = not failed and not (strict and warned)
    if as_json:
        typer.echo(json.dumps({"ok": passed, "findings": [finding._asdict() for finding in findings]}))
    else:
        console.print(f"{len(findings) - failed - warned} ok, {warned} to look at, {failed} failed")
    raise typer.Exit(0 if passed else 1)


def finding_line(finding: CheckResult) -> Text:
    """A finding, for a terminal."""
    text = Text(f"{finding.verdict:<4}", style=_STYLES[finding.verdict])
    return text.append(f"  {finding.check:<13}  {printable(finding.detail)}", style="default not bold")
