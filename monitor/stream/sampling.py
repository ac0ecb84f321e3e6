"""The sample of a partition: candidates while their outcome can come, closed samples once it can change no more.

Every accepted prediction of a sampled model competes in its *cell*: its version, and its bucket of the journal. A cell
keeps the candidates that :mod:`monitor.store.bottom_samples` tells, saved beside the journal and dropped with its
bucket. What leaves the join at the end of its time with an outcome, and was a candidate, goes into the closed sample of
its version and *span*, which lives in the store alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import DamagedStore
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.events.strata import Strata
from monitor.store.base import PREDICTED, Bucket, CandidateBatch, PaneKey, SampledSpan
from monitor.store.bottom_samples import EDGES, thresholds
from monitor.stream.departing import Departed, closed_samples, labelled_outcomes
from monitor.stream.hash_loops import slots_for
from monitor.stream.join import Joined
from monitor.stream.join_table_loops import NO_OUTCOME
from monitor.stream.journal import bucket_width_ms
from monitor.stream.sample_candidates import NO_FEATURES, Candidates
from monitor.stream.sample_settings import SampleSettings
from monitor.stream.sampling_loops import FullCells, admit, confidence_strata, index_keys, match_ids
from monitor.stream.vectors import blocks_in

MOST_BATCHES: Final = 64
"""Once a bucket has so many batches in the store, they are replaced by one."""

_OVERFULL: Final = 1.5
"""A cell lets superfluous candidates go once it holds so many times as many as it keeps, and before it is saved."""

_STALE_SHARE: Final = 8
"""What is told to the hot path is made anew once more than one in so many full cells have sharper thresholds."""

_MOST_PENDING: Final = 5_000
_MOST_PENDING_NUMBERS: Final = 1 << 22
"""As many candidates, and numbers in their features, wait to be sorted in."""

# Fates of a candidate once its bucket is dropped.
LABELLED: Final = "labelled"
"""Its outcome is known, so it goes into the closed sample of its span, if there is room."""
UNLABELLED: Final = "unlabelled"
EVICTED: Final = "evicted"
"""It left before its time. Those that are answered by then are not like the others, so none of them is taken."""


@dataclass(slots=True)
class _Cell:
    """The candidates of one version and bucket, in the order in which they came, and how many it keeps.

    It may hold some more for a while: who is too many is found out once it pays, and before any of it is told.
    """

    capacity: int
    saved: list[Candidates] = field(default_factory=list)
    unsaved: list[Candidates] = field(default_factory=list)
    count: int = 0
    settled: int = 0
    """How many were held when the superfluous ones were last found out; 0 before it was full."""
    thresholds: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def settle(self) -> bool:
        """Let those go that are too many. Whether the thresholds are new."""
        if self.count < self.capacity or self.count == self.settled:
            return False
        held = Candidates.joined([*self.saved, *self.unsaved])
        first_unsaved = sum(map(len, self.saved))
        kept = held.fewest(self.capacity)
        self.thresholds = thresholds(held.confidence[kept], held.id_high[kept], self.capacity)
        if kept.size < len(held):
            parts = kept[kept < first_unsaved], kept[kept >= first_unsaved]
            self.saved, self.unsaved = ([held.take(part)] if part.size else [] for part in parts)
        self.count = self.settled = kept.size
        return True


@dataclass(slots=True)
class _Pending:
    """Candidates that are not sorted in yet."""

    rows: list[NDArray[np.void]] = field(default_factory=list)
    confidence: list[NDArray[np.int32]] = field(default_factory=list)
    bucket_ms: list[NDArray[np.int64]] = field(default_factory=list)
    lengths: list[NDArray[np.int32]] = field(default_factory=list)
    features: list[NDArray[np.float32]] = field(default_factory=list)
    count: int = 0
    numbers: int = 0

    def add_features(self, told: Sequence[NDArray[np.float32] | None]) -> None:
        """Copy what stands in the arrays of a whole batch."""
        present = [found for found in told if found is not None]
        self.count += len(told)
        if not present:
            self.lengths.append(np.full(len(told), NO_FEATURES, np.int32))
            return
        if len(present) == len(told):
            lengths = list(map(len, present))
        else:
            lengths = [NO_FEATURES if found is None else len(found) for found in told]
        self.lengths.append(np.array(lengths, np.int32))
        self.features.append(np.concatenate(present))
        self.numbers += self.features[-1].size


class Sampler:
    """The candidates of a partition. Used from the pipeline's thread.

    Parameters
    ----------
    strata
        The names of the partition. New ones are taken up as they appear there.
    settings
        How large samples are.
    """

    def __init__(self, strata: Strata, settings: SampleSettings) -> None:
        self._strata = strata
        self._settings = settings
        self._edges = np.array(EDGES)
        self._capacity: list[int] = []
        self._candidates: list[int] = []
        """Of a span, by model id."""
        self._span_ms: list[int] = []
        self._widths_ms = np.empty(0, np.int64)
        self._versions: dict[tuple[int, str], int] = {}
        """(model id, version) -> number of the version, of models that are sampled."""
        self._version_of_stratum = np.empty(0, np.int32)
        self._cells: defaultdict[Bucket, dict[int, _Cell]] = defaultdict(dict)
        self._batches: Counter[Bucket] = Counter()
        self._touched: set[Bucket] = set()
        """Buckets that may hold what is not saved."""
        self._pending = _Pending()
        self._full = self._find_full()
        self._new_thresholds = 0
        """Cells whose thresholds have become sharper since ``_full`` was made."""
        self.fates: Counter[str] = Counter()
        """Fate -> candidates whose bucket was dropped."""

    @property
    def candidates(self) -> int:
        """Candidates that are held, but for those that are not sorted in yet."""
        return sum(cell.count for cells in self._cells.values() for cell in cells.values())

    @property
    def nbytes(self) -> int:
        """Bytes of them."""
        cells = [cell for of_bucket in self._cells.values() for cell in of_bucket.values()]
        return sum(part.nbytes for cell in cells for part in (*cell.saved, *cell.unsaved))

    def take(self, joined: Joined, features: Sequence[NDArray[np.float32] | None]) -> None:
        """Take up what a batch changed, with the features of the events that it was made of."""
        self._take_up_names()
        if not self._versions:
            return
        rows = joined.rows
        confidence = np.empty(rows.size, np.int32)
        confidence_strata(rows, blocks_in(rows), self._edges, confidence)
        chosen = np.empty(rows.size, np.int64)
        count = admit(rows, confidence, joined.model, self._version_of_stratum, self._widths_ms, self._full, chosen)
        if not count:
            return
        chosen = chosen[:count]
        taken, pending = rows[chosen], self._pending
        pending.rows.append(taken)
        pending.confidence.append(confidence[chosen])
        time_ms = taken["time_ms"]
        pending.bucket_ms.append(time_ms - time_ms % self._widths_ms[joined.model[chosen]])
        pending.add_features([features[at] for at in joined.event[chosen].tolist()])
        if pending.count > _MOST_PENDING or pending.numbers > _MOST_PENDING_NUMBERS:
            self.sort_in()

    def sort_in(self) -> None:
        """Let those that wait compete in their cells."""
        pending, self._pending = self._pending, _Pending()
        if not pending.rows:
            return
        rows = np.concatenate(pending.rows)
        candidates = Candidates(
            np.ascontiguousarray(rows["id_high"]),
            np.ascontiguousarray(rows["id_low"]),
            np.concatenate(pending.confidence),
            np.ascontiguousarray(rows["stratum"]),
            np.concatenate(pending.lengths),
            np.concatenate([np.empty(0, np.float32), *pending.features]),
        )
        for bucket, cell, part in self._by_cell(candidates, np.concatenate(pending.bucket_ms)):
            cell.unsaved.append(part)
            cell.count += len(part)
            self._touched.add(bucket)
            if cell.count >= _OVERFULL * cell.capacity:
                self._new_thresholds += cell.settle()
        if self._new_thresholds * _STALE_SHARE > self._full.version.size:
            self._full = self._find_full()

    def unsaved(self) -> list[CandidateBatch]:
        """What is to be saved beside the journal, of the buckets that are not dropped; it counts as saved then."""
        result = []
        touched, self._touched = sorted(self._touched), set()
        for bucket in touched:
            cells = self._cells[bucket].values()
            for cell in cells:
                self._new_thresholds += cell.settle()
            if not any(cell.unsaved for cell in cells):
                continue
            whole = self._batches[bucket] >= MOST_BATCHES
            self._batches[bucket] = 1 if whole else self._batches[bucket] + 1
            parts = []
            for cell in cells:
                told, cell.unsaved = cell.unsaved, []
                if whole:
                    told = cell.saved = [Candidates.joined([*cell.saved, *told])]
                else:
                    told = [Candidates.joined(told)] if told else []
                    cell.saved += told
                parts += told
            result.append(CandidateBatch(bucket, Candidates.joined(parts).to_bytes(), whole))
        if self._new_thresholds:
            self._full = self._find_full()
        return result

    def close(self, dropped: Iterable[Bucket], rows: NDArray[np.void]) -> list[SampledSpan]:
        """Close the samples of buckets whose time has passed.

        Parameters
        ----------
        rows
            Their predictions as they leave the join, in rows of the journal.

        Returns
        -------
        What they add to the samples of their spans.
        """
        candidates = self._remove(dropped)
        if not self._versions:
            return []
        confidence = np.empty(rows.size, np.int32)
        confidence_strata(rows, blocks_in(rows), self._edges, confidence)
        outcome = labelled_outcomes(rows, self._strata)
        wanted = (rows["entry"] == PREDICTED) & (outcome != NO_OUTCOME)
        version = np.where(wanted, self._version_of_stratum[rows["stratum"]], -1)
        wanted &= version >= 0
        high, low = candidates.id_high, candidates.id_low
        slots = np.zeros(slots_for(high.size), np.uint64)
        index_keys(slots, high, low)
        found = np.empty(rows.size, np.int64)
        match_ids(rows, wanted, slots, high, low, found)
        labelled = int(np.count_nonzero(found >= 0))
        self.fates[LABELLED] += labelled
        self.fates[UNLABELLED] += len(candidates) - labelled
        departed = Departed(rows, confidence, outcome, candidates, found)
        names = {number: key for key, number in self._versions.items()}
        result = []
        for number in np.flatnonzero(np.bincount(version[wanted], minlength=1)).tolist():
            model, name = names[number]
            series, span_ms = SeriesKey(self._strata.models[model], name, ALL), self._span_ms[model]
            of_version = np.flatnonzero(wanted & (version == number))
            for start_ms, sample in closed_samples(departed, of_version, self._strata, span_ms, self._capacity[model]):
                result.append(SampledSpan(PaneKey(span_ms, start_ms, series), sample))
        return result

    def discard(self, dropped: Iterable[Bucket]) -> None:
        """Let go of buckets before their time."""
        self.fates[EVICTED] += len(self._remove(dropped))

    def expired_before_ms(self, clocks: Mapping[str, tuple[int, ModelPolicy]]) -> dict[tuple[str, int], int]:
        """(model, width of its spans) -> spans that start earlier are of no use any more."""
        result = {}
        for model, (clock_ms, policy) in clocks.items():
            span_ms = self._settings.span_of(policy)
            kept_from_ms = clock_ms - policy.retention_ms - self._settings.kept_ms
            result[model, span_ms] = kept_from_ms - kept_from_ms % span_ms
        return result

    def restore(self, batches: Iterable[CandidateBatch]) -> None:
        """Take up what was saved, after the names. What is of models that are sampled no more is passed over."""
        self._take_up_names()
        for batch in batches:
            candidates = Candidates.from_bytes(batch.rows)
            self._batches[batch.bucket] += 1
            if int(candidates.stratum.max(initial=-1)) >= self._version_of_stratum.size:
                raise DamagedStore(
                    f"the candidates of {batch.bucket.model} tell of names that were not saved; restore a backup of "
                    "the store, or remove it to read the log again from its beginning"
                )
            for _, cell, part in self._by_cell(candidates, np.full(len(candidates), batch.bucket.start_ms)):
                cell.saved.append(part)
                cell.count += len(part)
                if cell.count >= _OVERFULL * cell.capacity:
                    cell.settle()
        for cells in self._cells.values():
            for cell in cells.values():
                cell.settle()
        self._full = self._find_full()

    def _by_cell(
        self, candidates: Candidates, bucket_ms: NDArray[np.int64]
    ) -> Iterator[tuple[Bucket, _Cell, Candidates]]:
        """Candidates by their cells, which are made where there are none; without those that are sampled no more."""
        version = self._version_of_stratum[candidates.stratum]
        order = np.lexsort((bucket_ms, version))
        order = order[np.count_nonzero(version < 0) :]
        version, bucket_ms = version[order], bucket_ms[order]
        starts = (
            np.flatnonzero(np.r_[True, (np.diff(version) != 0) | (np.diff(bucket_ms) != 0)]) if order.size else order
        )
        cuts = [*starts.tolist(), order.size]
        names = {number: model for (model, _), number in self._versions.items()}
        for start, part in zip(starts.tolist(), candidates.take(order).slices(cuts), strict=True):
            number = int(version[start])
            model = names[number]
            bucket = Bucket(self._strata.models[model], int(bucket_ms[start]))
            cells = self._cells[bucket]
            if number not in cells:
                cells[number] = _Cell(self._candidates[model])
            yield bucket, cells[number], part

    def _remove(self, dropped: Iterable[Bucket]) -> Candidates:
        gone = []
        for bucket in dropped:
            for cell in self._cells.pop(bucket, {}).values():
                cell.settle()
                gone += [*cell.saved, *cell.unsaved]
            self._batches.pop(bucket, None)
            self._touched.discard(bucket)
        if gone:
            self._full = self._find_full()
        return Candidates.joined(gone)

    def _find_full(self) -> FullCells:
        self._new_thresholds = 0
        full = [
            (number, bucket.start_ms, cell.thresholds)
            for bucket, cells in self._cells.items()
            for number, cell in cells.items()
            if cell.thresholds.size
        ]
        version = np.array([number for number, _, _ in full], np.uint64)
        start_ms = np.array([start_ms for _, start_ms, _ in full], np.int64).astype(np.uint64)
        first = np.cumsum([0, *(each.size for _, _, each in full)], dtype=np.int64)
        slots = np.zeros(slots_for(len(full)), np.uint64)
        index_keys(slots, version, start_ms)
        return FullCells(
            slots, version, start_ms, first, np.concatenate([np.empty(0, np.uint64), *(t for _, _, t in full)])
        )

    def _take_up_names(self) -> None:
        known = self._version_of_stratum.size
        if known == self._strata.stratum_count:
            return
        names = self._strata.models
        for model in range(len(self._capacity), len(names)):
            policy = self._strata.policies[model]
            self._capacity.append(self._settings.capacity(names[model], policy))
            self._candidates.append(self._settings.candidates(names[model], policy))
            self._span_ms.append(self._settings.span_of(policy))
        self._widths_ms = np.array([bucket_width_ms(policy.retention_ms) for policy in self._strata.policies], np.int64)
        model_of = self._strata.models_of_strata()
        added = []
        for at, stratum in enumerate(self._strata.strata[known:], known):
            model = int(model_of[at])
            if self._capacity[model]:
                added.append(self._versions.setdefault((model, stratum.version), len(self._versions)))
            else:
                added.append(-1)
        self._version_of_stratum = np.concatenate([self._version_of_stratum, np.array(added, np.int32)])
