"""What the pipeline says of itself, as series."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from monitor.events.model import Reason
from monitor.metrics import pipeline_series as series
from monitor.metrics.family import Family
from monitor.sources.base import TopicPartition
from monitor.stream import event_results
from monitor.stream.status import Phase, PipelineStatus, Unread

_DEPARTURES: Final = dict.fromkeys(
    (event_results.ANSWERED, event_results.EXPIRED, event_results.IMPLIED_NEGATIVE, event_results.EVICTED), 0
)

_KNOWN_EVENTS: Final = {
    (kind, result): 0
    for kind, results in event_results.RESULTS.items()
    for result in results
    if result != event_results.EARLY
}


class Pipeline(Protocol):
    """What reads and joins the events."""

    @property
    def status(self) -> PipelineStatus:
        """Where it stands."""
        ...


class PipelineFamilies:
    """The series of the pipeline's status. Every known label value is there from the start, at 0: so rates work."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def __call__(self) -> Iterator[Family]:
        """Read the status."""
        status = self._pipeline.status
        yield Family(series.READY, [((), status.ready)])
        yield Family(series.PHASE, [((phase.value,), status.phase is phase) for phase in Phase])
        yield Family(series.PARTITIONS, [((), len(status.partitions))])
        yield Family(series.RECORDS, [((), status.records_read)])
        # An early outcome waits and then meets another fate: a number that falls is a gauge, and no counter.
        met = {key: count for key, count in status.counters.items() if key[1] != event_results.EARLY}
        yield Family(series.EVENTS, list((_KNOWN_EVENTS | met).items()))
        yield Family(
            series.DEPARTED, [((result,), count) for result, count in (_DEPARTURES | dict(status.departed)).items()]
        )
        yield Family(series.DEAD_LETTERS, [((reason.value,), status.dead_letters.get(reason, 0)) for reason in Reason])
        yield Family(series.PURGED, [((), status.purged_offsets)])
        yield Family(series.PENDING, [((), status.pending)])
        yield Family(series.UNANSWERED, [((), status.unanswered)])
        yield Family(series.EARLY_OUTCOMES, [((), status.early_outcomes)])
        yield Family(
            series.LAG, [((topic, str(partition)), lag) for (topic, partition), lag in sorted(status.lag.items())]
        )
        yield Family(series.HELD_SERIES, [((), status.series)])
        yield Family(series.STATE_BYTES, [((table,), size) for table, size in status.state_bytes.items()])
        saved = status.checkpoint_ms > 0
        yield Family(series.CHECKPOINT_TIMESTAMP, [((), status.checkpoint_ms / 1000)] if saved else [])
        yield Family(series.CHECKPOINT_DURATION, [((), status.checkpoint_seconds)] if saved else [])


class BacklogFamilies:
    """The series of what is not read yet, of all partitions. The callable gives the last measurement."""

    def __init__(self, unread: Callable[[], Mapping[TopicPartition, Unread]]) -> None:
        self._unread = unread

    def __call__(self) -> Iterator[Family]:
        """Read the last measurement."""
        parts = [((topic, str(number)), unread) for (topic, number), unread in sorted(self._unread().items())]
        yield Family(series.UNREAD, [(labels, unread.records) for labels, unread in parts])
        yield Family(series.SAVED_OFFSET, [(labels, unread.saved_offset) for labels, unread in parts])
