"""Values that the recalibration store holds: refits, maps, champions and audit entries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from monitor.scores.labelled import LabelledEvents


class JobState(StrEnum):
    """State of a refit. A running refit goes back into the queue if its worker is lost."""

    QUEUED = "queued"
    RUNNING = "running"
    FAILED = "failed"
    """There is no map; ``reason`` says why."""
    REJECTED = "rejected"
    """There is a map, but it is not better; ``reason`` says why. It is never promoted."""
    CANDIDATE = "candidate"
    """There is a map that passed the guard. It may be promoted while the map that it was compared with still serves."""
    CHAMPION = "champion"
    """Its map serves."""
    RETIRED = "retired"
    """Its map served until another one replaced it."""
    ROLLED_BACK = "rolled_back"
    """Its map served until it was rolled back."""


UNDER_WAY = (JobState.QUEUED, JobState.RUNNING)
"""A model has at most one refit in these states: the store refuses a second one."""


@dataclass(frozen=True, slots=True)
class RefitRequest:
    """A request for a refit.

    Attributes
    ----------
    model, version
        Model and version; the version is always set here.
    method, options
        A method of :data:`monitor.maps.METHODS` and its options, checked and with defaults filled in.
    window_ms
        How far back events are used; None: since the last change of calibration, or all events.
    promote
        Whether the map is promoted at once if it passes the guard.
    trigger
        ``request``, ``schedule`` or ``verdict``.
    since_ms
        Only events predicted then or later are used; None: all that ``window_ms`` says.
    """

    model: str
    version: str
    method: str
    options: Mapping[str, Any]
    window_ms: int | None = None
    promote: bool = False
    trigger: str = "request"
    since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(RefitRequest):
    """A refit: what was requested, and how far it is.

    Attributes
    ----------
    id
        Random text such as ``rc_8f3...``; also the id of its map.
    requested_ms, started_ms, finished_ms
        Times; None for what has not happened yet.
    actor
        Who requested it: a name, ``schedule`` or ``verdict``.
    progress
        From 0 to 1.
    step
        Name of the current step.
    attempts
        How many times a worker started it.
    reason
        Why it failed, was rejected or was not promoted; None otherwise.
    comparison
        The document of docs/recalibration.md ("comparison"); None until there is one.
    figures
        Names of its figures.
    baseline
        Id of the map that served when it was compared; None if there was none.
    has_map
        Whether its map is stored.
    promotable
        Whether its promotion would be accepted: it is a candidate with a map, and its baseline still serves.
    """

    id: str
    state: JobState
    requested_ms: int
    actor: str
    started_ms: int | None = None
    finished_ms: int | None = None
    progress: float = 0.0
    step: str = ""
    attempts: int = 0
    reason: str | None = None
    comparison: Mapping[str, Any] | None = None
    figures: Sequence[str] = ()
    baseline: str | None = None
    has_map: bool = False
    promotable: bool = False


class StoredMap(NamedTuple):
    """The map of a refit. Immutable."""

    id: str
    artifact: bytes
    """Map, as :func:`monitor.maps.artifact.to_bytes` wrote it."""
    sha256: str


class Champion(NamedTuple):
    """The map that serves a version of a model."""

    model: str
    version: str
    map_id: str | None
    """None: no map serves, predictions stay as they are."""
    since_ms: int
    revision: int
    """Grows with each promotion and rollback."""


class PromotableMap(NamedTuple):
    """The newest map of a version that can be promoted now."""

    model: str
    version: str
    map_id: str


class Tally(NamedTuple):
    """Number of refits of a model in one state."""

    model: str
    state: JobState
    refits: int
    finished_ms: int | None
    """When the last of them finished; None if none has."""
    started_ms: int | None
    """When that one started; None if unknown."""


class Overview(NamedTuple):
    """The state of all models at one instant."""

    champions: Sequence[Champion]
    """Champion of every model and version that ever had a map."""
    candidates: Sequence[PromotableMap]
    """Candidates, at most one per model and version: its map is stored, and what it was compared with still serves."""
    tallies: Sequence[Tally]


class AuditEntry(NamedTuple):
    """One entry of the audit trail. Appended in the transaction of the action; never changed."""

    number: int
    at_ms: int
    actor: str
    action: str
    """``requested``, ``started``, ``finished``, ``promoted``, ``rolled_back``, ``refused``, ..."""
    model: str
    version: str
    subject: str
    """Id of the refit, or empty."""
    detail: Mapping[str, Any]


class Sample(NamedTuple):
    """Labelled events of a version, from all partitions in the store, and what was left out."""

    events: LabelledEvents
    population: int
    """How many labelled events the sample represents."""
    left_out: Mapping[str, int]
    """Reason -> number of sampled events that do not match the others (features missing, another length, ...)."""


ReadSample = Callable[..., Sample]
"""Reads the sample of a model and version: :meth:`monitor.store.sql.SqlStore.read_sample`. Any thread."""
