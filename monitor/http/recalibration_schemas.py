"""The bodies of recalibration as OpenAPI describes them. Documentation alone, as in schemas.py."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from monitor.http.schemas import Body
from monitor.store.recalibrations import JobState

OptionValue = bool | int | float | str | None
Probability = Annotated[float, Field(ge=0, le=1)]
Probabilities = list[Probability] | list[list[Probability]]


class RefitRequestBody(Body):
    """What is to be fitted. What is left out, or null, is as the settings of the model say."""

    method: str | None = Field(None, description="one that GET /v1/recalibration-methods lists")
    options: dict[str, OptionValue] | None = Field(None, description="of the method; those left out at their defaults")
    version: str | int | None = Field(None, description="of the model; the one with the newest predictions if left out")
    window: str | float | None = Field(
        None,
        description="how far back events are taken: a duration such as 7d, or seconds; without one, in the request and "
        "in the settings, since the last change of calibration, or all there are",
    )
    promote: bool | None = Field(None, description="whether the map is promoted at once if it passes the guard")


class LinksBody(Body):
    """Where the parts of a refit stand."""

    self: str
    page: str = Field(description="for people")
    artifact: str | None = Field(description="its map; null while there is none, and where it is not kept any more")
    promotion: str | None = Field(description="where to promote it; null where that would be refused as things stand")
    figures: dict[str, str] = Field(description="its pictures by name, SVG")
    model: str = Field(description="what serves the model")


class RefitSummaryBody(Body):
    """A refit, without its comparison."""

    id: str = Field(description="also the name of its map")
    model: str
    version: str
    method: str
    options: dict[str, OptionValue]
    window: str | None = Field(description="null: since the last change of calibration, or all there are")
    promote: bool = Field(description="whether the map is promoted at once if it passes the guard")
    trigger: str = Field(description="request, schedule or verdict")
    actor: str = Field(description="who asked")
    state: JobState = Field(
        description="queued and running: under way; failed: there is no map; rejected: the map is not better, and is "
        "never promoted; candidate: it passed the guard; champion: it serves; retired, rolled_back: it served"
    )
    progress: float = Field(ge=0, le=1)
    step: str = Field(description="what is being done")
    reason: str | None = Field(description="why it failed or was rejected, or what was noteworthy")
    attempts: int = Field(description="how often a worker began it")
    requested_at: str = Field(description="RFC 3339")
    started_at: str | None
    finished_at: str | None
    baseline: str | None = Field(description="the map that served when it was compared; null if none did")
    links: LinksBody


class RefitBody(RefitSummaryBody):
    """A refit."""

    comparison: dict[str, Any] | None = Field(
        description="what events say that the fit never saw (docs/recalibration.md); null until there is one"
    )


class RefitsBody(Body):
    """Refits, the newest first."""

    recalibrations: list[RefitSummaryBody]
    next_cursor: str | None = Field(description="pass it as cursor for the next page; null on the last")


class ArtifactBody(Body):
    """A map as JSON. What its settings and arrays mean depends on the method."""

    format: int
    method: str
    classes: int = Field(description="of the predictions that it is for; 2 for P(y = 1) alone")
    feature_count: int | None = Field(description="how many features an event must have; null: none are used")
    segment_key: str | None = Field(description="the segment that an event must tell; null: none is used")
    settings: dict[str, Any] = Field(description="what is small")
    shapes: dict[str, list[int]] = Field(description="of the arrays")
    types: dict[str, str] = Field(description="of the arrays")
    about: dict[str, Any] = Field(description="its id, model, version, method, options, data hash, ...")
    sha256: str = Field(description="of the map's content")
    arrays: dict[str, list[Any]] = Field(description="what is large: lists, or lists of lists")


class NoteBody(Body):
    """Why."""

    note: str = Field("", max_length=2000, description="kept in the audit trail")


class RollbackBody(NoteBody):
    """Which version's map is taken back, and why."""

    version: str | int | None = Field(None, description="the one with the newest predictions if left out")


class ChampionBody(Body):
    """What serves the predictions of a model's version."""

    model: str
    version: str
    map: str | None = Field(description="id of the map; null: none, predictions are as they are")
    since: str | None = Field(description="RFC 3339; null if no map ever served")
    revision: int = Field(description="grows with each promotion and rollback; 0 if no map ever served")
    artifact: str | None = Field(description="where the map stands")


class ApplyRequestBody(Body):
    """Predictions to be recalibrated, in columns."""

    p: Probabilities = Field(description="P(y = 1) of each event; or of each event the probabilities of all classes")
    features: list[list[float] | str] | None = Field(
        None, description="of each event: numbers, or base64 of little-endian float32. Only some maps need them"
    )
    segments: dict[str, list[str | int | bool | None]] | None = Field(
        None, description="key to the value of each event, null where it has none. Only some maps need one"
    )
    version: str | int | None = Field(None, description="of the model; the one with the newest predictions if left out")


class AppliedBody(Body):
    """Recalibrated predictions."""

    model: str
    version: str
    map: str | None = Field(description="id of the map that made them; null: none serves")
    p: Probabilities = Field(description="in the order of the request")
    note: str | None = Field(description="says so where no map serves and predictions are as they were sent")


class RefitSettingsBody(Body):
    """What refits of a model are like, unless a request says otherwise."""

    method: str
    options: dict[str, OptionValue]
    window: str | None
    promotion: Literal["manual", "automatic"]
    schedule: str | None = Field(description="cron, UTC")
    on_verdict: bool = Field(description="whether a verdict of shape miscalibration starts one")
    next: str | None = Field(description="when the schedule starts the next one, RFC 3339")


class RecalibrationBody(Body):
    """How a model's version stands with recalibration."""

    model: str
    version: str
    serves: ChampionBody
    under_way: RefitSummaryBody | None = Field(description="the model's refit that is queued or running")
    candidate: RefitSummaryBody | None = Field(description="the newest map that could be promoted")
    settings: RefitSettingsBody
    live: dict[str, Any] | None = Field(
        description="measures of raw and recalibrated scores side by side, on events that no refit saw "
        "(docs/recalibration.md); null if there are none yet"
    )


class OptionBody(Body):
    """An option of a method."""

    name: str
    kind: Literal["number", "whole", "text", "flag"]
    default: OptionValue = Field(description="null: the method finds a value itself")
    meaning: str
    choices: list[str] = Field(description="the texts that are allowed; empty: any")
    above: float | None
    at_least: float | None
    at_most: float | None


class MethodBody(Body):
    """A method of recalibration."""

    name: str
    title: str
    meaning: str
    binary: bool = Field(description="whether it is for predictions P(y = 1)")
    many_classes: bool = Field(description="whether it is for predictions over several classes")
    needs_features: bool
    needs_segments: bool
    options: list[OptionBody]


class MethodsBody(Body):
    """All methods."""

    methods: list[MethodBody]


class AuditEntryBody(Body):
    """Who did what."""

    number: int
    at: str = Field(description="RFC 3339")
    actor: str
    action: str
    model: str
    version: str
    subject: str | None = Field(description="id of the refit")
    detail: dict[str, Any]


class AuditBody(Body):
    """Entries of the audit trail, the oldest first."""

    entries: list[AuditEntryBody]
    next_cursor: str | None = Field(description="pass it as cursor for the next page; null on the last")


REQUESTS: Final = (RefitRequestBody, NoteBody, RollbackBody, ApplyRequestBody)
ANSWERS: Final = (
    RefitBody,
    RefitsBody,
    ArtifactBody,
    ChampionBody,
    AppliedBody,
    RecalibrationBody,
    MethodsBody,
    AuditBody,
)
