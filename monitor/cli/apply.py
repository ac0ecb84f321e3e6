"""`monitor apply`: recalibrate the predictions of a file, without a service."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.options import LogitsOption, argument, check_target, option
from monitor.errors import InputError
from monitor.recalibration.apply_file import (
    check_output,
    columns_for,
    read_map,
    read_rows,
    recalibrated,
    write_beside,
)
from monitor.reports.formatting import plain, share_text
from monitor.reports.progress import rows_progress, stages_progress
from monitor.sources.tables import Columns

app = typer.Typer(add_completion=False)

_NONE: list[str] = []


@app.command(
    epilog="Examples: `monitor apply map.arrow new.csv > recalibrated.csv`; `monitor apply map.arrow new.parquet -o "
    "recalibrated.parquet --prediction score`."
)
def apply(
    map_file: Annotated[
        Path,
        argument(
            "MAP", "A map, as `monitor recalibrate FILE --output` or GET /v1/models/{model}/map of a service gives it."
        ),
    ],
    file: Annotated[Path, argument("FILE", "A table (.csv, .tsv, .parquet, .jsonl, text also .gz).")],
    *,
    output: Annotated[
        Path | None, option("FILE", "Of FILE's format; text to stdout without it.", "--output", "-o")
    ] = None,
    column: Annotated[str, option("NAME", "Of the added column; for classes, of each: NAME_class.")] = "recalibrated",
    prediction: Annotated[
        list[str],
        option(
            "COLUMN", "Column with P(y = 1), or of each class. Without it, as in the file that the map was fitted on."
        ),
    ] = _NONE,
    feature: Annotated[
        list[str], option("COLUMN", "Features of the map, in their order; likewise. Repeatable.")
    ] = _NONE,
    logits: LogitsOption = False,
    segment: Annotated[str | None, option("COLUMN", "Groups, if the map needs them; likewise.")] = None,
) -> None:
    """Recalibrate the predictions of a file by a map.

    The file is copied with one more column, or one more per class; nothing else changes.
    """
    if output is not None:
        check_target("--output", output)
    check_output(file, output)
    if not column.strip():
        raise InputError("--column must be a name, got an empty one")
    artifact = read_map(map_file)
    columns = columns_for(
        artifact, Columns(prediction, segments=[segment] if segment else (), features=feature, logits=logits)
    )
    with rows_progress(f"reading {file.name}") as count:
        table = read_rows(file, columns, count)
    with stages_progress() as progress:
        after = recalibrated(artifact, table, next(iter(columns.segments), None), progress)
    several = len(columns.prediction) > 1
    values = (
        {f"{column}_{name}": after[:, number] for number, name in enumerate(table.classes)}
        if several
        else {column: after}
    )
    with rows_progress(f"writing {'' if output is None else output.name}") as count:
        write_beside(file, sys.stdout if output is None else output, values, count)
    if output is None:
        return
    summary = f"{plain(file.name)}: {len(table):,} predictions by {plain(artifact.map.method)}"
    if after.ndim == 1 and len(table):
        summary += (
            f", mean {share_text(float(table.prediction.mean()))} before and {share_text(float(after.mean()))} after"
        )
    typer.echo(f"{summary}\nwrote {output}")
    if artifact.about.get("guard_passed") is False:
        typer.echo("mind: the map was not proven better than no map (--unguarded)")
