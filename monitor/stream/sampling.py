"""Samples of labelled events for refits: candidates while an outcome can come, closed samples afterwards.

Each accepted prediction of a sampled model belongs to a *cell*: its version, and its bucket of the journal. A cell
keeps the candidates that :mod:`monitor.store.bottom_sample_loops` chooses, saved beside the journal and dropped with
its bucket. Candidates that leave the join with an outcome go into the closed sample of their version and *span*, which
is in the store only.
"""

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.arrays import Ints, grouped
from monitor.errors import DamagedStore
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.events.strata import Strata
from monitor.store.base import Bucket, CandidateBatch, PaneKey, SampledSpan
from monitor.store.bottom_sample_loops import EDGES, thresholds
from monitor.store.candidates import CANDIDATE_ROW, Candidates, Lists, gather
from monitor.store.closed_samples import SCHEMA, ClosedSample
from monitor.stream import journal
from monitor.stream.join import Joined
from monitor.stream.journal import bucket_width_ms
from monitor.stream.journal_loops import BLOCK, NO_OUTCOME, PREDICTED, VECTOR, read_blocks, read_vectors
from monitor.stream.sampling_loops import FullCells, admit, confidence_strata, index_keys, match_ids
from monitor.stream.table_loops import slots_for

MAX_BATCHES: Final = 64
"""Once a bucket has this many batches in the store, they are replaced by one."""

_PRUNE_AT: Final = 1.5
"""A cell is pruned when it holds this many times its capacity, and before it is saved."""

_NEVER_WHOLE: Final = -(1 << 30)
"""In place of a number of batches: they are never replaced, which would remove or repeat candidates of others."""

_STALE_SHARE: Final = 8
"""The index of full cells is rebuilt once more than one in this many has new thresholds."""

_MAX_PENDING: Final = 100_000
_MAX_PENDING_FEATURES: Final = 1 << 22
"""This many candidates, and numbers in their features, wait to be assigned to their cells."""

# Results of a candidate when all of its bucket is settled.
LABELLED: Final = "labelled"
"""A prediction with an outcome that goes into the closed sample of its span, if that is not full."""
UNLABELLED: Final = "unlabelled"
EVICTED: Final = "evicted"
"""Its bucket was evicted early. Those with an outcome by then would bias the sample, so none of them is used."""

_OVERSAMPLING: Final = 2
"""A cell keeps at most this many times as many candidates as a span keeps events, as some get no outcome."""

_BUSY: Final = 4
"""A bucket that is narrower than its span keeps this many times its even share of the span's events ..."""
_MIN_SHARE: Final = 4
"""Part of these events that is kept at least: few buckets have to fill the span of a new version."""


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
    parts: list[Candidates] = field(default_factory=list)
    count: int = 0
    saved: int = 0
    """How many of them, the first ones, are in the store."""
    pruned: int = 0
    """Candidates left when it was last pruned; 0 before it was full."""
    thresholds: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    labelled: Counter[tuple[int, int]] = field(default_factory=Counter)
    """(start of the span, stratum of confidence) -> settled predictions with an outcome, candidates or not."""

    def add(self, part: Candidates) -> None:
        """Add candidates behind the others."""
        self.parts.append(part)
        self.count += len(part)

    def whole(self) -> Candidates:
        """All candidates; the cell has some."""
        # Kept in one part: there are many cells, and the objects of a part take more than its few rows.
        self.parts = [Candidates.joined(self.parts)]
        return self.parts[0]

    def prune(self) -> bool:
        """Remove candidates beyond the capacity; returns whether the thresholds changed."""
        if self.count < self.capacity or self.count == self.pruned:
            return False
        candidates = self.whole()
        kept = candidates.fewest(self.capacity)
        rows = candidates.rows[kept]
        self.thresholds = thresholds(rows["confidence"], rows["id_high"], self.capacity)
        if kept.size < self.count:
            kept.sort()
            self.parts, self.saved = [candidates.take(kept)], int(np.searchsorted(kept, self.saved))
        self.count = self.pruned = kept.size
        return True

    def settle(self, rows: NDArray[np.void], outcome: NDArray[np.int16]) -> None:
        """Note the outcomes of those predictions, in rows of the journal, that are candidates."""
        for part in self.parts:
            # An id may come again once its prediction has left the join, so the time is part of the key.
            high, low = (
                np.ascontiguousarray(part.rows["id_high"]),
                part.rows["id_low"] ^ part.rows["time_ms"].astype("u8"),
            )
            places = np.empty(rows.size, np.int64)
            match_ids(rows, np.zeros(slots_for(high.size), np.uint64), high, low, places)
            part.rows["outcome"][places[places >= 0]] = outcome[places >= 0]


@dataclass(slots=True)
class _Bucket:
    """The cells of a bucket of the journal."""

    cells: dict[int, _Cell] = field(default_factory=dict)
    """Cells by number of the version."""
    batches: int = 0
    """In the store, since the last one that replaced all."""
    touched: bool = False
    """Whether it may hold unsaved candidates."""


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
        # By model id: events of a span, candidates of a cell, and the widths of spans and buckets.
        self._capacity: list[int] = []
        self._candidates: list[int] = []
        self._span_ms = np.empty(0, np.int64)
        self._widths_ms = np.empty(0, np.int64)
        self._versions: dict[tuple[int, str], int] = {}
        """(model id, version) -> number of the version, ascending, of models that are sampled."""
        self._model_of_version: list[int] = []
        self._version_of_stratum = np.empty(0, np.int32)
        self._named = 0
        """How many of the interned strata are in these."""
        self._buckets: dict[int, dict[int, _Bucket]] = {}
        """Model id -> start -> bucket whose predictions are not all settled."""
        self._pending: list[Candidates] = []
        """Candidates that are not assigned to their cells yet."""
        self._full = self._index_full_cells()
        self._new_thresholds = 0
        """Cells that are full or gone, of which ``_full`` does not know that."""
        self.results: Counter[str] = Counter()
        """Result -> candidates of buckets of which all is settled or evicted."""
        self.nbytes = 0
        """Bytes of the candidates, as of the last time that they were saved or restored."""

    @property
    def candidates(self) -> int:
        """Candidates that are assigned to a cell."""
        return sum(cell.count for _, _, bucket in self._open() for cell in bucket.cells.values())

    def _open(self) -> Iterator[tuple[int, int, _Bucket]]:
        """Yield model id, start and bucket."""
        for model, buckets in self._buckets.items():
            for start_ms, bucket in buckets.items():
                yield model, start_ms, bucket

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
        of_candidates = np.empty(count, CANDIDATE_ROW)
        for name in ("id_high", "id_low", "time_ms", "stratum"):
            of_candidates[name] = rows[name][chosen]
        of_candidates["confidence"], of_candidates["outcome"] = confidence[chosen], NO_OUTCOME
        vectors = Lists.of([features[at] for at in joined.event[chosen].tolist()])
        self._pending.append(Candidates(of_candidates, _predictions(rows, chosen), vectors))
        numbers = sum(part.features.values.size for part in self._pending)
        if sum(map(len, self._pending)) > _MAX_PENDING or numbers > _MAX_PENDING_FEATURES:
            self.assign_pending()

    def assign_pending(self) -> None:
        """Assign the pending candidates to their cells."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        for bucket, cell, part in self._by_cell(Candidates.joined(pending)):
            cell.add(part)
            bucket.touched = True
            if cell.count >= _PRUNE_AT * cell.capacity:
                self._new_thresholds += cell.prune()
        if self._new_thresholds * _STALE_SHARE > self._full.version.size:
            self._full = self._index_full_cells()

    def unsaved(self) -> list[CandidateBatch]:
        """Candidates to be saved beside the journal; they count as saved then."""
        result, names = [], self._strata.models
        for model, start_ms, bucket in self._open():
            if not bucket.touched:
                continue
            bucket.touched = False
            for cell in bucket.cells.values():
                self._new_thresholds += cell.prune()
            if all(cell.saved == cell.count for cell in bucket.cells.values()):
                continue
            whole = bucket.batches >= MAX_BATCHES
            bucket.batches = 1 if whole else bucket.batches + 1
            parts: list[Candidates] = []
            for cell in bucket.cells.values():
                if cell.count:
                    parts += cell.whole().slices([0 if whole else cell.saved, cell.count])
                cell.saved = cell.count
            data = Candidates.joined(parts).to_bytes()
            result.append(CandidateBatch(Bucket(names[model], start_ms), data, whole))
        if self._new_thresholds:
            self._full = self._index_full_cells()
        self._note_size()
        return result

    def _note_size(self) -> None:
        cells = (cell for _, _, bucket in self._open() for cell in bucket.cells.values())
        self.nbytes = sum(part.nbytes for cell in cells for part in cell.parts)

    def settle(self, rows: NDArray[np.void]) -> None:
        """Note the outcomes of settled predictions, in rows of the journal."""
        if not self._versions:
            return
        outcome = labelled_outcomes(rows, self._strata)
        version = np.where(rows["entry"] == PREDICTED, self._version_of_stratum[rows["stratum"]], -1)
        labelled = np.flatnonzero((version >= 0) & (outcome != NO_OUTCOME))
        model = self._strata.models_of_strata()[rows["stratum"][labelled]]
        time_ms, confidence = rows["time_ms"][labelled], self._confidence(rows)[labelled]
        starts_ms = (time_ms - time_ms % width_ms[model] for width_ms in (self._widths_ms, self._span_ms))
        keys = version[labelled], *starts_ms, confidence
        order, cuts = grouped(*keys)
        columns = (key[order[cuts[:-1]]].tolist() for key in keys)
        groups = zip(*columns, pairwise(cuts), strict=True)
        for (number, start_ms), of_cell in itertools.groupby(groups, key=itemgetter(0, 1)):
            _, cell = self._cell(number, start_ms)
            places = []
            for *_, span_ms, stratum, (first, end) in of_cell:
                cell.labelled[span_ms, stratum] += end - first
                places.append(labelled[order[first:end]])
            of_rows = np.concatenate(places)
            cell.settle(rows[of_rows], outcome[of_rows])

    def complete(self, closed_to_ms: NDArray[np.int64]) -> list[SampledSpan]:
        """What buckets of which all predictions are settled add to the samples of their spans.

        Only then: of a bucket that is not complete, later candidates may still displace those that are settled.

        Parameters
        ----------
        closed_to_ms
            int64, shape (models,): the time before which predictions are closed.
        """
        labelled: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        parts: defaultdict[tuple[int, int], list[Candidates]] = defaultdict(list)
        for number, cell in self._take_complete(closed_to_ms):
            for (start_ms, confidence), count in cell.labelled.items():
                labelled[number, start_ms][confidence] += count
            if cell.count:
                cell.prune()
                candidates = cell.whole()
                answered = np.flatnonzero(candidates.rows["outcome"] != NO_OUTCOME)
                self.results[LABELLED] += answered.size
                self.results[UNLABELLED] += cell.count - answered.size
                time_ms = candidates.rows["time_ms"][answered]
                span_ms = time_ms - time_ms % self._span_ms[self._model_of_version[number]]
                order, cuts = grouped(span_ms)
                for start, part in zip(cuts, candidates.take(answered[order]).slices(cuts), strict=False):
                    parts[number, int(span_ms[order[start]])].append(part)
        return [self._sample(*of_span, dict(counts), parts[of_span]) for of_span, counts in sorted(labelled.items())]

    def forget(self, closed_to_ms: NDArray[np.int64]) -> None:
        """Forget the buckets that are complete: they are in closed samples."""
        for _ in self._take_complete(closed_to_ms):
            pass

    def discard(self, before_ms: NDArray[np.int64]) -> None:
        """Discard the candidates of buckets that begin before a time, shape (models,): they leave the join early."""
        for _, cell in self._take(before_ms - 1):
            cell.prune()
            self.results[EVICTED] += cell.count

    def _take_complete(self, closed_to_ms: NDArray[np.int64]) -> Iterator[tuple[int, _Cell]]:
        # A model of which only outcomes were read has no width yet, and no predictions.
        yield from self._take(closed_to_ms[: self._widths_ms.size] - self._widths_ms)

    def _take(self, newest_ms: NDArray[np.int64]) -> Iterator[tuple[int, _Cell]]:
        """Remove the buckets that begin by a time of their model; yields numbers of versions, and cells."""
        for model, buckets in self._buckets.items():
            for start_ms in sorted(start_ms for start_ms in buckets if start_ms <= newest_ms[model]):
                cells = buckets.pop(start_ms).cells
                self._new_thresholds += len(cells)
                yield from cells.items()

    def _confidence(self, rows: NDArray[np.void]) -> NDArray[np.int32]:
        confidence = np.empty(rows.size, np.int32)
        confidence_strata(rows, read_blocks(rows), self._edges, confidence)
        return confidence

    def _sample(
        self, number: int, start_ms: int, labelled: Mapping[int, int], parts: Sequence[Candidates]
    ) -> SampledSpan:
        model, version = tuple(self._versions)[number]
        capacity, width_ms = self._capacity[model], int(self._span_ms[model])
        key = PaneKey(width_ms, start_ms, SeriesKey(self._strata.models[model], version, ALL))
        if not parts:
            return SampledSpan(key, ClosedSample(capacity, labelled, SCHEMA.empty_table()))
        candidates = Candidates.joined(parts)
        # In the order of the hashes, and no more than its capacity, as a closed sample has to be.
        kept = candidates.take(candidates.fewest(capacity))
        used, place = np.unique(kept.rows["stratum"], return_inverse=True)
        names = pa.array([json.dumps(self._strata.strata[at].segments) for at in used.tolist()], pa.string())
        return SampledSpan(key, ClosedSample(capacity, labelled, kept.closed(names.take(pa.array(place, pa.int64())))))

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
        model_ids = {name: model for model, name in enumerate(self._strata.models)}
        for group in journal.gather(batches):
            parts = [Candidates.from_bytes(batch.rows) for batch in group]
            for (bucket, _, _), part in zip(group, parts, strict=True):
                if (part.rows["stratum"] >= self._version_of_stratum.size).any():
                    raise DamagedStore(
                        f"the candidates of {bucket.model} refer to names that were not saved; restore a backup of the "
                        "store, or remove it to read the log again from its beginning"
                    )
                if (model := model_ids.get(bucket.model)) is not None and self._capacity[model]:
                    self._bucket(model, bucket.start_ms).batches += 1
                    width_ms = int(self._widths_ms[model])
                    starts_ms = set((part.rows["time_ms"] // width_ms * width_ms).tolist())
                    if starts_ms != {bucket.start_ms}:  # the width was changed: the batches hold candidates of others
                        for start_ms in {bucket.start_ms} | starts_ms:
                            self._bucket(model, start_ms).batches = _NEVER_WHOLE
            for _, cell, part in self._by_cell(Candidates.joined(parts)):
                cell.add(part)
                cell.saved = cell.count
                if cell.count >= _PRUNE_AT * cell.capacity:
                    cell.prune()
        for _, _, open_bucket in self._open():
            for cell in open_bucket.cells.values():
                cell.prune()
        self._full = self._index_full_cells()
        self._note_size()

    def _bucket(self, model: int, start_ms: int) -> _Bucket:
        return self._buckets.setdefault(model, {}).setdefault(start_ms, _Bucket())

    def _cell(self, number: int, start_ms: int) -> tuple[_Bucket, _Cell]:
        """The cell of a version, and its bucket; made if they are missing."""
        model = self._model_of_version[number]
        bucket = self._bucket(model, start_ms)
        return bucket, bucket.cells.setdefault(number, _Cell(self._candidates[model]))

    def _by_cell(self, candidates: Candidates) -> Iterator[tuple[_Bucket, _Cell, Candidates]]:
        """Group candidates by cell. Skips models that are no longer sampled."""
        stratum, time_ms = candidates.rows["stratum"], candidates.rows["time_ms"]
        version = self._version_of_stratum[stratum]
        bucket_ms = time_ms - time_ms % self._widths_ms[self._strata.models_of_strata()[stratum]]
        sampled = np.flatnonzero(version >= 0)
        order, cuts = grouped(version[sampled], bucket_ms[sampled])
        order = sampled[order]
        for start, part in zip(cuts, candidates.take(order).slices(cuts), strict=False):
            yield *self._cell(int(version[order[start]]), int(bucket_ms[order[start]])), part

    def _index_full_cells(self) -> FullCells:
        self._new_thresholds = 0
        full = [
            (number, start_ms, cell.thresholds)
            for _, start_ms, bucket in self._open()
            for number, cell in bucket.cells.items()
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
        policies = self._strata.policies
        for name, policy in list(zip(names, policies, strict=True))[len(self._capacity) :]:
            self._capacity.append(self._settings.capacity(name, policy))
            self._candidates.append(self._settings.candidates(name, policy))
        self._widths_ms = np.array([bucket_width_ms(policy.retention_ms) for policy in policies], np.int64)
        self._span_ms = np.array([self._settings.span_width_ms(policy) for policy in policies], np.int64)
        model_of, strata = self._strata.models_of_strata(), self._strata.strata
        more = len(strata) - self._version_of_stratum.size
        self._version_of_stratum = np.append(self._version_of_stratum, np.full(more, -1, np.int32))
        for at in added:
            model = int(model_of[at])
            if self._capacity[model]:
                version = model, strata[at].version
                if version not in self._versions:
                    self._versions[version] = len(self._versions)
                    self._model_of_version.append(model)
                self._version_of_stratum[at] = self._versions[version]


def labelled_outcomes(rows: NDArray[np.void], strata: Strata) -> NDArray[np.int16]:
    """Return the outcome of each prediction: 0 or 1, or the class that came true, or NO_OUTCOME.

    If the model's policy says so, a binary prediction without an outcome is a negative.

    Parameters
    ----------
    rows
        Rows of the journal, of predictions that can no longer change.

    Returns
    -------
    int16, shape (rows,); undefined for VECTOR rows.
    """
    outcome = rows["outcome"].astype(np.int16)
    is_block = rows["entry"] == VECTOR
    implied = np.array([policy.implied_negative for policy in strata.policies], np.bool_)
    if implied.any():
        is_implied = implied[strata.models_of_strata()]
        outcome[(outcome == NO_OUTCOME) & ~is_block & is_implied[rows["stratum"]]] = 0
    main, first, blocks = read_vectors(rows)
    outcome[main] = blocks.label[first]
    return outcome


def _predictions(rows: NDArray[np.void], places: Ints) -> Lists:
    """[P(y = 1)], or the probabilities of all classes, of predictions among rows of the journal."""
    is_block, blocks = rows["entry"] == VECTOR, read_blocks(rows)
    values = np.concatenate([blocks.values.reshape(-1), rows["prediction"][places]])
    start, length = blocks.values.size + np.arange(places.size), np.ones(places.size, np.int32)
    has_vector = np.append(is_block[1:], False)[places]
    first = np.cumsum(is_block)[places[has_vector]]
    start[has_vector], length[has_vector] = first * BLOCK, blocks.classes[first]
    return Lists(length, gather(values, start, length))
