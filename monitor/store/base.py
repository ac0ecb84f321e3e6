"""What is durable of a partition, and what a store does with it.

Two things hold the whole state. The *journal* is what the join accepted, append-only, in batches by model and time
bucket; the join's table and the open panes are rebuilt from it. When a bucket's horizon has passed, its rows can
change no more: they are added to the *closed panes* and the bucket's journal is dropped, in one transaction with the
offsets. So each event is written once, and restoring is one pass.

Beside the journal stand the *candidates* for the samples that refits are made of, beside the closed panes the *closed
samples*. They come and go with them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np

from monitor.classes.sketch import SkceSketch
from monitor.events.model import DeadLetter, SeriesKey, Stratum
from monitor.scores import GridTable
from monitor.store.closed_samples import ClosedSample
from monitor.store.recalibrations import AuditEntry

# Values of ``entry``: what a row of the journal says happened.
PREDICTED: Final = 0
"""A prediction was accepted; with an outcome if the event brought one."""
ANSWERED: Final = 1
"""A prediction got its first outcome."""
CORRECTED: Final = 2
"""A prediction's outcome turned into the other one."""
CONFIRMED: Final = 3
"""The same outcome, newer."""
WAITING: Final = 4
"""An outcome waits for its prediction. ``prediction`` holds its arrival number; ``stratum`` a class above 1, or -1."""
CLAIMED: Final = 5
"""A waiting outcome met its prediction. ``prediction`` holds its arrival number."""
VECTOR: Final = 6
"""Some of the probabilities of the row before, which is of a model of several classes."""

JOURNAL_ROW: Final = np.dtype(
    [
        ("id_high", "<u8"),
        ("id_low", "<u8"),
        ("time_ms", "<i8"),
        ("prediction", "<f8"),
        ("outcome_ms", "<i8"),
        ("stratum", "<i4"),
        ("entry", "i1"),
        ("outcome", "i1"),
    ]
)
"""One row of the journal, packed, little-endian. ``entry`` says what happened.

Of a prediction over several classes, the row tells of its largest probability, and whether that class came true; rows
of VECTOR_ROW with the whole of it follow.
"""

VECTOR_ROW: Final = np.dtype(
    [
        ("values", "<f8", (4,)),
        ("classes", "<i2"),
        ("label", "<i2"),
        ("before", "<i2"),
        ("unused", "<i2"),
        ("stratum", "<i4"),
        ("entry", "i1"),
        ("outcome", "i1"),
    ]
)
"""Four probabilities of the row before, in as many bytes as a row of the journal has, among which it stands.

Each such row of a prediction names its number of classes, the class that came true, and the class that was held to have
come true until then (each -1 for none). ``stratum`` and ``outcome`` are -1.
"""


class Bucket(NamedTuple):
    """The unit in which the journal is dropped: the rows of one model whose prediction time falls into it."""

    model: str
    start_ms: int


class JournalBatch(NamedTuple):
    """Rows of one bucket, in the order in which they were accepted."""

    bucket: Bucket
    rows: bytes
    """Whole rows of JOURNAL_ROW. Two batches of one bucket merge by putting one behind the other."""


class PaneKey(NamedTuple):
    """One pane of one series: the predictions of [start, start + slide)."""

    slide_ms: int
    start_ms: int
    series: SeriesKey


class ClosedPane(NamedTuple):
    """What a dropped bucket leaves behind in one pane. A pane's closed part is the sum of these."""

    key: PaneKey
    table: GridTable


class ClosedSketch(NamedTuple):
    """What a dropped bucket leaves behind in the sketch of one pane. Its closed part is the sum of these."""

    key: PaneKey
    sketch: SkceSketch


class CandidateBatch(NamedTuple):
    """Candidates for the sample of a bucket's predictions. Beside the journal, and dropped with it."""

    bucket: Bucket
    rows: bytes
    """As :meth:`monitor.stream.sample_candidates.Candidates.to_bytes` wrote it."""
    whole: bool = False
    """Whether it takes the place of all that was saved of the bucket before."""


class SampledSpan(NamedTuple):
    """What dropped buckets leave behind in the sample of one version and span of time. Its closed part is their sum.

    The key is that of a pane: as wide as the span, of the version's series ``all``.
    """

    key: PaneKey
    sample: ClosedSample


class ModelState(NamedTuple):
    """What a partition knows of a model besides its events. Place in the sequence is the model's id."""

    name: str
    prediction_watermark_ms: int
    """Newest event time of its predictions, or -1."""
    outcome_watermark_ms: int
    """Newest event time of its outcomes, or -1."""
    evicted_before_ms: int = -1
    """Predictions older than this left the join before their time, because it was full; -1 if none did."""


Counters = Mapping[tuple[str, str], int]
"""(type, result) -> events that met this fate since the log's beginning."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of a partition as it was saved; the iterators read it piece by piece, once.

    Attributes
    ----------
    offsets
        Topic -> where reading goes on.
    models, strata
        By id.
    journal
        Batches in the order in which they were saved.
    panes, sketches
        The closed panes, and the sketches of those that have one.
    candidates
        Batches in the order in which they were saved. Closed samples are not loaded: nothing is asked of them here.
    """

    offsets: Mapping[str, int]
    models: Sequence[ModelState]
    strata: Sequence[Stratum]
    counters: Counters
    journal: Iterator[JournalBatch]
    panes: Iterator[ClosedPane]
    sketches: Iterator[ClosedSketch] = field(default_factory=lambda: iter(()))
    candidates: Iterator[CandidateBatch] = field(default_factory=lambda: iter(()))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What changed in a partition since the last one. Saved in one transaction, or not at all.

    Attributes
    ----------
    partition, epoch
        Whose state, and the epoch under which its owner claimed it.
    offsets
        Topic -> where reading goes on: the state holds every record before it and none from it on.
    models
        All models with their watermarks, by id.
    new_strata
        Strata interned since the last checkpoint; the first has the id ``first_stratum``.
    journal
        Batches to append.
    dropped
        Buckets whose journal goes.
    closed, closed_sketches
        What the dropped buckets add to the closed panes, and to their sketches.
    expired_before_ms
        (model, slide) -> closed panes of it that start earlier are of no window any more, and go.
    candidates
        Batches to append, or to put in place of what there is.
    closed_samples
        What the dropped buckets add to the closed samples.
    expired_samples_before_ms
        (model, width of its spans) -> closed samples of it that start earlier go.
    counters
        All of them.
    dead_letters
        Messages that were no valid events. One that is stored already (same topic, partition and offset) is left.
    """

    partition: int
    epoch: int
    offsets: Mapping[str, int]
    models: Sequence[ModelState]
    first_stratum: int = 0
    new_strata: Sequence[Stratum] = ()
    journal: Sequence[JournalBatch] = ()
    dropped: Sequence[Bucket] = ()
    closed: Sequence[ClosedPane] = ()
    closed_sketches: Sequence[ClosedSketch] = ()
    expired_before_ms: Mapping[tuple[str, int], int] = field(default_factory=dict)
    candidates: Sequence[CandidateBatch] = ()
    closed_samples: Sequence[SampledSpan] = ()
    expired_samples_before_ms: Mapping[tuple[str, int], int] = field(default_factory=dict)
    counters: Counters = field(default_factory=dict)
    dead_letters: Sequence[DeadLetter] = ()


class StateStore(Protocol):
    """Keeps the partitions. Each method is one transaction. Called from the pipeline's thread."""

    def claim(self, partition: int, still_assigned: Callable[[], bool] = ...) -> int:
        """Become the partition's owner: its epoch is raised, and what an earlier owner would save is refused.

        The epoch is read first, then ``still_assigned`` is called, and the epoch is raised only if it is still the one
        that was read. So a claim that waited (for a database, or as a stopped process) is void if another process was
        assigned the partition meanwhile: either that one has claimed before the epoch was read, and then the assignment
        is known to have changed; or it claims after, and then the epoch is another.

        Parameters
        ----------
        partition
            Which partition.
        still_assigned
            Asks whoever assigns the partitions, and not this process's memory, whether it is still assigned.

        Raises
        ------
        FencedOut
            It is assigned to another process, or another process has claimed it meanwhile.
        StoreUnavailable
            The database does not answer. Whether the partition was claimed is not known: claim it anew.
        """
        ...

    def load(self, partition: int) -> PartitionState:
        """The state as of the last checkpoint; empty if there was none."""
        ...

    def save(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Save all of these, or none.

        Raises
        ------
        FencedOut
            Another process has claimed one of the partitions since. Names it.
        StoreUnavailable
            The database does not answer.
        """
        ...


class StoredDeadLetter(NamedTuple):
    """A dead letter with its number in the store and when it was stored."""

    number: int
    stored_ms: int
    letter: DeadLetter


class DeadLetterStore(Protocol):
    """Reads the dead letters. May be called from any thread, also from another process."""

    def dead_letters(
        self, *, after: int = 0, limit: int = 100, reason: str | None = None
    ) -> Sequence[StoredDeadLetter]:
        """Letters with a number greater than ``after``, ascending, at most ``limit``."""
        ...

    def count_dead_letters(self) -> Mapping[str, int]:
        """Number of stored letters by reason."""
        ...

    def remove_dead_letters(self, numbers: Sequence[int], *, entry: AuditEntry | None = None) -> None:
        """Remove these, after they were replayed or discarded, and append ``entry`` to the audit trail with that."""
        ...
