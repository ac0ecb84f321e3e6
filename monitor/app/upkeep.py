"""Periodic tasks of the service: measure the backlog, and clean up the store."""

import threading
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from monitor.app.log_bounds import LogBounds
from monitor.app.parts import make_kept_ms
from monitor.app.settings import Settings
from monitor.clock import Clock
from monitor.durations import to_ms
from monitor.errors import SourceError, StoreError
from monitor.events.model import TopicPartition
from monitor.outage_log import Outage
from monitor.store.base import CapUses
from monitor.store.database import Database
from monitor.store.housekeeping import sweep
from monitor.store.sql import SqlStore
from monitor.stream.status import Unread

BACKLOG_SECONDS: Final = 15.0
CLEANUP_SECONDS: Final = 60.0
CAPS_SECONDS: Final = 10.0

_log = structlog.get_logger(__name__)


class Periodic:
    """Run a task periodically in a thread of its own.

    Parameters
    ----------
    name
        Of the thread, and in the log.
    seconds
        Time between two runs, and before the first unless ``at_once``.
    task
        Handles the errors it expects. An unexpected one is logged, and the task is run again.
    at_once
        Whether it runs for the first time at the start.
    """

    def __init__(self, name: str, seconds: float, task: Callable[[], None], *, at_once: bool = False) -> None:
        self._name = name
        self._seconds = seconds
        self._task = task
        self._at_once = at_once
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Stop the thread, and wait for at most that long; whether it has ended."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = 0.0 if self._at_once else self._seconds
        while not self._stopping.wait(pause):
            pause = self._seconds
            try:
                self._task()
            except Exception:  # noqa: BLE001 - the next run may succeed; the log has the error
                _log.exception("a periodic task failed", task=self._name)


class Backlog:
    """Count the unread records of each topic partition, whichever replica owns it, or none.

    Attributes
    ----------
    unread
        The last count; empty before the first, and while the log or the store does not answer.
    """

    def __init__(self, settings: Settings, store: SqlStore, clock: Clock) -> None:
        self._store = store
        self._bounds = LogBounds(settings, clock)
        self.unread: Mapping[TopicPartition, Unread] = {}

    def measure(self) -> None:
        """Compare the end of the log with the offsets that all replicas have saved."""
        unread: dict[TopicPartition, Unread] = {}
        try:
            # Offsets first: otherwise a record that is read in between would count below zero.
            saved = self._store.saved_offsets()
            bounds = self._bounds.read()
        except (SourceError, StoreError) as error:
            # The pipeline has the same failure, and reports it.
            _log.debug("the backlog is unknown", detail=str(error))
        else:
            for part, bound in bounds.items():
                offset = saved.get(part, 0)
                # Purged records cannot be read any more.
                unread[part] = Unread(max(bound.end - max(offset, bound.earliest), 0), offset)
        finally:
            self.unread = unread


class CapWatch:
    """Read how full the caps on names are, over all partitions.

    Attributes
    ----------
    latest
        As last read.
    """

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.latest: CapUses = {}

    def read(self) -> None:
        """Read it from the store."""
        try:
            self.latest = self._store.caps()
        except StoreError as error:
            _log.debug("the caps cannot be read", detail=str(error))


def make_cleanup(settings: Settings, database: Database, clock: Clock) -> Callable[[], None]:
    """A task that removes from the store what is past its retention."""
    retention = settings.dead_letters.retention
    letter_retention_ms = None if retention is None else to_ms(retention)
    kept_ms = make_kept_ms(settings)
    outage = Outage(_log, "the store could not be swept", "the store is swept again", clock)

    def clean_up() -> None:
        try:
            swept = sweep(database, letter_retention_ms, to_ms(settings.history.retention), kept_ms)
        except StoreError as error:
            outage.failed(error)
            return
        outage.over()
        if any(swept):
            _log.info("the store was swept", **swept._asdict())

    return clean_up
