"""What the pipeline says of itself, for Prometheus, `/readyz` and people."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from monitor.events.model import Reason
from monitor.sources.base import TopicPartition
from monitor.store.base import Counters


class Phase(StrEnum):
    """Where the pipeline stands."""

    STARTING = "starting"
    RUNNING = "running"
    SOURCE_UNAVAILABLE = "source_unavailable"
    STORE_UNAVAILABLE = "store_unavailable"
    STOPPED = "stopped"
    FAILED = "failed"


class Unread(NamedTuple):
    """Of one topic partition, whichever replica reads it, or none."""

    records: int
    """Records in the log from the saved offset on."""
    saved_offset: int
    """Up to which offset it is read and saved; 0 where nothing is saved yet."""


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """One look at the pipeline. Immutable: the pipeline swaps in a new one after each batch.

    Attributes
    ----------
    phase, detail
        Where it stands, and one line for people: what is wrong and what to do, or empty.
    partitions
        Partitions whose state is restored and which are being read.
    counters
        (type, result) -> events, over the partitions that are held, since the log's beginning. Together they are the
        events read: each event read meets one fate. See monitor/stream/fates.py for the names.
    dead_letters
        Reason -> messages, likewise; their sum stands in ``counters`` too, under ("unknown", "dead_letter").
    departed
        Fate -> accepted predictions that have left the join: answered, expired_unlabelled, implied_negative, evicted.
    pending
        Predictions kept to be joined: waiting for their outcome, or answered and kept to recognise duplicates.
    unanswered
        Those of them that have no outcome yet.
    early_outcomes
        Outcomes that wait for their prediction.
    lag
        Records behind the end of each topic partition that is read; empty while nothing is read.
    checkpoint_ms
        Wall-clock time of the last checkpoint, or 0.
    checkpoint_seconds
        What it took.
    records_read
        Messages read by this process since it started.
    purged_offsets
        Offsets passed over since the process started because the log no longer held them.
    series
        Number of series held.
    state_bytes
        Memory of the tables of the partitions held: of the join, and of the panes.
    """

    phase: Phase = Phase.STARTING
    detail: str = ""
    partitions: frozenset[int] = frozenset()
    counters: Counters = field(default_factory=dict)
    departed: Mapping[str, int] = field(default_factory=dict)
    dead_letters: Mapping[Reason, int] = field(default_factory=dict)
    pending: int = 0
    unanswered: int = 0
    early_outcomes: int = 0
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    checkpoint_ms: int = 0
    checkpoint_seconds: float = 0.0
    records_read: int = 0
    purged_offsets: int = 0
    series: int = 0
    state_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether partitions are assigned, restored and read."""
        return self.phase is Phase.RUNNING
