"""Progress of work that takes a while, on standard error or in a notebook, and only where somebody looks."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
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
"""Work that is done sooner shows no progress to callers in Python."""

_REFRESH_SECONDS: Final = 0.5


class ElapsedColumn(ProgressColumn):
    """Time since the work began. rich's own column stops for good once a stage has reached its end."""

    def render(self, task: Task) -> Text:
        """Hours, minutes and seconds."""
        return Text(_clock(task.elapsed or 0.0), style="progress.elapsed")


@contextmanager
def bytes_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar of bytes; hands out a function that takes how many are done and how many there are."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        ElapsedColumn(),
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
        ElapsedColumn(),
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
        ElapsedColumn(),
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
            ElapsedColumn(),
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


@contextmanager
def patient_progress() -> Iterator[Callable[[str, float], None]]:
    """Show stages as :func:`stages_progress` does, after two seconds of work, in a terminal or a notebook."""
    if _notebook() is not None:
        show = _notebook_progress
    elif sys.stderr.isatty():
        show = stages_progress
    else:
        yield _ignore
        return
    stage = ("measuring", 0.0)
    done = threading.Event()

    def refresh() -> None:
        if done.wait(_PATIENCE_SECONDS):
            return
        with show() as update:
            while not done.wait(_REFRESH_SECONDS):
                update(*stage)

    def report(what: str, share: float) -> None:
        nonlocal stage
        stage = (what, share)

    thread = threading.Thread(target=refresh, name="progress", daemon=True)
    thread.start()
    try:
        yield report
    finally:
        done.set()
        thread.join()


@contextmanager
def _notebook_progress() -> Iterator[Callable[[str, float], None]]:
    """A line below a notebook's cell, which is removed at the end."""
    started = time.monotonic()
    handle = _notebook().display.display({"text/plain": ""}, raw=True, display_id=True)

    def update(what: str, share: float) -> None:
        line = f"{plain(what)} {share:.0%} {_clock(time.monotonic() - started)}"
        handle.update({"text/plain": line}, raw=True)

    try:
        yield update
    finally:
        handle.update({"text/plain": ""}, raw=True)


def _notebook() -> Any:
    """IPython, where its kernel runs this code; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return ipython if hasattr(shell, "kernel") else None


def _ignore(what: str, share: float) -> None:
    """Show nothing: nobody looks."""


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=int(seconds)))
