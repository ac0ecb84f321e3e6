"""Raw messages to columns, and every malformed one to the dead letters with a reason.

The fast path of a format decodes each message straight into an :class:`~monitor.events.wire.Event`; the columns are
checked as a whole. Messages that fail either go, one by one, to the format's ``examine``, which defines what is valid:
it returns the event in its plainest form, or raises with a reason. So a clean batch is fast and a dirty one is right,
and no message changes the result of another.

Accepted forms of an event, beyond the plain one:

- ``id`` and ``version`` may be integers: they are the same as their decimal texts.
- ``y`` may be true, false, 0.0 or 1.0, and a class 2.0; ``ts`` may be a whole number written with a fraction or an
  exponent.
- ``p`` may be [P(y = 0), P(y = 1)] where the model is declared to have no classes.
- a null stands for an absent key where the key is optional.
- of duplicate keys the last one counts; unknown keys are ignored.
"""

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, repeat
from typing import Final, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from monitor.arrays import Bools, Ints
from monitor.events import fields as read
from monitor.events.features import read_feature_column, read_features
from monitor.events.fields import Rejected
from monitor.events.formats import load_formats
from monitor.events.formats.base import Format, Messages, Rules, kind_by_keys
from monitor.events.model import ClassVectors, DeadLetter, EventColumns, Kind, Reason, Record, RecordBatch
from monitor.events.strata import REFUSED, Name, Names, Strata
from monitor.events.times import EARLIEST_MS, parse_time
from monitor.events.wire import ABSENT, Event
from monitor.scores.class_table import SUM_TOLERANCE
from monitor.scores.probability_loops import normalise

Features = NDArray[np.float32]

_Claim = tuple[Format, Collection[int]]
"""A format, and the rows of the messages in it."""

_MAX_NAMES: Final = 65_536
"""Combinations of model, version and segments that are cached for a partition."""

_KINDS: Final[dict[str | None, int]] = {word: int(kind) for word, kind in read.TYPES.items()}
_NO_KIND: Final = -1

_USUAL_TIME: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""Texts that Arrow reads as this service does, as long as there is such a day and time; others are read one by one."""
_FILLER_TIME: Final = "2000-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded batch: every record is a row of the columns, a dead letter, or a tombstone that is ignored.

    Of a topic whose messages hold several events, so is every event.

    Attributes
    ----------
    columns
        The valid events in log order; events of a refused model have model -1.
    dead_letters
        The others, in log order.
    features
        float32 arrays, aligned with the columns; None where an event has none. They are slices of one array: copy
        those that are kept longer than the batch.
    tombstones
        How many records without a value were ignored.
    refused_models
        The first event of each refused model, with the reason.
    folds
        int32, aligned with the columns: fold id of each event; None where no name is ``other`` for lack of a place.
    """

    columns: EventColumns
    dead_letters: list[DeadLetter]
    features: Sequence[Features | None]
    tombstones: int = 0
    refused_models: Sequence[DeadLetter] = ()
    folds: NDArray[np.int32] | None = None

    @property
    def refused(self) -> int:
        """How many events are of a model that is not declared, or beyond the cap."""
        return int(np.count_nonzero(self.columns.model == REFUSED))


class Decoder:
    """Decodes batches. One decoder serves any number of partitions, one after the other.

    Parameters
    ----------
    rules
        The limits of an event.
    formats
        Topic -> the format of its messages. Those of the other topics are JSON, or what shows that it is not.
    ignore_tombstones
        Topics whose records without a value are ignored. On the others they are dead letters.
    """

    def __init__(
        self,
        rules: Rules | None = None,
        formats: Mapping[str, Format] | None = None,
        ignore_tombstones: Collection[str] = (),
    ) -> None:
        self._rules = rules or Rules()
        self._ignore_tombstones = ignore_tombstones
        self._formats = formats or {}
        self._default, *self._others = load_formats()
        self._names: WeakKeyDictionary[Strata, Names] = WeakKeyDictionary()

    def decode(self, batch: RecordBatch, strata: Strata, default_kind: Kind | None) -> Decoded:
        """Decode a batch. An empty batch only loads the compiled loops.

        Parameters
        ----------
        batch
            Consecutive messages of one topic partition.
        strata
            The partition's names; new ones are interned in log order.
        default_kind
            The type of events without one; None if every event must have its own.

        Raises
        ------
        SchemaUnavailable
            The schema of a message cannot be had now. Nothing was decoded or interned: decode the batch again later.
        """
        tombstones = 0
        if batch.topic in self._ignore_tombstones:
            tombstones = sum(record.value is None for record in batch.records)
            batch = batch._replace(records=[record for record in batch.records if record.value is not None])
        records, events, claims = self._decode_each(batch)
        dead: dict[int, DeadLetter] = {}
        features: dict[int, Features] = {}

        def examine(rows: Iterable[int]) -> None:
            for row in rows:
                form = next((form for form, claimed in claims if row in claimed), self._default)
                try:
                    event = form.examine(records[row], self._rules, default_kind)
                    array = None if event.features is ABSENT else read_features(event.features)
                except Rejected as rejected:
                    events[row] = None
                    dead[row] = _dead_letter(batch, records[row], rejected.reason, rejected.detail)
                    continue
                if array is not None:
                    features[row] = array
                event.features = ABSENT
                events[row] = event

        examine([row for row, event in enumerate(events) if event is None])
        rows, kept = _kept(events, dead)
        draft = self._draft(kept, records, rows, default_kind)
        self._read_features(kept, rows, draft, features)
        if not draft.good.all():
            examine(list(compress(rows, ~draft.good)))
            rows, kept = _kept(events, dead)
            draft = self._draft(kept, records, rows, default_kind)

        names = self._names.get(strata)
        if names is None:
            names = self._names[strata] = Names(strata, _MAX_NAMES)
        interned, misnamed = names.intern(kept, draft.kind)
        if misnamed:
            for at, (reason, detail) in misnamed.items():
                events[rows[at]] = None
                dead[rows[at]] = _dead_letter(batch, records[rows[at]], reason, detail)
            interned = [name for at, name in enumerate(interned) if at not in misnamed]
            rows, kept = _kept(events, dead)
            draft = self._draft(kept, records, rows, default_kind)
        columns = _columns(draft, kept, interned)
        refused = {kept[at].model: at for at in np.flatnonzero(columns.model == REFUSED)[::-1].tolist()}
        return Decoded(
            columns=columns,
            dead_letters=[dead[row] for row in sorted(dead)],
            features=[features.get(row) for row in rows] if features else (None,) * len(rows),
            tombstones=tombstones,
            refused_models=[
                _dead_letter(batch, records[rows[at]], Reason.REFUSED_MODEL, strata.refusal(model))
                for model, at in sorted(refused.items(), key=lambda item: item[1])
            ],
            folds=np.array([name.fold for name in interned], np.int32) if len(strata.folds) > 1 else None,
        )

    def _decode_each(self, batch: RecordBatch) -> tuple[Sequence[Record], list[Event | None], list[_Claim]]:
        """Decode each message by its format; also the records of the events, and those not in the default format."""
        records = batch.records
        messages = Messages.of(records, self._rules.max_bytes)
        declared = self._formats.get(batch.topic)
        if declared is not None:
            if declared.read_rows is None:
                return records, declared.decode(messages), [(declared, range(len(records)))]
            read = declared.read_rows(messages)
            return *read, [(declared, range(len(read[0])))]
        claims: list[_Claim] = [
            (form, rows) for form in self._others if form.matches is not None and (rows := form.matches(messages))
        ]
        if not claims:
            return records, self._default.decode(messages), claims
        if len(claims[0][1]) == len(records):
            return records, claims[0][0].decode(messages), claims
        events: list[Event | None] = [None] * len(records)
        left = set(range(len(records)))
        for form, claimed in (*claims, (self._default, range(len(records)))):
            rows = left.intersection(claimed)
            left -= rows
            for row, event in zip(rows, form.decode(messages.at(rows)), strict=True):
                events[row] = event
        return records, events, claims

    @staticmethod
    def _read_features(
        events: Sequence[Event], rows: Sequence[int], draft: "_Draft", features: dict[int, Features]
    ) -> None:
        """Read the features of the good events; an event with unreadable ones is no longer good."""
        readable = (draft.good & (draft.kind != Kind.OUTCOME)).tolist()
        places = [at for at, event in enumerate(events) if event.features is not ABSENT and readable[at]]
        if not places:
            return
        column = read_feature_column([events[at].features for at in places])
        if column is None:
            column = []
            for at in places:
                try:
                    column.append(read_features(events[at].features))
                except Rejected:
                    column.append(None)
                    draft.good[at] = False
        features.update((rows[at], array) for at, array in zip(places, column, strict=True) if array is not None)

    def _draft(
        self, events: Sequence[Event], records: Sequence[Record], rows: Sequence[int], default_kind: Kind | None
    ) -> "_Draft":
        """The columns that do not depend on names, and which of the events are good so far."""
        count = len(events)
        kinds = _KINDS | {None: _NO_KIND if default_kind is None else int(default_kind)}
        kind = np.fromiter([kinds[event.type] for event in events], np.int8, count)
        if self._rules.kind_by_keys:
            for at in np.flatnonzero(kind == _NO_KIND).tolist():
                by_keys = kind_by_keys(has_prediction=events[at].p is not None, has_outcome=events[at].y is not None)
                kind[at] = _NO_KIND if by_keys is None else by_keys
        time_ms, good = _times([event.ts for event in events])
        good &= kind != _NO_KIND
        good &= time_ms >= EARLIEST_MS
        good &= self._is_timely(time_ms, [records[row].timestamp for row in rows])

        classes = None
        if self._rules.classes:
            models = [event.model for event in events]
            classes = np.fromiter(map(self._rules.classes.get, models, repeat(0)), np.int32, count)
        is_outcome = kind == Kind.OUTCOME
        if is_outcome.all():
            predictions = DecodedPredictions(np.full(count, np.nan), None)
        else:
            predictions = read_predictions([event.p for event in events], is_outcome, classes)
            good &= is_outcome | ~np.isnan(predictions.value)

        is_prediction = kind == Kind.PREDICTION
        if is_prediction.all():
            outcome = np.full(count, -1, np.int16)
        else:
            outcome = read_labels([event.y for event in events], classes)
            good &= is_prediction | (outcome >= 0)
            outcome[is_prediction] = -1
        return _Draft(kind, time_ms, predictions, outcome, good)

    def _is_timely(self, time_ms: NDArray[np.int64], written_ms: Sequence[int]) -> NDArray[np.bool_]:
        """Which times are not too far ahead of when their messages were written."""
        first_ms = min(written_ms, default=0)
        latest_ms = self._rules.latest_ms
        timely = time_ms <= latest_ms(first_ms)
        if first_ms < 0 or not timely.all():
            timely = time_ms <= np.array([latest_ms(at_ms) for at_ms in written_ms], np.int64)
        return timely


class _Draft(NamedTuple):
    """Columns before names; ``good`` is bool, shape (n,)."""

    kind: NDArray[np.int8]
    time_ms: NDArray[np.int64]
    predictions: "DecodedPredictions"
    outcome: NDArray[np.int16]
    good: NDArray[np.bool_]


def _kept(events: list[Event | None], dead: Collection[int]) -> tuple[Sequence[int], list[Event]]:
    """The rows that hold an event, and their events."""
    rows = [row for row in range(len(events)) if row not in dead] if dead else range(len(events))
    return rows, [event for event in events if event is not None]


def _times(stamps: Sequence[str | int | None]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Event times, and which of them are readable."""
    try:
        # Unlike numpy, array() does not convert texts to numbers.
        time_ms = np.frombuffer(array("q", cast("Sequence[int]", stamps)), np.int64)
    except TypeError:
        pass
    else:
        return time_ms, np.ones(len(stamps), np.bool_)
    try:
        return parse_times(cast("Sequence[str]", stamps))
    except TypeError:
        pass  # some are numbers
    time_ms, good = parse_times([stamp if isinstance(stamp, str) else "" for stamp in stamps])
    for row, stamp in enumerate(stamps):
        if isinstance(stamp, int):
            time_ms[row] = stamp
            good[row] = True
    return time_ms, good


def _columns(draft: _Draft, events: Sequence[Event], names: Sequence[Name]) -> EventColumns:
    ids = [event.id for event in events]
    # Not zip(*names), which makes one iterator per name.
    seeds = [name.seed for name in names]
    try:
        encoded = list(map(str.encode, cast("list[str]", ids)))
    except TypeError:
        encoded = [str(identifier).encode() for identifier in ids]
    digests = b"".join(map(xxhash.xxh3_128_digest, encoded, seeds))
    return EventColumns(
        kind=draft.kind,
        # A copy: compiled code has another signature for read-only arrays.
        id_hash=np.frombuffer(digests, ">u8").reshape(-1, 2).astype(np.uint64),
        time_ms=draft.time_ms,
        prediction=draft.predictions.value,
        outcome=draft.outcome,
        model=np.fromiter([name.model for name in names], np.int32, len(names)),
        stratum=np.fromiter([name.stratum for name in names], np.int32, len(names)),
        vectors=draft.predictions.vectors,
    )


def _dead_letter(batch: RecordBatch, record: Record, reason: Reason, detail: str) -> DeadLetter:
    return DeadLetter(
        topic=batch.topic,
        partition=batch.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        reason=reason,
        detail=detail,
        key=record.key,
        value=record.value,
        headers=tuple((name, value) for name, value in record.headers),
    )


_OF_TWO: Final = 2


class DecodedPredictions(NamedTuple):
    """The predictions of a batch."""

    value: NDArray[np.float64]
    """Shape (n,): P(y = 1), or the largest of several; nan where there is no valid one."""
    vectors: ClassVectors | None
    """Predictions of several classes; None if there are none."""


def read_predictions(
    written: Sequence[float | list[float] | None], is_outcome: NDArray[np.bool_], classes: NDArray[np.int32] | None
) -> DecodedPredictions:
    """Columns of the ``p`` of events.

    Parameters
    ----------
    written
        The value of each event's ``p``, in [0, 1]; ignored for outcomes.
    is_outcome
        bool, shape (n,).
    classes
        int32, shape (n,): declared number of classes of each event's model, 0 for a model of one probability; None if
        no model has several. For a model of one probability, a list of two means the second.
    """
    try:
        # None becomes nan. Numbers and lists side by side are refused; lists alone, all of one length, are not.
        value = np.array(written, np.float64)
    except ValueError:
        value = np.empty((0, 0))
    if value.ndim == 1:
        value += 0.0  # 0.0 for -0.0
        value[is_outcome] = np.nan
        if classes is not None:
            value[classes > 0] = np.nan
        return DecodedPredictions(value, None)
    return _read_lists(written, is_outcome, np.zeros(len(written), np.int32) if classes is None else classes)


def read_labels(written: Sequence[float | None], classes: NDArray[np.int32] | None) -> NDArray[np.int16]:
    """Column of the ``y`` of events, int16, shape (n,): 0 or 1, or a class; -1 if not valid.

    Parameters
    ----------
    written
        The value of each event's ``y``.
    classes
        As of :func:`read_predictions`.
    """
    label = np.array(written, np.float64)  # None becomes nan
    if classes is None:
        good = (label == 0) | (label == 1)
    else:
        of_several = classes > 0
        good = (label == np.floor(label)) & (label >= 0) & (label < np.where(of_several, classes, _OF_TWO))
        for row in np.flatnonzero(good & of_several).tolist():
            good[row] = not isinstance(written[row], bool)
    return np.where(good, label, -1).astype(np.int16)


def _read_lists(
    written: Sequence[float | list[float] | None], is_outcome: NDArray[np.bool_], declared: NDArray[np.int32]
) -> DecodedPredictions:
    value = np.array([np.nan if isinstance(p, list) else p for p in written], np.float64) + 0.0
    value[is_outcome | (declared > 0)] = np.nan
    lists = [p if isinstance(p, list) else () for p in written]
    length = np.fromiter(map(len, lists), np.int64, len(lists))
    flat = np.fromiter(chain.from_iterable(lists), np.float64, int(length.sum())) + 0.0
    largest = np.empty(len(lists))
    normalise(flat, length, SUM_TOLERANCE, largest)
    adds_up = ~is_outcome & ~np.isnan(largest)
    of_two = adds_up & (declared == 0) & (length == _OF_TWO)
    value[of_two] = flat[np.cumsum(length)[of_two] - 1]
    of_several = adds_up & (declared > 0) & (length == declared)
    if not of_several.any():
        return DecodedPredictions(value, None)
    value[of_several] = largest[of_several]
    vectors = ClassVectors(np.where(of_several, length, 0).astype(np.int32), flat[np.repeat(of_several, length)])
    return DecodedPredictions(value, vectors)


def parse_times(texts: Sequence[str]) -> tuple[Ints, Bools]:
    """Milliseconds since the epoch, (n,), floored, 0 where a text is no time; and which texts are times, (n,).

    Raises
    ------
    TypeError
        One of them is not a text.
    """
    column = pa.array(texts, pa.string())
    usual = pc.match_substring_regex(column, _USUAL_TIME)
    good = usual.to_numpy(zero_copy_only=False)
    try:
        # Nanoseconds hold the digits beyond the third, which are then cut off.
        moments = pc.if_else(usual, column, _FILLER_TIME).cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
        time_ms = np.where(good, moments.to_numpy() // 1_000_000, 0)
    except pa.ArrowInvalid:
        # One of them names a day or time that does not exist, or one that nanoseconds do not reach.
        good, time_ms = np.zeros(len(texts), np.bool_), np.zeros(len(texts), np.int64)
    for row in np.flatnonzero(~good).tolist():
        try:
            time_ms[row] = parse_time(texts[row])
        except ValueError:
            continue
        good[row] = True
    return time_ms, good
