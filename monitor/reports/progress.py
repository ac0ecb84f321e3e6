"""Progress of work that takes a while, on standard error and only where somebody looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from monitor.reports.plain import plain


@contextmanager
def bytes_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar of bytes; hands out a function that takes how many are done and how many there are."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def rows_progress(what: str) -> Iterator[Callable[[int], None]]:
    """A count of rows; hands out a function that takes how many are done."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.completed:,} rows"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task(what, total=None)
        yield lambda rows: progress.update(task, completed=rows)


@contextmanager
def stages_progress() -> Iterator[Callable[[str, float], None]]:
    """A bar for one thing after another; hands out a function that takes what is done now, and the share of it."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("measuring", total=1.0)
        yield lambda what, share: progress.update(task, description=plain(what), completed=share)


@contextmanager
def job_progress(console: Console) -> Iterator[Callable[[str, float], None]]:
    """A bar for work that is done elsewhere; where no terminal is, a line whenever another step begins.

    Hands out a function that takes the step, and the share that is done of the whole.
    """
    if console.is_terminal:
        with Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        ) as progress:
            task = progress.add_task("queued", total=1.0)
            yield lambda step, share: progress.update(task, description=step, completed=share)
        return
    before = ""

    def line(step: str, share: float) -> None:
        nonlocal before
        if step != before:
            console.print(f"{share:4.0%} {step}", soft_wrap=True, highlight=False, markup=False)
            before = step

    yield line
