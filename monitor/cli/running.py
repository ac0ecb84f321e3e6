"""Run a service in the foreground until a signal ends it."""

import os
import signal
import socket
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
    """Call ``end`` on SIGTERM and on the first Ctrl-C; a second Ctrl-C ends the process at once.

    A thread does so: the main thread, in which alone Python runs the handlers of signals, sleeps on where one reached
    another thread, or came just before a wait began.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)  # As signal.set_wakeup_fd asks.

    def watch() -> None:
        interrupts = 0
        while numbers := reader.recv(64):
            interrupts += numbers.count(signal.SIGINT)
            if interrupts > 1:
                os._exit(INTERRUPTED)  # An exception would reach the interpreter's own exit: see `leave`.
            if not handlers.keys().isdisjoint(numbers):
                end()

    woken = signal.set_wakeup_fd(writer.fileno())
    # They do nothing, and keep the system from ending the process.
    handlers = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    watcher = threading.Thread(target=watch, name="signals", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(woken)
        writer.close()
        watcher.join()
        reader.close()


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
