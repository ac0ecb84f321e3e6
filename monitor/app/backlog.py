"""Compares the log's ends with what the store holds, so that every replica sees what none of them reads."""

import threading
from collections.abc import Mapping
from typing import Final

import structlog

from monitor.app.log_bounds import LogBounds
from monitor.app.settings import Settings
from monitor.clock import Clock
from monitor.errors import SourceError, StoreError
from monitor.sources.base import TopicPartition
from monitor.store.sql import SqlStore
from monitor.stream.status import Unread

_INTERVAL_SECONDS: Final = 15.0

_log = structlog.get_logger(__name__)


class Backlog:
    """Measures every 15 seconds how much of each topic partition is not read, whichever replica owns it, or none.

    Parameters
    ----------
    settings
        Which log.
    store
        Holds the offsets of all replicas.
    clock
        Of the embedded log.

    Attributes
    ----------
    unread
        The last measurement; empty before the first, and while the log or the store does not answer.
    """

    def __init__(self, settings: Settings, store: SqlStore, clock: Clock) -> None:
        self._store = store
        self._bounds = LogBounds(settings, clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="backlog", daemon=True)
        self.unread: Mapping[TopicPartition, Unread] = {}

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
            self.measure()

    def measure(self) -> None:
        """Measure once, now."""
        try:
            # In this order: a record that is read in between counts as unread rather than as less than none.
            saved = self._store.saved_offsets()
            bounds = self._bounds()
        except (SourceError, StoreError) as error:
            # The pipeline meets the same failure, and reports it.
            _log.debug("the backlog is not known", detail=str(error))
            self.unread = {}
        except Exception:  # noqa: BLE001 - the next measurement shall have its turn; the log says what happened
            _log.exception("the backlog cannot be measured")
            self.unread = {}
        else:
            offsets = {part: saved.get(part, 0) for part in bounds}
            # What was purged is not there to be read.
            self.unread = {
                part: Unread(max(bound.end - max(offsets[part], bound.begin), 0), offsets[part])
                for part, bound in bounds.items()
            }
