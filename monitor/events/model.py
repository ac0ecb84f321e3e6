"""The types of the events room: records, decoded columns, dead letters, series."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

UNVERSIONED: Final = "unversioned"
"""The version of events without one."""

ALL: Final = "all"
"""The segment of all predictions of a model. Declared segments are ``key=value``, so none can have this name."""

CLASS: Final = "class"
"""The segment key of the classes of a model of several; such a model cannot declare a segment of this name."""

OTHER: Final = "other"
"""The bucket for versions and segment values beyond their cap."""


class Kind(IntEnum):
    """The three types of event."""

    PREDICTION = 0
    OUTCOME = 1
    LABELLED = 2


class Reason(StrEnum):
    """Why an event became a dead letter. Label values of ``calibration_dead_letters_total``."""

    EMPTY = "empty"
    OVERSIZED = "oversized"
    INVALID_UTF8 = "invalid_utf8"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    UNKNOWN_TYPE = "unknown_type"
    MISSING_KEY = "missing_key"
    WRONG_TYPE = "wrong_type"
    INVALID_ID = "invalid_id"
    INVALID_MODEL = "invalid_model"
    INVALID_TIME = "invalid_time"
    TIME_OUT_OF_RANGE = "time_out_of_range"
    INVALID_PREDICTION = "invalid_prediction"
    INVALID_OUTCOME = "invalid_outcome"
    INVALID_VERSION = "invalid_version"
    INVALID_SEGMENTS = "invalid_segments"
    INVALID_FEATURES = "invalid_features"
    INVALID_CLOUDEVENT = "invalid_cloudevent"
    INVALID_FRAME = "invalid_frame"
    UNKNOWN_SCHEMA = "unknown_schema"
    UNDECODABLE = "undecodable"
    UNSUPPORTED_MULTICLASS = "unsupported_multiclass"
    REFUSED_MODEL = "refused_model"
    """A valid event of a model that is refused: only the first of each model is kept."""


Headers = Sequence[tuple[str, bytes | None]]
"""Headers of a message in their order; None is a header without a value, which Kafka allows."""


class Record(Protocol):
    """One message of the log. kafka-python's ConsumerRecord is one."""

    @property
    def offset(self) -> int:
        """Position in its topic partition."""
        ...

    @property
    def timestamp(self) -> int:
        """When it was written: milliseconds since the epoch, or -1 if unknown."""
        ...

    @property
    def key(self) -> bytes | None:
        """The message's key."""
        ...

    @property
    def value(self) -> bytes | None:
        """The message's bytes."""
        ...

    @property
    def headers(self) -> Headers:
        """The message's headers in their order."""
        ...


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class RecordBatch(NamedTuple):
    """Consecutive messages of one topic partition, in log order."""

    topic: str
    partition: int
    records: Sequence[Record]
    next_offset: int
    """The offset to read next: past the last record, and past markers without records."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to write: by `replay`, by POST /v1/events, by the simulator, or to the dead letters."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    """None: chosen by the key with Kafka's own hash, the same in both sources."""
    timestamp_ms: int | None = None
    """When it counts as written; None means now."""


class DeadLetter(NamedTuple):
    """A complete message that is not a valid event, with the reason."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    reason: Reason
    detail: str
    """One line with key, value, and what is allowed."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class SeriesKey(NamedTuple):
    """The key of a series: one line on a dashboard."""

    model: str
    version: str
    segment: str


class Stratum(NamedTuple):
    """Version and segments of predictions: one stratum per distinct combination."""

    model: str
    version: str
    segments: tuple[tuple[str, str], ...]
    """Declared (key, value) pairs, ascending by key."""

    def series(self) -> tuple[SeriesKey, ...]:
        """The series that a prediction of this stratum belongs to: the whole model's, then each segment's."""
        keys = [ALL, *(f"{key}={value}" for key, value in self.segments)]
        return tuple(SeriesKey(self.model, self.version, segment) for segment in keys)

    def class_series(self, classes: Sequence[str]) -> tuple[SeriesKey, ...]:
        """The series of each class against the rest, where the model has several."""
        return tuple(SeriesKey(self.model, self.version, f"{CLASS}={name}") for name in classes)


@dataclass(frozen=True, slots=True)
class ModelPolicy:
    """The declared settings of a model.

    Attributes
    ----------
    horizon_ms
        How long after a prediction its outcome still counts, in the events' own time. A cohort is mature once the
        model's watermark has passed its end by this much.
    lateness_ms
        How far out of order events may be in their log. State is kept for ``horizon_ms + lateness_ms``.
    implied_negative
        Whether a mature prediction without an outcome counts as a negative (no click, no fraud).
    segments
        Keys of ``segments`` that become series of their own; other keys are ignored.
    classes
        Names of the classes, by class; empty for a model of one probability, P(y = 1).
    sketch_features
        Number of Fourier features of the sketch of its vectors in each pane; 0 for no sketch.
    declared
        Whether the settings name the model: it is never refused, and takes no place under the cap on models.
    """

    horizon_ms: int
    lateness_ms: int
    implied_negative: bool = False
    segments: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    sketch_features: int = 0
    declared: bool = False

    @property
    def retention_ms(self) -> int:
        """How long the state of a prediction is kept, in the events' own time."""
        return self.horizon_ms + self.lateness_ms

    def wait_ms(self, awaits_outcomes: int) -> int:
        """How long after a prediction it is settled: where all events were labelled, the horizon does not count."""
        return self.lateness_ms + self.horizon_ms * awaits_outcomes


class ClassVectors(NamedTuple):
    """The predictions of a batch over several classes."""

    classes: NDArray[np.int32]
    """Shape (n,): number of classes of each event; 0 for an outcome, and for a single P(y = 1)."""
    probabilities: NDArray[np.float64]
    """Shape (sum of ``classes``,): the probabilities of all events, concatenated. Those of one event add up to 1."""


@dataclass(frozen=True, slots=True)
class EventColumns:
    """A decoded batch, column by column, in log order.

    Attributes
    ----------
    kind
        int8, shape (n,): values of :class:`Kind`.
    id_hash
        uint64, shape (n, 2): 128-bit hash of (model, id).
    time_ms
        int64, shape (n,): event time, milliseconds since the epoch.
    prediction
        float64, shape (n,): P(y = 1), or the largest of several classes' probabilities; nan for an outcome.
    outcome
        int16, shape (n,): 0 or 1, or the class that came true; -1 for a prediction.
    model
        int32, shape (n,): the model's id in the partition's :class:`~monitor.events.strata.Strata`, or -1 if the
        model is refused.
    stratum
        int32, shape (n,): the stratum's id there; -1 for an outcome or a refused model.
    vectors
        Predictions over several classes; None if there are none.
    """

    kind: NDArray[np.int8]
    id_hash: NDArray[np.uint64]
    time_ms: NDArray[np.int64]
    prediction: NDArray[np.float64]
    outcome: NDArray[np.int16]
    model: NDArray[np.int32]
    stratum: NDArray[np.int32]
    vectors: ClassVectors | None = None

    def __len__(self) -> int:
        return int(self.kind.shape[0])
