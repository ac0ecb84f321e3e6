"""`monitor config`: the settings in force."""

from typing import Annotated

import typer

from monitor.app.settings.document import default_file, effective, reference
from monitor.cli.options import ConfigOption, flag, read_settings

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples: `monitor config --config monitor.yaml`; `monitor config --default > monitor.yaml` to start from."
)
def config(
    *,
    config: ConfigOption = None,
    default: Annotated[
        bool, flag("--default", "Print a monitor.yaml with every setting, its meaning and its default.")
    ] = False,
    for_docs: Annotated[
        bool, flag("--reference", "Print the page of the documentation that lists every setting.")
    ] = False,
) -> None:
    """Print the settings in force, as YAML, with secrets hidden."""
    if default and for_docs:
        raise typer.BadParameter("use either --default or --reference")
    if default:
        text = default_file()
    elif for_docs:
        text = reference()
    else:
        text = effective(read_settings(config))
    typer.echo(text, nl=False)
