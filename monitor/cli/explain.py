"""`monitor explain`: what a word of the service means, and what to do."""

import textwrap
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from monitor.answers import Answer, all_answers, answers_of
from monitor.cli.options import argument
from monitor.errors import InputError

app = typer.Typer(add_completion=False)

_MAX_WIDTH: Final = 100
_NONE: Final[list[str]] = []


@app.command(
    epilog="Examples: `monitor explain prior_shift`; `monitor explain store-unavailable`; `monitor explain` lists all "
    "words."
)
def explain(
    names: Annotated[list[str], argument("[NAME...]", "Words to explain; without one, all words are listed.")] = _NONE,
) -> None:
    """Explain a verdict, a label or kind of an alert, a result of a refit or an error, and say what to do."""
    unknown = [name for name in names if not answers_of(name)]
    if unknown:
        raise InputError(f"there is no word {unknown[0]!r} to explain; `monitor explain` lists all")
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    width = min(Console().width, _MAX_WIDTH)
    if not names:
        _print_words(console, width)
        return
    for number, answer in enumerate(dict.fromkeys(answer for name in names for answer in answers_of(name))):
        console.print(Text(f"{_blank(number)}{answer.kind} {answer.name}", style="bold"))
        console.print(_filled(answer.text, width))


def _print_words(console: Console, width: int) -> None:
    """Print all words, by their kinds."""
    kinds: dict[str, list[Answer]] = {}
    for answer in all_answers():
        kinds.setdefault(answer.kind, []).append(answer)
    for number, (kind, answers) in enumerate(kinds.items()):
        console.print(Text(f"{_blank(number)}{kind}", style="bold"))
        console.print(_filled(", ".join(answer.name for answer in answers), width))


def _blank(number: int) -> str:
    return "\n" if number else ""


def _filled(text: str, width: int) -> str:
    # A command or a path is copied whole.
    return textwrap.fill(
        text, width, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
