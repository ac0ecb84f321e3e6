"""Report on a file of events, joined and windowed as by the service, but without a source and a store."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from monitor.app.parts import make_decoder, make_evaluator, make_panes, make_partition_settings
from monitor.app.settings import Settings
from monitor.clock import Clock, ManualClock
from monitor.events.codec import Decoder
from monitor.events.model import DeadLetter, RecordBatch
from monitor.sources.files import EventFile
from monitor.store.base import Checkpoint
from monitor.stream.partition import Partition, PartitionSettings
from monitor.windows.snapshot import Snapshot

_RECORDS_BETWEEN_CHECKPOINTS: Final = 200_000


class LogReport(NamedTuple):
    """The report on a log of events."""

    snapshot: Snapshot
    """Reports of all series and windows at the log's end."""
    events: Mapping[tuple[str, str], int]
    """(type, result) -> number of events."""
    dead_letters: Sequence[DeadLetter]
    """Lines that are no valid events; their offsets are line numbers."""


def report_log(
    path: Path, settings: Settings, clock: Clock, progress: Callable[[int, int], None] | None = None
) -> LogReport:
    """Report on a file of JSON lines of events.

    Parameters
    ----------
    progress
        Called with the bytes read and their total, after each batch.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    file = EventFile(path)
    # In topics of one type, events need not name their type.
    decoder = make_decoder(settings, clock, kind_by_keys=True)
    panes = make_panes(settings)
    stream = OfflineStream(decoder, make_partition_settings(settings, sampling=False), panes.add_checkpoint)
    for batch in file.batches():
        stream.read(batch)
        if progress is not None:
            progress(file.bytes_read, file.size)
    # Dead letters are published with what is settled.
    stream.settle()
    # On a clock that does not advance there is time for every interval and level.
    evaluator = make_evaluator(settings, panes, ManualClock(clock.now_ms()))
    return LogReport(evaluator.evaluate(), stream.counters(), stream.dead_letters)


class OfflineStream:
    """Joins a log of one partition batch by batch, as the service does.

    Parameters
    ----------
    decoder
        Decodes messages to columns.
    settings
        Settings of all partitions, as for the service.
    publish
        Called with each checkpoint.
    """

    def __init__(self, decoder: Decoder, settings: PartitionSettings, publish: Callable[[Checkpoint], None]) -> None:
        self._decoder = decoder
        self._partition = Partition(0, 0, replace(settings, outcomes_apart=True))
        self._publish = publish
        self._since_checkpoint = 0
        self.dead_letters: list[DeadLetter] = []

    def read(self, batch: RecordBatch) -> None:
        """Join the next batch of the log."""
        self._partition.apply(batch, self._decoder, None)
        self._since_checkpoint += len(batch.records)
        if self._since_checkpoint >= _RECORDS_BETWEEN_CHECKPOINTS:
            self.settle(finished=False)

    def settle(self, *, finished: bool = True) -> None:
        """Close what is settled, publish it, and collect the dead letters.

        Parameters
        ----------
        finished
            Whether the log is read to its end. Before that all outcomes of a model may still come, as in a file with
            one topic behind the other.
        """
        self._since_checkpoint = 0
        checkpoint = self._partition.checkpoint(summarise=finished, outcomes_read=finished)
        self._publish(checkpoint)
        self.dead_letters += checkpoint.dead_letters

    def counters(self) -> Mapping[tuple[str, str], int]:
        """(type, result) -> events; each event read is counted once."""
        return self._partition.event_counters()
