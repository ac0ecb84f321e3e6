"""The stream without a source and a store, for a log in a file."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from monitor.events.codec import Decoder
from monitor.events.model import DeadLetter, Kind, RecordBatch
from monitor.store.base import Checkpoint
from monitor.stream.partition import Partition, PartitionSettings

_RECORDS_BETWEEN_CHECKPOINTS: Final = 200_000


class OfflineStream:
    """Joins a log batch by batch, as the service does.

    Parameters
    ----------
    decoder
        Decodes messages to columns.
    settings
        Settings of all partitions, as for the service.
    publish
        Called with each checkpoint.
    """

    def __init__(
        self, decoder: Decoder, settings: PartitionSettings, publish: Callable[[Checkpoint], None] = lambda _: None
    ) -> None:
        self._decoder = decoder
        self._settings = replace(settings, outcomes_apart=True)
        self._publish = publish
        self._partitions: dict[int, Partition] = {}
        self._since_checkpoint = 0
        self.dead_letters: list[DeadLetter] = []

    def read(self, batch: RecordBatch, default_kind: Kind | None = None) -> None:
        """Join a batch. Batches of one partition come in the order of its log."""
        partition = self._partitions.get(batch.partition)
        if partition is None:
            partition = self._partitions[batch.partition] = Partition(batch.partition, 0, self._settings)
        partition.apply(batch, self._decoder, default_kind)
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
        for partition in self._partitions.values():
            checkpoint = partition.checkpoint(summarise=finished, outcomes_read=finished)
            self._publish(checkpoint)
            self.dead_letters += checkpoint.dead_letters

    def counters(self) -> Counter[tuple[str, str]]:
        """(type, result) -> events; each event read is counted once."""
        counted: Counter[tuple[str, str]] = Counter()
        for partition in self._partitions.values():
            counted.update(partition.event_counters())
        return counted
