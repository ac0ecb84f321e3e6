"""The durable state of a partition.

It consists of two parts. The *journal* is what the join accepted, append-only, in batches by model and time bucket; the
join's table is rebuilt from it. What is settled leaves the join for a *closing*, saved in one transaction with the
offsets; a bucket's journal is dropped once all of it is closed. So each event is written once, and restoring is one
pass.

The *candidates* for the samples of refits are saved and dropped with the journal, the *closed samples* with the
closings.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from monitor.events.model import DeadLetter, SeriesKey, Stratum
from monitor.events.strata import Cap
from monitor.store.closed_samples import ClosedSample
from monitor.store.closing import Closing, OldPanes, Panes

BACKFILL: Final = -1
"""Number of the partition that holds closings of past predictions: see :mod:`monitor.store.backfill`."""


MAX_BATCH_BYTES: Final = 1 << 22
"""Largest batch of a journal, so that reading takes little memory."""


class Bucket(NamedTuple):
    """The unit in which the journal is dropped: the rows of one model whose prediction time falls into it."""

    model: str
    start_ms: int


class JournalBatch(NamedTuple):
    """Rows of one bucket, in the order in which they were accepted."""

    bucket: Bucket
    rows: bytes
    """Rows as :mod:`monitor.stream.journal_loops` lays them out. Batches of one bucket merge by concatenation."""


class PaneKey(NamedTuple):
    """One pane of one series: the predictions of [start, start + slide)."""

    slide_ms: int
    start_ms: int
    series: SeriesKey


class CandidateBatch(NamedTuple):
    """Candidates for the sample of a bucket's predictions, dropped with its journal."""

    bucket: Bucket
    rows: bytes
    """Rows as :meth:`monitor.store.candidates.Candidates.to_bytes` writes them."""
    whole: bool = False
    """Whether it replaces all earlier batches of the bucket."""


class SampledSpan(NamedTuple):
    """What settled predictions add to the closed sample of one version and span of time.

    The key is that of a pane as wide as the span, of the version's series ``all``.
    """

    key: PaneKey
    sample: ClosedSample


class SavedStratum(NamedTuple):
    """A stratum, and about when it was last predicted: see :class:`monitor.stream.lifetimes.Lifetimes`."""

    stratum: Stratum
    newest_ms: int = -1


class CapUse(NamedTuple):
    """How full a cap is, and what it has made ``other``."""

    used: int
    """Names that live."""
    limit: int
    """Names that may live."""
    folded: int = 0
    """Predictions of which a name became ``other``, as long as windows reach the newest of them."""
    newest_ms: int = -1
    """Time of the newest of these."""


CapUses = Mapping[Cap, CapUse]
"""The caps that are at least half used, or have made a name ``other`` that windows still reach."""


class ModelState(NamedTuple):
    """Watermarks of a model. Its place in a sequence of these is the model's id while the partition is held."""

    name: str
    prediction_watermark_ms: int
    """Newest event time of its predictions, or -1."""
    outcome_watermark_ms: int
    """Newest event time of its outcomes, or -1."""
    closed_to_ms: int = -1
    """Predictions before this time are closed; -1 if none are."""
    awaits_outcomes: int = 1
    """0 if all its events so far were labelled, so that only the lateness has to pass."""


class ModelClock(NamedTuple):
    """How far one partition is with one model: as in :class:`ModelState`."""

    prediction_watermark_ms: int
    outcome_watermark_ms: int
    closed_to_ms: int
    awaits_outcomes: int = 1
    saved_ms: int = 0
    """Wall-clock time of the last checkpoint that changed it."""


class PartitionClock(NamedTuple):
    """How far one partition is read."""

    read_to_ms: int
    """A model that the partition has not met has no predictions before this time in it, as far as is known: the newest
    prediction of any model that was read from it; of any partition, once it was read to its end. -1 before both."""
    saved_ms: int
    """Wall-clock time of its last checkpoint."""


Counters = Mapping[tuple[str, str], int]
"""(type, result) -> events since the log's beginning."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The saved state of a partition. The iterators can be read once.

    Attributes
    ----------
    offsets
        Topic -> next offset.
    models
        In any order.
    strata
        By id.
    journal
        Batches in the order in which they were saved.
    candidates
        Batches in the order in which they were saved. Closed samples are not loaded.
    caps
        As the last checkpoint had them.
    read_to_ms
        As in :class:`PartitionClock`.
    oldest_ms
        (model, width of panes) -> start of the oldest closing.
    """

    offsets: Mapping[str, int]
    models: Sequence[ModelState]
    strata: Mapping[int, SavedStratum]
    counters: Counters
    journal: Iterator[JournalBatch]
    candidates: Iterator[CandidateBatch] = field(default_factory=lambda: iter(()))
    caps: CapUses = field(default_factory=dict)
    read_to_ms: int = -1
    oldest_ms: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Changes of a partition since the last checkpoint, saved in one transaction.

    Attributes
    ----------
    partition, epoch
        Number of the partition, and the epoch under which its owner claimed it.
    offsets
        Topic -> next offset: the state contains every record before it and none after.
    models
        All models with their watermarks, by id.
    strata
        By id, those that are new or were predicted since.
    ended_strata, ended_models
        Names that are removed. The partition is loaded again before it reads on: their ids are given to others.
    journal
        Batches to append.
    dropped
        Buckets whose journal is removed.
    closings
        What was settled.
    old
        Panes that are no longer needed as narrow as they are.
    unsettled
        Summary of the predictions that are not settled, which replaces the earlier one; None keeps it.
    candidates
        Batches to append, or to replace earlier ones.
    closed_samples
        What was settled of the candidates.
    expired_samples_before_ms
        (model, width of its spans) -> start of the oldest closed samples that are kept.
    counters
        All of them.
    caps
        All that are stored from now on; None keeps those of the last checkpoint.
    dead_letters
        Messages that are not valid events. Those already stored (same topic, partition and offset) are skipped.
    read_to_ms
        As in :class:`PartitionClock`.
    changed_models
        Ids of the models that are not as the last checkpoint had them: only these are written. None: all of them.
    """

    partition: int
    epoch: int
    offsets: Mapping[str, int]
    models: Sequence[ModelState]
    strata: Mapping[int, SavedStratum] = field(default_factory=dict)
    ended_strata: Sequence[int] = ()
    ended_models: Sequence[str] = ()
    journal: Sequence[JournalBatch] = ()
    dropped: Sequence[Bucket] = ()
    closings: Sequence[Closing] = ()
    old: Sequence[OldPanes] = ()
    unsettled: Panes | None = None
    candidates: Sequence[CandidateBatch] = ()
    closed_samples: Sequence[SampledSpan] = ()
    expired_samples_before_ms: Mapping[tuple[str, int], int] = field(default_factory=dict)
    counters: Counters = field(default_factory=dict)
    caps: CapUses | None = None
    dead_letters: Sequence[DeadLetter] = ()
    read_to_ms: int = -1
    changed_models: Sequence[int] | None = None


class StoredDeadLetter(NamedTuple):
    """A dead letter with its number in the store and when it was stored."""

    number: int
    stored_ms: int
    letter: DeadLetter
