"""Run a service in the foreground until a signal ends it."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import typer

from monitor.cli.main import INTERRUPTED

if TYPE_CHECKING:
    from monitor.app.service import Service


@contextmanager
def ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Call ``end`` on SIGTERM and on the first Ctrl-C; a second Ctrl-C ends the process at once."""
    interrupts = 0

    def handle(number: int, _frame: object) -> None:
        nonlocal interrupts
        interrupts += number == signal.SIGINT
        if interrupts > 1:
            os._exit(INTERRUPTED)  # An exception would reach the interpreter's own exit: see `leave`.
        end()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_service(service: "Service", meanwhile: Callable[[], object]) -> int:
    """Start a service, run ``meanwhile`` until it returns, and stop the service; return the exit status."""
    with ended_by_signals(service.end):
        service.start()
        try:
            meanwhile()
        finally:
            well = service.stop()
    return 0 if well else 1


def leave(status: int) -> NoReturn:
    """End the process with this status, even while a thread of the service still runs."""
    if any(thread.name in {"pipeline", "evaluation"} for thread in threading.enumerate()):
        # It compiles or measures, and has nothing to save. The interpreter's own exit would interrupt it inside LLVM or
        # SQLite, which aborts the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    raise typer.Exit(status)
