"""The stream without a source and a store, for a log in a file."""

from collections import Counter
from typing import Final

import numpy as np

from monitor.events.codec import Decoder
from monitor.events.model import DeadLetter, Kind, RecordBatch
from monitor.stream.pane_view import PaneView
from monitor.stream.partition import Partition, PartitionSettings

_RECORDS_BETWEEN_EVICTIONS: Final = 200_000


class OfflineStream:
    """Joins a log batch by batch, as the service does. The panes can be read at any time.

    Parameters
    ----------
    decoder
        Decodes messages to columns.
    settings
        Settings of all partitions, as for the service.
    """

    def __init__(self, decoder: Decoder, settings: PartitionSettings) -> None:
        self._decoder = decoder
        self._settings = settings
        self._partitions: dict[int, Partition] = {}
        self._since_eviction = 0
        self.panes = PaneView()
        self.dead_letters: list[DeadLetter] = []

    def read(self, batch: RecordBatch, default_kind: Kind | None = None) -> None:
        """Join a batch. Batches of one partition come in the order of its log."""
        partition = self._partitions.get(batch.partition)
        if partition is None:
            partition = self._partitions[batch.partition] = Partition(batch.partition, 0, self._settings)
            self.panes.show(self._partitions)
        partition.apply(batch, self._decoder, default_kind)
        self._since_eviction += len(batch.records)
        if self._since_eviction >= _RECORDS_BETWEEN_EVICTIONS:
            self.settle(finished=False)

    def settle(self, *, finished: bool = True) -> None:
        """Close what can no longer change, and collect the dead letters.

        Parameters
        ----------
        finished
            Whether the log is read to its end. Before that all outcomes of a model may still come, as in a file with
            one topic behind the other.
        """
        self._since_eviction = 0
        outcomes_read_ms = None if finished else np.zeros(0, np.int64)
        for partition in self._partitions.values():
            self.dead_letters += partition.checkpoint(outcomes_read_ms).dead_letters

    def counters(self) -> Counter[tuple[str, str]]:
        """(type, result) -> events; each event read is counted once."""
        counted: Counter[tuple[str, str]] = Counter()
        for partition in self._partitions.values():
            counted.update(partition.event_counters())
        return counted
