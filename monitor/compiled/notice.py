"""Log that kernels are being compiled, if it takes long: once per installation."""

import logging
import time
from collections.abc import Callable
from typing import Any, Final

from numba.core import event

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 1.0
_COMPILE: Final = "numba:compile"


class CompilationNotice(event.Listener):
    """Log one line as soon as kernels of this package have been compiled for a second; at most one per process.

    At level warning, so that it is on standard error without any configuration of logs. Code loaded from numba's cache
    and kernels of other packages do not count.
    """

    def __init__(self, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._seconds = seconds
        self._depth = 0  # a kernel's compilation contains those of the functions that it calls
        self._started = 0.0
        self._spent = 0.0
        self._logged = False

    def on_start(self, event: Any) -> None:
        """Count a compilation that begins."""
        if self._depth == 0:
            if not _is_kernel(event):
                return
            self._started = self._seconds()
        self._depth += 1
        self._log_if_long()

    def on_end(self, event: Any) -> None:  # noqa: ARG002 - numba's signature
        """Count a compilation that ends."""
        if self._depth == 0:
            return
        self._depth -= 1
        self._log_if_long()
        if self._depth == 0:
            self._spent += self._seconds() - self._started

    def _log_if_long(self) -> None:
        if not self._logged and self._spent + self._seconds() - self._started >= _PATIENCE_SECONDS:
            self._logged = True
            _log.warning(
                "compiling numerical kernels before their first use in this installation: this may take a minute"
            )


def _is_kernel(compilation: Any) -> bool:
    return str(compilation.data["dispatcher"].py_func.__module__).startswith("monitor.")


def install() -> None:
    """Listen to numba's compilations."""
    event.register(_COMPILE, CompilationNotice())  # type: ignore[no-untyped-call]
