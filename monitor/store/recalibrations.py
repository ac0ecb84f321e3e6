"""What is durable of recalibration: refits, maps, who serves, and who did what. And how samples are read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from monitor.maps.labelled import LabelledEvents


class JobState(StrEnum):
    """Where a refit stands. A running one may go back into the queue, when its worker was lost."""

    QUEUED = "queued"
    RUNNING = "running"
    FAILED = "failed"
    """There is no map; ``reason`` says why."""
    REJECTED = "rejected"
    """There is a map, and it is not better; ``reason`` says why. It is never promoted."""
    CANDIDATE = "candidate"
    """There is a map, and it passed the guard. It may be promoted as long as what it was compared with still serves."""
    CHAMPION = "champion"
    """Its map serves."""
    RETIRED = "retired"
    """Its map served until another took its place."""
    ROLLED_BACK = "rolled_back"
    """Its map served until it was taken back."""


UNDER_WAY = (JobState.QUEUED, JobState.RUNNING)
"""Of one model, at most one refit is in these states: the store refuses a second."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for.

    Attributes
    ----------
    model, version
        Whose predictions; the version is always named here.
    method, options
        See :data:`monitor.maps.METHODS`; options are checked, defaults filled in.
    window_ms
        How far back events are taken; None: since the last change of calibration, or all there are.
    promote
        Whether the map is promoted at once if it passes the guard.
    trigger
        ``request``, ``schedule`` or ``verdict``.
    """

    model: str
    version: str
    method: str
    options: Mapping[str, Any]
    window_ms: int | None = None
    promote: bool = False
    trigger: str = "request"


@dataclass(frozen=True, slots=True)
class Job:
    """A refit.

    Attributes
    ----------
    id
        Text that nobody can guess the order of, such as ``rc_8f3...``; also the name of its map.
    requested_ms, started_ms, finished_ms
        When; None for what did not happen yet.
    actor
        Who asked: a name, ``schedule`` or ``verdict``.
    progress
        From 0 to 1.
    step
        What is being done, in a word or two.
    attempts
        How often a worker began it.
    reason
        Why it failed or was rejected, or what was noteworthy; None if nothing is to be said.
    comparison
        What the held-out data say: the document of docs/recalibration.md ("comparison"); None until there is one.
    figures
        Names of its pictures.
    baseline
        Id of the map that served when it was compared; None if none did.
    """

    id: str
    order: Order
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


class StoredMap(NamedTuple):
    """The artifact of a refit. Immutable."""

    id: str
    artifact: bytes
    """As :func:`monitor.maps.artifact.to_bytes` wrote it."""
    sha256: str


class Champion(NamedTuple):
    """Which map serves the predictions of a model's version."""

    model: str
    version: str
    map_id: str | None
    """None: none, predictions are as they are."""
    since_ms: int
    revision: int
    """Grows with each promotion and rollback."""


class Candidate(NamedTuple):
    """The newest map of a model's version that could be promoted now."""

    model: str
    version: str
    map_id: str


class Tally(NamedTuple):
    """How many refits of a model are in a state."""

    model: str
    state: JobState
    refits: int
    finished_ms: int | None
    """When the last of them finished; None where none has."""
    started_ms: int | None
    """When that one was started; None where that is not known."""


class Overview(NamedTuple):
    """How all models stand, at one instant."""

    champions: Sequence[Champion]
    """Of every model and version that ever had a map."""
    candidates: Sequence[Candidate]
    """One a model and version at most, and only where what it was compared with serves, and its map is kept."""
    tallies: Sequence[Tally]


class AuditEntry(NamedTuple):
    """Who did what. Appended in the transaction of what was done; never changed."""

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
    """Labelled events of a model's version, from all partitions in the store, and what was left out of them."""

    events: LabelledEvents
    population: int
    """How many labelled events the sample stands for."""
    left_out: Mapping[str, int]
    """Reason, in words -> sampled events that do not fit the others (features missing, of another length, ...)."""


class SampleStore(Protocol):
    """Reads samples. May be called from any thread and any process."""

    def read_sample(
        self, model: str, version: str, *, from_ms: int = 0, to_ms: int | None = None, limit: int | None = None
    ) -> Sample:
        """Events of [from, to) by the time of their prediction, whose outcome can change no more.

        Parameters
        ----------
        limit
            At most so many events: a deterministic, stratified part of what there is.
        """
        ...


class RecalibrationStore(Protocol):
    """Keeps refits and maps. Each method is one transaction, with its audit entry. Any thread, any process."""

    def add_job(self, job: Job, *, idempotency_key: str | None = None, fingerprint: str = "") -> tuple[Job, bool]:
        """Add a queued job; returns it and True, or the one that was made under this key before, and False.

        Raises
        ------
        Conflict
            Another refit of the model is under way (names it), or the key was used for another order (``fingerprint``
            differs).
        """
        ...

    def claim_job(self, owner: str, *, now_ms: int, lease_ms: int) -> Job | None:
        """Take the oldest queued job, or one whose owner's lease ran out; it is ``running`` and owned from now on."""
        ...

    def keep_job(self, job_id: str, owner: str, *, now_ms: int, lease_ms: int, progress: float, step: str) -> bool:
        """Lengthen the lease and note progress; False if the job is not the owner's any more."""
        ...

    def finish_job(
        self, job: Job, owner: str, artifact: StoredMap | None, figures: Mapping[str, bytes], *, promote: bool
    ) -> Job:
        """Write a job's end, its map and its figures, and promote it if asked: all, or nothing.

        Raises
        ------
        Conflict
            The job is not the owner's any more.
        """
        ...

    def release_job(self, job_id: str, owner: str, *, lost: str | None = None) -> None:
        """Put a running job back into the queue: its worker was lost, or the service ends.

        Without ``lost`` the attempt does not count. With it, in words how the worker was lost, it does, and the last
        of three ends the job as failed. Nothing happens where the job is not the owner's any more.
        """
        ...

    def job(self, job_id: str) -> Job:
        """One job. Raises UnknownRecalibration."""
        ...

    def jobs(
        self,
        models: str | Collection[str] | None = None,
        *,
        before: str | None = None,
        limit: int = 100,
        comparisons: bool = True,
    ) -> Sequence[Job]:
        """Jobs of a model, of several, or of all, the newest first; those older than ``before``.

        Without ``comparisons``, which take far more room than all the rest, ``comparison`` is None of all of them.
        """
        ...

    def promotable(self, job_ids: Collection[str]) -> set[str]:
        """Those of some jobs that :meth:`promote` would let serve as things stand."""
        ...

    def kept(self, job_ids: Collection[str]) -> set[str]:
        """Those of some jobs whose map :meth:`artifact` has. Reads no map."""
        ...

    def artifact(self, map_id: str) -> StoredMap:
        """One map.

        Raises
        ------
        UnknownRecalibration
            No refit is called that, or it has no map, or it is not kept any more.
        CorruptMap
            Its bytes are not those that were stored.
        """
        ...

    def figure(self, job_id: str, name: str) -> bytes:
        """One picture, SVG. Raises UnknownRecalibration."""
        ...

    def champions(self) -> Sequence[Champion]:
        """What serves, of every model and version that ever had a map."""
        ...

    def overview(self) -> Overview:
        """What serves, what could, and how many refits there were. Reads no comparison, and no map."""
        ...

    def promote(self, job_id: str, *, actor: str, now_ms: int, note: str) -> Champion:
        """Let a candidate's map serve.

        Raises
        ------
        UnknownRecalibration
            There is none of that id.
        Conflict
            It is no candidate (says what it is), or what it was compared with serves no more.
        """
        ...

    def roll_back(self, model: str, version: str, *, actor: str, now_ms: int, note: str) -> Champion:
        """Let serve what served before, back to none.

        Raises
        ------
        Conflict
            Nothing serves that could be taken back.
        """
        ...

    def audit(self, *, after: int = 0, limit: int = 100, model: str | None = None) -> Sequence[AuditEntry]:
        """Entries with a number greater than ``after``, ascending."""
        ...

    def add_audit(self, entry: AuditEntry) -> None:
        """Note what needed no other change, such as a refusal. Its ``number`` is given by the store."""
        ...

    def handled_slot(self, model: str, expression: str, *, now_ms: int) -> int:
        """Time of the last slot of a schedule that was dealt with; ``now_ms`` where the schedule is new or another."""
        ...

    def note_slot(self, model: str, expression: str, slot_ms: int) -> None:
        """Note that the slots of a schedule up to this one are dealt with. A later one that is noted stays."""
        ...
