"""Run a service in the foreground until a signal ends it."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from monitor.app.service import Service
from monitor.cli.main import INTERRUPTED


@contextmanager
def ended_by_signals(service: Service) -> Iterator[None]:
    """Let SIGTERM and the first Ctrl-C end the service in order; a second Ctrl-C ends the process at once."""
    interrupts = 0

    def end(number: int, _frame: object) -> None:
        nonlocal interrupts
        if number == signal.SIGINT:
            interrupts += 1
            if interrupts > 1:
                os._exit(INTERRUPTED)  # An exception would reach the interpreter's own exit: see `leave`.
        service.end()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_service(service: Service, meanwhile: Callable[[Service], None] | None = None) -> int:
    """Start a service, wait until it is ended, stop it.

    Parameters
    ----------
    meanwhile
        What the main thread does while the service runs; it returns when the service is to end. It waits by default.

    Returns
    -------
    The exit status.
    """
    with ended_by_signals(service):
        service.start()
        try:
            if meanwhile is None:
                service.wait()
            else:
                meanwhile(service)
        finally:
            well = service.stop()
    return 0 if well else 1


def leave(status: int) -> NoReturn:
    """End the process with this status, also while a thread of the service still runs."""
    if any(thread.name in {"pipeline", "evaluation"} for thread in threading.enumerate()):
        # It compiles or measures, and owns nothing that has to be saved. The interpreter's own exit would interrupt it
        # inside LLVM or SQLite, which aborts the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    raise typer.Exit(status)
