"""Status of the pipeline, for Prometheus, `/readyz` and people."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from monitor.events.model import Reason, TopicPartition
from monitor.store.base import CapUses, Counters


class Phase(StrEnum):
    """Phase of the pipeline."""

    STARTING = "starting"
    RUNNING = "running"
    SOURCE_UNAVAILABLE = "source_unavailable"
    STORE_UNAVAILABLE = "store_unavailable"
    SCHEMA_UNAVAILABLE = "schema_unavailable"
    STOPPED = "stopped"
    FAILED = "failed"


class Unread(NamedTuple):
    """Backlog of one topic partition, over all replicas."""

    records: int
    """Records in the log from the saved offset on."""
    saved_offset: int
    """Offset up to which records are read and saved; 0 if none is saved yet."""


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """Snapshot of the pipeline's status. Immutable: the pipeline publishes a new one after each batch.

    Attributes
    ----------
    phase, detail
        Its phase, and a line that says what is wrong and what to do, or nothing.
    partitions
        Partitions whose state is restored and which are being read.
    partition_count
        Number of partitions of the log, those of other replicas too.
    full
        Partition that is read and has as many models as it may have -> these; events of others are refused there.
    caps
        Caps of the partitions that are read: names of the fullest, predictions of all. Those that are at least half
        used, or have made a name ``other``.
    counters
        (type, result) -> events, over the assigned partitions, since the log's beginning. Each event read is counted
        once. See monitor/events/event_results.py for the names.
    dead_letters
        Reason -> messages, likewise; ``counters`` holds their sum under ("unknown", "dead_letter").
    departed
        Result -> accepted predictions that left the join: answered, expired_unlabelled, implied_negative, evicted.
    pending
        Predictions in the join: waiting for their outcome, or answered and kept to recognise duplicates.
    unanswered
        Those of them that have no outcome yet.
    early_outcomes
        Outcomes that wait for their prediction.
    lag
        Records behind the end of each topic partition that is read; empty while nothing is read.
    checkpoint_ms
        Wall-clock time of the last checkpoint, or 0.
    checkpoint_seconds
        How long it took.
    records_read
        Messages read by this process since it started.
    purged_offsets
        Offsets skipped since the process started because the log no longer held them.
    state_bytes
        Memory of the tables of the join, and of the candidates of samples for refits.
    """

    phase: Phase = Phase.STARTING
    detail: str = ""
    partitions: frozenset[int] = frozenset()
    partition_count: int = 0
    full: Mapping[int, Collection[str]] = field(default_factory=dict)
    caps: CapUses = field(default_factory=dict)
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
    state_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """Whether partitions are assigned, restored and read."""
        return self.phase is Phase.RUNNING
