"""A wall clock that several processes share and one of them moves: ``python -m tests.year.clock serve`` runs by it."""

import os
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np
import sqlalchemy as sa

from monitor.cli.main import main
from monitor.clock import SystemClock
from monitor.store.database import Database

VARIABLE: Final = "YEAR_CLOCK"
"""Environment variable with the clock's file."""


class SharedClock:
    """The time that a file holds, in milliseconds since the epoch.

    Parameters
    ----------
    path
        The file.
    start_ms
        Time at which a new clock begins; None opens one that is there.
    """

    def __init__(self, path: Path, start_ms: int | None = None) -> None:
        if start_ms is not None:
            path.write_bytes(start_ms.to_bytes(8, sys.byteorder))
        self._time = np.memmap(path, np.int64, "r+", shape=(1,))

    def now_ms(self) -> int:
        """Return the time."""
        return int(self._time[0])

    def move(self, to_ms: int) -> None:
        """Set the time for all processes."""
        self._time[0] = to_ms


def _machine_ms(self: Database, connection: sa.Connection) -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    clock = SharedClock(Path(os.environ[VARIABLE]))
    SystemClock.now_ms = lambda self: clock.now_ms()  # type: ignore[method-assign]
    if not os.environ.get("YEAR_POSTGRES"):
        # Leases last by the database's time, which is the machine's: PostgreSQL has it by itself.
        Database.now_ms = _machine_ms  # type: ignore[method-assign]
    main()
