"""Progress of long work, on standard error or in a notebook, and only where a person sees it."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from html import escape
from typing import Any, Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from monitor.reports.formatting import plain

_PATIENCE_SECONDS: Final = 2.0
"""Shorter work shows no progress to callers in Python."""

_REFRESH_SECONDS: Final = 0.5


class ElapsedColumn(ProgressColumn):
    """Time since the work began. rich's own column stops for good once a stage has reached its end."""

    def render(self, task: Task) -> Text:
        """Hours, minutes and seconds."""
        return Text(_clock(task.elapsed or 0.0), style="progress.elapsed")


@contextmanager
def _shown(
    description: str,
    *columns: ProgressColumn,
    total: float | None = None,
    console: Console | None = None,
    **fields: Any,
) -> Iterator[Callable[..., None]]:
    """Show one task until the end of the block; yields a function that updates it."""
    console = console or Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield partial(progress.update, progress.add_task(description, total=total, **fields))


@contextmanager
def bytes_progress(description: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar of bytes; yields a function of the bytes done and the bytes in all."""
    with _shown(description, BarColumn(), DownloadColumn(), ElapsedColumn(), TimeRemainingColumn()) as update:
        yield lambda done, total: update(completed=done, total=total)


@contextmanager
def rows_progress(description: str) -> Iterator[Callable[..., None]]:
    """Show a count of rows; yields a function of the rows done, and of the share of all rows if that is known."""
    columns = (BarColumn(), TextColumn("{task.fields[rows]:,} rows"), ElapsedColumn(), TimeRemainingColumn())
    with _shown(description, *columns, rows=0) as update:

        def show(rows: int, share: float | None = None) -> None:
            # Without a total, the bar shows that something moves.
            update(rows=rows, completed=share or 0.0, total=None if share is None else 1.0)

        yield show


@contextmanager
def stages_progress() -> Iterator[Callable[[str, float], None]]:
    """Show a bar for one stage after another; yields a function of the stage and its share that is done."""
    with _shown("measuring", BarColumn(), ElapsedColumn(), total=1.0) as update:
        yield lambda stage, share: update(description=plain(stage), completed=share)


@contextmanager
def job_progress(console: Console) -> Iterator[Callable[[str, float], None]]:
    """Show a bar for work that runs elsewhere; without a terminal, a line at the beginning of each step.

    Yields a function of the step and the share of the whole that is done.
    """
    if console.is_terminal:
        columns = (BarColumn(), TaskProgressColumn(), ElapsedColumn())
        with _shown("queued", *columns, total=1.0, console=console) as update:
            yield lambda step, share: update(description=step, completed=share)
        return
    last = ""

    def print_step(step: str, share: float) -> None:
        nonlocal last
        if step != last:
            console.print(f"{share:4.0%} {step}", soft_wrap=True, highlight=False, markup=False)
            last = step

    yield print_step


@contextmanager
def patient_progress() -> Iterator[Callable[[str, float], None]]:
    """Show stages as :func:`stages_progress` does, after two seconds of work, in a terminal or a notebook."""
    if _notebook() is not None:
        show = _notebook_progress
    elif sys.stderr.isatty():
        show = stages_progress
    else:
        yield lambda _stage, _share: None
        return
    stage = ("measuring", 0.0)
    done = threading.Event()

    def refresh() -> None:
        if done.wait(_PATIENCE_SECONDS):
            return
        with show() as update:
            while not done.wait(_REFRESH_SECONDS):
                update(*stage)

    def report(name: str, share: float) -> None:
        nonlocal stage
        stage = (name, share)

    thread = threading.Thread(target=refresh, name="progress", daemon=True)
    thread.start()
    try:
        yield report
    finally:
        done.set()
        thread.join()


@contextmanager
def _notebook_progress() -> Iterator[Callable[[str, float], None]]:
    """Show a bar below a notebook's cell, or a line where HTML is not shown; remove it at the end."""
    started = time.monotonic()
    handle = _notebook().display.display({"text/plain": ""}, raw=True, display_id=True)

    def update(stage: str, share: float) -> None:
        line = f"{plain(stage)} {share:.0%} {_clock(time.monotonic() - started)}"
        bar = f'<progress max="1" value="{share:.3f}"></progress> {escape(line)}'
        handle.update({"text/plain": line, "text/html": bar}, raw=True)

    try:
        yield update
    finally:
        handle.update({"text/plain": "", "text/html": ""}, raw=True)


def _notebook() -> Any:
    """IPython, where its kernel runs this code; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return ipython if hasattr(shell, "kernel") else None


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))
