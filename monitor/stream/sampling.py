"""Samples of labelled events for refits: candidates while an outcome can come, closed samples afterwards.

Each accepted prediction of a sampled model belongs to a *cell*: its version, and its bucket of the journal. A cell
keeps the candidates that :mod:`monitor.store.bottom_sample_loops` chooses, saved beside the journal and dropped with
its bucket. Candidates that leave the join with an outcome go into the closed sample of their version and *span*, which
is in the store only.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import grouped
from monitor.errors import DamagedStore
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.events.strata import Strata
from monitor.store.base import Bucket, CandidateBatch, PaneKey, SampledSpan
from monitor.store.bottom_sample_loops import EDGES, thresholds
from monitor.stream.join import Joined
from monitor.stream.journal import bucket_width_ms, gather
from monitor.stream.journal_loops import NO_OUTCOME, PREDICTED, VECTOR, read_blocks
from monitor.stream.sample_candidates import NO_FEATURES, Candidates
from monitor.stream.sample_closing import Departed, closed_sample, labelled_outcomes
from monitor.stream.sampling_loops import FullCells, admit, confidence_strata, index_keys, match_ids
from monitor.stream.table_loops import slots_for

MAX_BATCHES: Final = 64
"""Once a bucket has this many batches in the store, they are replaced by one."""

_PRUNE_AT: Final = 1.5
"""A cell is pruned when it holds this many times its capacity, and before it is saved."""

_STALE_SHARE: Final = 8
"""The index of full cells is rebuilt once more than one in this many has new thresholds."""

_MAX_PENDING: Final = 100_000
_MAX_PENDING_FEATURES: Final = 1 << 22
"""This many candidates, and numbers in their features, wait to be assigned to their cells."""

# Results of a candidate when its bucket is dropped.
LABELLED: Final = "labelled"
"""It has an outcome and goes into the closed sample of its span, if it is not full."""
UNLABELLED: Final = "unlabelled"
EVICTED: Final = "evicted"
"""Its bucket was evicted early. Those with an outcome by then would bias the sample, so none of them is used."""

_OVERSAMPLING: Final = 2
"""A cell keeps at most this many times as many candidates as a span keeps events, as some get no outcome."""

_BUSY: Final = 4
"""A bucket that is narrower than its span keeps this many times its even share of the span's events ..."""
_MIN_SHARE: Final = 4
"""... and at least a quarter of them, because few buckets have to fill the span of a new version."""


@dataclass(frozen=True, slots=True)
class SampleSettings:
    """Sizes of samples. The default keeps none.

    Attributes
    ----------
    size
        Model -> about how many labelled events to keep of each version, in each partition, over ``kept_ms``; 0 for
        none. All spans of that time have the same share of it.
    span_ms
        Width of a span, at least 1. Each span has a sample of its own. A sixteenth of the longest window does well. If
        the buckets of a model's journal are wider, so are its spans.
    kept_ms
        How long a span is kept beyond horizon and lateness: the longest window, and how far back it can be asked for.
    """

    size: Callable[[str], int] = lambda _: 0
    span_ms: int = 3_600_000
    kept_ms: int = 86_400_000

    def span_width_ms(self, policy: ModelPolicy) -> int:
        """Width of a model's spans: a whole multiple of ``span_ms``, no narrower than its buckets."""
        return -(-bucket_width_ms(policy.retention_ms) // self.span_ms) * self.span_ms

    def capacity(self, model: str, policy: ModelPolicy) -> int:
        """How many labelled events a span of the model keeps; 0 for none."""
        size = self.size(model)
        return min(-(-size * self.span_width_ms(policy) // self.kept_ms), size)

    def candidates(self, model: str, policy: ModelPolicy) -> int:
        """How many predictions a bucket of the model keeps as candidates for its span."""
        capacity = self.capacity(model, policy)
        even = -(-capacity * bucket_width_ms(policy.retention_ms) // self.span_width_ms(policy))
        return min(_OVERSAMPLING * capacity, max(_BUSY * even, -(-capacity // _MIN_SHARE)))


@dataclass(slots=True)
class _Cell:
    """The candidates of one version and bucket, in order of arrival. May exceed its capacity until it is pruned."""

    capacity: int
    saved: list[Candidates] = field(default_factory=list)
    unsaved: list[Candidates] = field(default_factory=list)
    count: int = 0
    pruned: int = 0
    """Candidates left when it was last pruned; 0 before it was full."""
    thresholds: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))

    def prune(self) -> bool:
        """Remove candidates beyond the capacity; returns whether the thresholds changed."""
        if self.count < self.capacity or self.count == self.pruned:
            return False
        candidates = Candidates.joined([*self.saved, *self.unsaved])
        first_unsaved = sum(map(len, self.saved))
        kept = candidates.fewest(self.capacity)
        self.thresholds = thresholds(candidates.confidence[kept], candidates.id_high[kept], self.capacity)
        if kept.size < len(candidates):
            parts = kept[kept < first_unsaved], kept[kept >= first_unsaved]
            self.saved, self.unsaved = ([candidates.take(part)] if part.size else [] for part in parts)
        self.count = self.pruned = kept.size
        return True


@dataclass(slots=True)
class _Settled:
    """The settled predictions of a bucket that is not complete."""

    rows: list[NDArray[np.void]] = field(default_factory=list)
    """Those that are candidates, in rows of the journal. Later candidates may still displace them."""
    labelled: Counter[tuple[int, ...]] = field(default_factory=Counter)
    """(number of the version, start of the span, stratum of confidence) -> predictions with an outcome."""


class Sampler:
    """The candidates of a partition. Used from the pipeline's thread.

    Parameters
    ----------
    strata
        The names of the partition. It grows as names appear.
    settings
        Sizes of samples.
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
        self._named = 0
        """How many of the interned strata are in these."""
        self._cells: defaultdict[str, defaultdict[int, dict[int, _Cell]]] = defaultdict(lambda: defaultdict(dict))
        """Model -> start of a bucket -> number of a version -> cell."""
        self._settled: defaultdict[Bucket, _Settled] = defaultdict(_Settled)
        self._batches: Counter[Bucket] = Counter()
        self._touched: set[Bucket] = set()
        """Buckets that may hold unsaved candidates."""
        self._pending: list[tuple[Candidates, NDArray[np.int64]]] = []
        """Candidates that are not assigned to their cells yet, with the starts of their buckets."""
        self._full = self._index_full_cells()
        self._new_thresholds = 0
        """Cells whose thresholds changed since ``_full`` was built."""
        self.results: Counter[str] = Counter()
        """Result -> candidates whose bucket was dropped."""
        self.nbytes = 0
        """Bytes of the candidates, as of the last time that they were saved or restored."""

    @property
    def candidates(self) -> int:
        """Candidates that are assigned to a cell."""
        return sum(cell.count for cell in self._all_cells())

    def _all_cells(self) -> Iterator[_Cell]:
        for buckets in self._cells.values():
            for cells in buckets.values():
                yield from cells.values()

    def add(self, joined: Joined, features: Sequence[NDArray[np.float32] | None]) -> None:
        """Add the predictions of a batch; ``features`` are those of the events of the batch."""
        self._update_names()
        if not self._versions:
            return
        rows, confidence = joined.rows, self._confidence(joined.rows)
        chosen = np.empty(rows.size, np.int64)
        count = admit(rows, confidence, joined.model, self._version_of_stratum, self._widths_ms, self._full, chosen)
        if not count:
            return
        chosen = chosen[:count]
        taken, time_ms = rows[chosen], rows["time_ms"][chosen]
        vectors = [features[at] for at in joined.event[chosen].tolist()]
        lengths = [NO_FEATURES if vector is None else len(vector) for vector in vectors]
        candidates = Candidates(
            np.ascontiguousarray(taken["id_high"]),
            np.ascontiguousarray(taken["id_low"]),
            confidence[chosen],
            np.ascontiguousarray(taken["stratum"]),
            np.array(lengths, np.int32),
            # A copy, as the vectors are slices of a whole batch.
            np.concatenate([np.empty(0, np.float32), *(vector for vector in vectors if vector is not None)]),
        )
        self._pending.append((candidates, time_ms - time_ms % self._widths_ms[joined.model[chosen]]))
        pending = [part for part, _ in self._pending]
        if sum(map(len, pending)) > _MAX_PENDING or sum(part.features.size for part in pending) > _MAX_PENDING_FEATURES:
            self.assign_pending()

    def assign_pending(self) -> None:
        """Assign the pending candidates to their cells."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        candidates = Candidates.joined([part for part, _ in pending])
        for bucket, cell, part in self._by_cell(candidates, np.concatenate([bucket_ms for _, bucket_ms in pending])):
            cell.unsaved.append(part)
            cell.count += len(part)
            self._touched.add(bucket)
            if cell.count >= _PRUNE_AT * cell.capacity:
                self._new_thresholds += cell.prune()
        if self._new_thresholds * _STALE_SHARE > self._full.version.size:
            self._full = self._index_full_cells()

    def unsaved(self) -> list[CandidateBatch]:
        """Candidates to be saved beside the journal; they count as saved then."""
        result = []
        touched, self._touched = sorted(self._touched), set()
        for bucket in touched:
            cells = self._cells[bucket.model][bucket.start_ms].values()
            for cell in cells:
                self._new_thresholds += cell.prune()
            if not any(cell.unsaved for cell in cells):
                continue
            whole = self._batches[bucket] >= MAX_BATCHES
            self._batches[bucket] = 1 if whole else self._batches[bucket] + 1
            parts = []
            for cell in cells:
                new, cell.unsaved = cell.unsaved, []
                if new:
                    # In one part: there are many cells, and the objects of each part take more than its few rows.
                    cell.saved = [Candidates.joined([*cell.saved, *new])]
                parts += cell.saved if whole else new
            result.append(CandidateBatch(bucket, Candidates.joined(parts).to_bytes(), whole))
        if self._new_thresholds:
            self._full = self._index_full_cells()
        self._note_size()
        return result

    def _note_size(self) -> None:
        self.nbytes = sum(part.nbytes for cell in self._all_cells() for part in (*cell.saved, *cell.unsaved))

    def settle(self, rows: NDArray[np.void]) -> None:
        """Note settled predictions, in rows of the journal, until their bucket is complete."""
        is_sampled = rows["entry"] == PREDICTED
        is_sampled[is_sampled] = self._version_of_stratum[rows["stratum"][is_sampled]] >= 0
        if not is_sampled.any():
            return
        confidence = self._confidence(rows)
        outcome = labelled_outcomes(rows, self._strata)
        labelled = np.flatnonzero(is_sampled & (outcome != NO_OUTCOME))
        model = self._strata.models_of_strata()[rows["stratum"]]
        bucket_ms = rows["time_ms"] - rows["time_ms"] % self._widths_ms[model]
        names = self._strata.models
        span_ms = np.array(self._span_ms, np.int64)[model]
        version = self._version_of_stratum[rows["stratum"]]
        keys = model, bucket_ms, version, rows["time_ms"] - rows["time_ms"] % span_ms, confidence
        counted, counts = np.unique(np.stack([key[labelled] for key in keys]), axis=1, return_counts=True)
        for (at, start_ms, *key), count in zip(counted.T.tolist(), counts.tolist(), strict=True):
            self._settled[Bucket(names[at], start_ms)].labelled[tuple(key)] += count
        heads = np.flatnonzero(is_sampled)
        order, cuts = grouped(model[heads], bucket_ms[heads])
        buckets: list[Bucket] = []
        group = np.full(rows.size, -1)
        """Of each row that is a candidate, the place of its bucket."""
        for start, end in pairwise(cuts):
            places = heads[order[start:end]]
            bucket = Bucket(names[model[places[0]]], int(bucket_ms[places[0]]))
            found = _find(rows[places], np.ones(places.size, np.bool_), self._candidates_of(bucket))
            group[places[found >= 0]] = len(buckets)
            buckets.append(bucket)
        # The rows of probabilities behind a row belong to it.
        group = group[np.maximum.accumulate(np.where(rows["entry"] == VECTOR, 0, np.arange(rows.size)))]
        kept = np.flatnonzero(group >= 0)
        kept = kept[np.argsort(group[kept], kind="stable")]
        ends = np.searchsorted(group[kept], np.arange(len(buckets) + 1)).tolist()
        for bucket, start, end in zip(buckets, ends, ends[1:], strict=False):
            self._settled[bucket].rows.append(rows[kept[start:end]])

    def complete(self, closed_to_ms: NDArray[np.int64]) -> list[SampledSpan]:
        """What buckets of which all predictions are settled add to the samples of their spans.

        Parameters
        ----------
        closed_to_ms
            int64, shape (models,): the time before which predictions are closed.
        """
        rows: list[NDArray[np.void]] = []
        candidates: list[Candidates] = []
        candidate_of: list[NDArray[np.int64]] = []
        labelled: Counter[tuple[int, ...]] = Counter()
        first = 0
        for bucket, settled in self._take_complete(closed_to_ms):
            of_bucket, of_rows = self._candidates_of(bucket), np.concatenate(settled.rows)
            outcome = labelled_outcomes(of_rows, self._strata)
            found = _find(of_rows, (of_rows["entry"] == PREDICTED) & (outcome != NO_OUTCOME), of_bucket)
            count = int(np.count_nonzero(found >= 0))
            self.results[LABELLED] += count
            self.results[UNLABELLED] += len(of_bucket) - count
            labelled.update(settled.labelled)
            rows.append(of_rows)
            candidates.append(of_bucket)
            candidate_of.append(np.where(found < 0, -1, found + first))
            first += len(of_bucket)
        if not rows:
            return []
        whole = np.concatenate(rows)
        return list(
            self._samples(
                Departed(
                    whole,
                    self._confidence(whole),
                    labelled_outcomes(whole, self._strata),
                    Candidates.joined(candidates),
                    np.concatenate(candidate_of),
                ),
                labelled,
            )
        )

    def forget(self, closed_to_ms: NDArray[np.int64]) -> None:
        """Forget the buckets that are complete: they are in closed samples."""
        for _ in self._take_complete(closed_to_ms):
            pass

    def discard(self, before_ms: NDArray[np.int64]) -> None:
        """Discard the candidates of buckets that begin before a time, shape (models,): they leave the join early."""
        for model, at_ms in zip(self._strata.models, before_ms.tolist(), strict=True):
            for start_ms in [start_ms for start_ms in self._cells[model] if start_ms < at_ms]:
                bucket = Bucket(model, start_ms)
                self.results[EVICTED] += len(self._candidates_of(bucket))
                self.drop([bucket])
            for bucket in [bucket for bucket in self._settled if bucket.model == model and bucket.start_ms < at_ms]:
                del self._settled[bucket]

    def drop(self, buckets: Iterable[Bucket]) -> None:
        """Forget the candidates of buckets whose predictions have all left the join."""
        removed = False
        for bucket in buckets:
            removed |= self._cells[bucket.model].pop(bucket.start_ms, None) is not None
            self._batches.pop(bucket, None)
            self._touched.discard(bucket)
        if removed:
            self._full = self._index_full_cells()

    def _take_complete(self, closed_to_ms: NDArray[np.int64]) -> Iterator[tuple[Bucket, _Settled]]:
        """Remove and yield what is settled of buckets that end by then."""
        # A model of which only outcomes were read has no width yet, and no predictions.
        ends_ms = closed_to_ms[: self._widths_ms.size] - self._widths_ms
        end_of = dict(zip(self._strata.models, ends_ms.tolist(), strict=False))
        for bucket in sorted(bucket for bucket in self._settled if bucket.start_ms <= end_of[bucket.model]):
            yield bucket, self._settled.pop(bucket)

    def _candidates_of(self, bucket: Bucket) -> Candidates:
        """The candidates of a bucket; also of those that overlap it, where the width of buckets has changed."""
        width_ms = int(self._widths_ms[self._strata.model(bucket.model)])
        found = []
        for start_ms, cells in self._cells[bucket.model].items():
            if abs(start_ms - bucket.start_ms) < width_ms:
                for cell in cells.values():
                    self._new_thresholds += cell.prune()
                    found += [*cell.saved, *cell.unsaved]
        return Candidates.joined(found)

    def _confidence(self, rows: NDArray[np.void]) -> NDArray[np.int32]:
        confidence = np.empty(rows.size, np.int32)
        confidence_strata(rows, read_blocks(rows), self._edges, confidence)
        return confidence

    def _samples(self, departed: Departed, labelled: Mapping[tuple[int, ...], int]) -> Iterator[SampledSpan]:
        of_spans: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        for (version, start_ms, confidence), count in labelled.items():
            of_spans[version, start_ms][confidence] = count
        versions = {number: key for key, number in self._versions.items()}
        models = self._strata.models
        sampled = np.flatnonzero(departed.candidate_of >= 0)
        version_of = self._version_of_stratum[departed.rows["stratum"][sampled]]
        order = np.lexsort((departed.rows["time_ms"][sampled], version_of))
        sampled, version_of = sampled[order], version_of[order]
        time_ms = departed.rows["time_ms"][sampled]
        for (version, start_ms), counts in sorted(of_spans.items()):
            model, name = versions[version]
            span = PaneKey(self._span_ms[model], start_ms, SeriesKey(models[model], name, ALL))
            first, end = np.searchsorted(version_of, (version, version + 1)).tolist()
            times_ms = start_ms, start_ms + span.slide_ms
            in_span = np.sort(sampled[slice(*(first + np.searchsorted(time_ms[first:end], times_ms)).tolist())])
            yield SampledSpan(span, closed_sample(departed, in_span, self._strata, self._capacity[model], counts))

    def expired_before_ms(self, watermarks_ms: NDArray[np.int64]) -> dict[tuple[str, int], int]:
        """(model, width of its spans) -> start of the oldest spans that are still needed.

        Parameters
        ----------
        watermarks_ms
            int64, shape (models,): newest event time of each model.
        """
        result = {}
        models, policies = self._strata.models, self._strata.policies
        for model, policy, newest_ms in zip(models, policies, watermarks_ms.tolist(), strict=True):
            span_ms = self._settings.span_width_ms(policy)
            kept_from_ms = newest_ms - policy.retention_ms - self._settings.kept_ms
            result[model, span_ms] = kept_from_ms - kept_from_ms % span_ms
        return result

    def restore(self, batches: Iterable[CandidateBatch]) -> None:
        """Restore saved candidates, after the names. Skips models that are no longer sampled."""
        self._update_names()
        for group in gather(batches):
            parts = [Candidates.from_bytes(batch.rows) for batch in group]
            candidates = Candidates.joined(parts)
            self._batches.update(batch.bucket for batch in group)
            of_batch = np.repeat(np.arange(len(group)), [len(part) for part in parts])
            is_unknown = candidates.stratum >= self._version_of_stratum.size
            if is_unknown.any():
                bucket = group[of_batch[is_unknown.argmax()]].bucket
                raise DamagedStore(
                    f"the candidates of {bucket.model} refer to names that were not saved; restore a backup of the "
                    "store, or remove it to read the log again from its beginning"
                )
            start_ms = np.array([batch.bucket.start_ms for batch in group])[of_batch]
            for _, cell, part in self._by_cell(candidates, start_ms):
                cell.saved.append(part)
                cell.count += len(part)
                if cell.count >= _PRUNE_AT * cell.capacity:
                    cell.prune()
        for cell in self._all_cells():
            cell.prune()
        self._full = self._index_full_cells()
        self._note_size()

    def _by_cell(
        self, candidates: Candidates, bucket_ms: NDArray[np.int64]
    ) -> Iterator[tuple[Bucket, _Cell, Candidates]]:
        """Group candidates by cell, and make missing cells. Skips models that are no longer sampled."""
        version = self._version_of_stratum[candidates.stratum]
        sampled = np.flatnonzero(version >= 0)
        order, cuts = grouped(version[sampled], bucket_ms[sampled])
        order = sampled[order]
        models = {number: model for (model, _), number in self._versions.items()}
        for start, part in zip(cuts, candidates.take(order).slices(cuts), strict=False):
            number = int(version[order[start]])
            model = models[number]
            bucket = Bucket(self._strata.models[model], int(bucket_ms[order[start]]))
            cells = self._cells[bucket.model][bucket.start_ms]
            if number not in cells:
                cells[number] = _Cell(self._candidates[model])
            yield bucket, cells[number], part

    def _index_full_cells(self) -> FullCells:
        self._new_thresholds = 0
        full = [
            (number, start_ms, cell.thresholds)
            for buckets in self._cells.values()
            for start_ms, cells in buckets.items()
            for number, cell in cells.items()
            if cell.thresholds.size
        ]
        version = np.array([number for number, _, _ in full], np.uint64)
        start_ms = np.array([start_ms for _, start_ms, _ in full], np.int64).astype(np.uint64)
        first = np.cumsum([0, *(part.size for _, _, part in full)], dtype=np.int64)
        slots = np.zeros(slots_for(len(full)), np.uint64)
        index_keys(slots, version, start_ms)
        limits = np.concatenate([np.empty(0, np.uint64), *(part for _, _, part in full)])
        return FullCells(slots, version, start_ms, first, limits)

    def _update_names(self) -> None:
        interned = self._strata.interned
        if len(interned) == self._named:
            return
        added, self._named = interned[self._named :], len(interned)
        names = self._strata.models
        for model in range(len(self._capacity), len(names)):
            policy = self._strata.policies[model]
            self._capacity.append(self._settings.capacity(names[model], policy))
            self._candidates.append(self._settings.candidates(names[model], policy))
            self._span_ms.append(self._settings.span_width_ms(policy))
        self._widths_ms = np.array([bucket_width_ms(policy.retention_ms) for policy in self._strata.policies], np.int64)
        model_of, strata = self._strata.models_of_strata(), self._strata.strata
        more = len(strata) - self._version_of_stratum.size
        self._version_of_stratum = np.append(self._version_of_stratum, np.full(more, -1, np.int32))
        for at in added:
            model = int(model_of[at])
            if self._capacity[model]:
                version = model, strata[at].version
                self._version_of_stratum[at] = self._versions.setdefault(version, len(self._versions))


def _find(rows: NDArray[np.void], wanted: NDArray[np.bool_], candidates: Candidates) -> NDArray[np.int64]:
    """The place of each of these rows among the candidates, or -1."""
    slots = np.zeros(slots_for(len(candidates)), np.uint64)
    index_keys(slots, candidates.id_high, candidates.id_low)
    candidate_of = np.empty(rows.size, np.int64)
    match_ids(rows, wanted, slots, candidates.id_high, candidates.id_low, candidate_of)
    return candidate_of
