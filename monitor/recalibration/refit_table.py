"""What came of several recalibration methods on a file, on a terminal."""

from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from monitor.recalibration.refit_text import segments_table
from monitor.recalibration.refit_trial import Trial
from monitor.recalibration.refit_words import (
    BEST,
    HEADINGS,
    Cell,
    advice,
    columns_shown,
    describe,
    head_lines,
    legend_of,
    reasons_of,
    rows_of,
)
from monitor.reports.plain import plain
from monitor.reports.text import plain_line

_BRIER: Final = 108
"""Characters from which on there is room for the Brier score, too."""

_SEGMENTS: Final = 5


def print_trial(console: Console, trial: Trial, name: str) -> None:
    """Say what to do, and what on."""
    for note in trial.notes:
        console.print(Text(f"note: {plain_line(note)}", style="dim"), soft_wrap=True)
    for caution in trial.cautions:
        console.print(Text(f"mind: {plain_line(caution)}", style="yellow"), soft_wrap=True)
    print_advice(console, trial, name)
    for line in legend_of(trial):
        console.print(Text(line, style="dim"))
    shown = trial.shown
    if trial.best is not None:
        console.print(Text(f"\n{plain_line(describe(shown))}"))
    segments = [] if shown.comparison is None else shown.comparison.document["segments"]
    if segments:
        console.print(segments_table(segments[:_SEGMENTS], ["none", "challenger"], shown.method.name))
    for reason in reasons_of(trial):
        console.print(Text(f"  - {plain_line(reason)}"))


def print_advice(console: Console, trial: Trial, name: str) -> None:
    """Say what to do, with the methods beside each other."""
    console.print(Text(advice(trial), style="bold" if trial.best else ""))
    for line in head_lines(trial, name):
        console.print(Text(line))
    console.print(_table(trial, console.width))


def _table(trial: Trial, width: int) -> Table:
    headings = columns_shown(trial, brier=width >= _BRIER)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        words = heading in {HEADINGS[0], HEADINGS[-1]}
        table.add_column(heading, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    for row in rows_of(trial):
        style = BEST.style if row.verdict is BEST else ""
        cells = dict(
            zip(
                HEADINGS,
                (
                    Text(plain(row.name), style=style),
                    *map(_cell, (row.log_loss, row.brier, row.smce, row.mlce)),
                    Text(row.evidence),
                    Text(row.verdict.value, style=row.verdict.style),
                ),
                strict=True,
            )
        )
        table.add_row(*(cells[heading] for heading in headings))
    return table


def _cell(cell: Cell) -> Text:
    text = Text(cell.text)
    return text.append(f"\n{cell.below}", style="dim") if cell.below else text
