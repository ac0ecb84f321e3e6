"""Events to a file of JSON lines, which `monitor replay` reads."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from monitor.errors import InputError
from monitor.logging.destination import Delivery, EncodedEvent


class File:
    """Appends events to a file, one JSON object a line. Processes may share one file.

    The file is opened for each batch, so that it may be moved away at any time. It is not synchronised with the disk: a
    crash of the machine, not of the scorer, may lose the last seconds.

    Parameters
    ----------
    path
        The file; created if it is not there.

    Raises
    ------
    InputError
        The path cannot be a file.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).absolute()
        if self._path.is_dir() or not self._path.parent.is_dir():
            raise InputError(f"{path} must name a file in a directory that exists")
        self._written = 0
        """Bytes of the current batch that stand in the file, if writing it failed on the way."""

    def deliver(self, events: Sequence[EncodedEvent], seconds_left: Callable[[], float]) -> Delivery:
        """Append the events."""
        del seconds_left
        lines = memoryview(b"".join(event.value + b"\n" for event in events))
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                while self._written < len(lines):
                    self._written += os.write(descriptor, lines[self._written :])
            finally:
                os.close(descriptor)
        except OSError as error:
            return Delivery(events, f"cannot write {self._path}: {error.strerror}")
        self._written = 0
        return Delivery()

    def close(self) -> None:
        """Nothing is kept open."""

    def forget_connection(self) -> None:
        """Begin a new line: the parent goes on with its own."""
        self._written = 0
