"""What a report says, for any output: a lead, sections of sentences and tables. And how a terminal shows it.

Reports, comparisons and refits each build one :class:`View`; :func:`print_view` shows it on a terminal and
:mod:`monitor.reports.page` on a page or in a notebook.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from monitor.reports.formatting import printable

WIDE: Final = 112
"""Width of a terminal, in characters, from which tables show all columns."""

_PIPE_WIDTH: Final = 144
"""Width of tables that are written to a file or a pipe."""


class Word(NamedTuple):
    """A verdict in a word or two, with rich's style for it."""

    value: str
    style: str


class Cell(NamedTuple):
    """A field of a table. ``below`` is a second line: how certain the value is. ``note`` follows the text."""

    text: str
    style: str = ""
    below: str = ""
    note: str = ""


class Column(NamedTuple):
    """A column of a table.

    ``words`` are aligned to the left, numbers to the right. ``folds``: long values are broken into lines. A terminal
    narrower than ``min_width`` leaves the column out; where it leaves out any, ``narrow_heading`` is the heading.
    """

    heading: str
    words: bool = False
    folds: bool = False
    min_width: int = 0
    narrow_heading: str = ""


class Table(NamedTuple):
    """A table; the fields after ``rows`` are for terminals, pages show everything.

    Below the table stands ``caption``, or ``narrow_caption`` where columns are left out. A terminal narrower than
    ``full_width`` shows the first ``max_rows`` rows.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    narrow_caption: str = ""
    dense: bool = False
    max_rows: int | None = None
    full_width: int = 1_000_000


class ViewSection(NamedTuple):
    """A heading, sentences and a table. A terminal leaves out a title that is ``implied`` by the lead.

    ``hints`` say what else the command line can do: a page, which others read, has none of them.
    """

    title: str
    before: Sequence[str] = ()
    table: Table | None = None
    after: Sequence[str] = ()
    implied: bool = False
    hints: Sequence[str] = ()


class Lead(NamedTuple):
    """The most important sentence; ``word`` is the verdict before it."""

    text: str
    style: str = ""
    word: str = ""

    @property
    def sentence(self) -> str:
        """Verdict and sentence."""
        return f"{self.word}. {self.text}" if self.word else self.text


class View(NamedTuple):
    """Everything a report says; ``reading`` explains its numbers on a page."""

    title: str
    lead: Lead
    sections: Sequence[ViewSection]
    notes: Sequence[str] = ()
    cautions: Sequence[str] = ()
    reading: str = ""


def row(*cells: Cell | Word | str) -> tuple[Cell, ...]:
    """Build a row of a table."""
    return tuple(
        cell if isinstance(cell, Cell) else Cell(cell) if isinstance(cell, str) else Cell(*cell) for cell in cells
    )


def report_console() -> Console:
    """Open the terminal; tables in a file or a pipe are not squeezed into 80 columns."""
    # A value of a column such as "[bold]" or ":new:" is shown as it is.
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def print_view(console: Console, view: View) -> None:
    """Print notes and cautions, the lead, and the sections."""
    for note in view.notes:
        console.print(Text(f"note: {printable(note)}", style="dim"))
    for caution in view.cautions:
        console.print(Text(f"mind: {printable(caution)}", style="yellow"))
    word, text, style = view.lead.word, view.lead.text, view.lead.style
    if text:
        console.print(Text.assemble((word, style), ". ", text) if word else Text(text, style=style))
    blank = True
    for section in view.sections:
        if not section.implied:
            console.print(Text(section.title if blank else f"\n{section.title}", style="bold"))
        for line in section.before:
            console.print(Text(printable(line)))
        blank = False
        if section.table is not None:
            table = rich_table(section.table, console.width)
            console.print(table)
            # Below its last row a table has an empty line.
            blank = table.caption is None and not section.after and not section.hints
        for line in (*section.after, *section.hints):
            console.print(Text(printable(line), style="dim"))


def rich_table(table: Table, width: int) -> RichTable:
    """Draw a table for a terminal of ``width`` characters."""
    shown = [number for number, column in enumerate(table.columns) if width >= column.min_width]
    narrow = len(shown) < len(table.columns)
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0) if table.dense else (0, 1))
    drawn.caption, drawn.caption_justify = (table.narrow_caption if narrow else "") or table.caption or None, "left"
    for number in shown:
        column = table.columns[number]
        heading = column.narrow_heading if narrow and column.narrow_heading else column.heading
        drawn.add_column(
            heading, justify="left" if column.words else "right", no_wrap=not column.folds, overflow="fold"
        )
    for cells in table.rows if width >= table.full_width else table.rows[: table.max_rows]:
        drawn.add_row(*(_text(cells[number]) for number in shown))
    return drawn


def _text(cell: Cell) -> Text:
    below = f"\n{cell.below}" if cell.below else ""
    return Text.assemble((cell.text, cell.style), (f"{cell.note}{below}", "dim"))
