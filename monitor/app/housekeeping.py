"""The thread that sweeps the store now and then."""

import threading
from typing import Final

import structlog

from monitor.app.settings import Settings
from monitor.app.settings.values import to_ms
from monitor.clock import Clock
from monitor.errors import StoreError
from monitor.outage_log import Outage
from monitor.store.database import Database
from monitor.store.housekeeping import Housekeeping

_INTERVAL_SECONDS: Final = 60.0

_log = structlog.get_logger(__name__)


class Sweeper:
    """Sweeps the store every minute, beginning a minute after the start.

    Parameters
    ----------
    settings
        How long what is kept.
    database
        Of the store.
    clock
        The wall clock.
    """

    def __init__(self, settings: Settings, database: Database, clock: Clock) -> None:
        retention = settings.dead_letters.retention
        self._housekeeping = Housekeeping(database, None if retention is None else to_ms(retention), clock)
        self._outage = Outage(_log, "the store could not be swept", "the store is swept again", clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """End the thread, waiting at most that long."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.wait(_INTERVAL_SECONDS):
            self.sweep()

    def sweep(self) -> None:
        """Sweep once, now. What goes wrong is told, and tried again the next time."""
        try:
            swept = self._housekeeping.sweep()
        except StoreError as error:
            self._outage.failed(error)
        except Exception:  # noqa: BLE001 - the next sweep shall have its turn; the log says what happened
            _log.exception("the store could not be swept")
        else:
            self._outage.over()
            if any(swept):
                _log.info("the store was swept", **swept._asdict())
