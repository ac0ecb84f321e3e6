"""Delivers what waits when SIGTERM ends the process: without a handler, nothing of Python would run then.

Kubernetes, Docker and systemd end a process so.
"""

import signal
import threading
import weakref
from types import FrameType
from typing import Any, Final

from monitor.logging.outbox import Outbox

_outboxes: Final[weakref.WeakSet[Outbox]] = weakref.WeakSet()
_previous: Any = signal.SIG_DFL
"""The handler that was there before this one."""
_is_handling = False


def install(outbox: Outbox) -> None:
    """Deliver at SIGTERM what waits in an outbox.

    Only the main thread may install a handler: elsewhere this does nothing. It does nothing, either, where SIGTERM is
    ignored or handled outside of Python.
    """
    global _previous  # noqa: PLW0603 - a process has one handler
    if threading.current_thread() is not threading.main_thread():
        return
    current = signal.getsignal(signal.SIGTERM)
    if current is signal.SIG_IGN or current is None:
        return
    _outboxes.add(outbox)
    if current is not _on_sigterm:
        _previous = current
        signal.signal(signal.SIGTERM, _on_sigterm)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    """Deliver, then do what would have been done without this handler.

    Another handler decides when the process ends, so events may follow: after it the outboxes stay open. A handler that
    was installed later and calls this one decides, too.
    """
    global _is_handling  # noqa: PLW0603
    if _is_handling:
        return  # the previous handler calls the one that was there before it: this one
    is_last = signal.getsignal(number) is _on_sigterm and not callable(_previous)
    _is_handling = True
    outboxes = list(_outboxes)
    for outbox in outboxes:
        outbox.begin_delivery(closes=is_last)
    for outbox in outboxes:
        outbox.finish_delivery()
    try:
        if callable(_previous):
            _previous(number, frame)
    finally:
        _is_handling = False
    if is_last:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # so that the exit status says which signal it was
