"""The bodies of recalibration: requests for refits, refits, maps, what serves, and the audit trail."""

from dataclasses import asdict
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import quote

import msgspec
from pydantic import ConfigDict, Field

from monitor.durations import format_ms
from monitor.events.times import format_known, format_time
from monitor.http.request_parsing import MAX_NOTE
from monitor.http.schemas import NEXT_CURSOR, Body, DecodedAs, PastMeasureBody, Probabilities, field
from monitor.maps import Method
from monitor.recalibration.service import Recalibrations
from monitor.store.recalibrations import AuditEntry, Champion, Job, JobState, RefitRequest
from monitor.urls import wrong_path

OptionValue = bool | int | float | str | None
SegmentValue = str | int | bool | None

_ID: Final = "rc_5e2c8f0b7d1a4936"
_PATH: Final = f"/v1/recalibrations/{_ID}"

_MEASURE: Final = PastMeasureBody.example()
_AFTER: Final = {**_MEASURE, "value": 0.0031, "lower": 0.0, "upper": 0.0068, "p_value": 0.31}
_DIFFERENCE: Final = {
    "e_value": 48210.7,
    "log10_e": 4.68,
    "brier_difference": -0.0041,
    "lower": -0.0052,
    "upper": -0.003,
    "log_loss_difference": {"value": -0.0121, "lower": -0.0153, "upper": -0.0089},
}

_COMPARISON: Final[dict[str, Any]] = {
    "fit": {
        "n": 14000,
        "from": "2026-11-14T08:00:00.000Z",
        "to": "2026-11-19T05:12:41.000Z",
        "data_hash": "3f7d0f6e3c9b7c55a5f1ce9e0ea7d1b2",
        "changed_at": None,
        "change_p_value": None,
        "left_out": {},
    },
    "held_out": {
        "n": 6000,
        "from": "2026-11-19T05:12:41.000Z",
        "to": "2026-11-21T07:00:00.000Z",
        "data_hash": "c0d4b9e8f0aa4b27b1f9b7d1a53c1c44",
        "weighted": False,
    },
    "maps": {
        "none": {
            "id": None,
            "method": "identity",
            "describe": "leaves predictions as they are",
            "measures": {"smce": _MEASURE},
            "verdict": {"verdict": "shape_miscalibration", "sentence": "Predictions are too sure of themselves."},
            "insufficient": None,
            "omitted": {},
            "local": None,
        },
        "champion": None,
        "challenger": {
            "id": _ID,
            "method": "beta",
            "describe": "a = 0.71, b = 0.69, c = -0.02",
            "measures": {"smce": _AFTER},
            "verdict": {"verdict": "calibrated", "sentence": "No fault is seen."},
            "insufficient": None,
            "omitted": {},
            "local": None,
        },
    },
    "segments": [],
    "segments_left_out": {},
    "evidence": {"against_none": _DIFFERENCE, "against_champion": None},
    "guard": {
        "passed": True,
        "reasons": ["better than no map on 6,000 later events: e-value 48,211, at least 20"],
        "notes": [],
        "against": "none",
    },
    "decision": {
        "prediction_rejection_ratio": {"none": 0.412, "challenger": 0.412},
        "reward": [{"cost_ratio": 2.0, "threshold": 0.5, "none": -0.421, "challenger": -0.409}],
    },
}


def job_path(job_id: str) -> str:
    """The path of a refit."""
    return f"/v1/recalibrations/{quote(job_id, safe='')}"


def _window(request: RefitRequest) -> str | None:
    """How far back events are taken, as people write it."""
    return None if request.window_ms is None else format_ms(request.window_ms)


class RefitRequestBody(Body):
    """The refit that is requested. The settings of the model say what is left out, or null."""

    method: str | None = field("beta", "one that GET /v1/recalibration-methods lists", None)
    options: dict[str, OptionValue] | None = Field(None, description="of the method; those left out at their defaults")
    version: str | int | None = Field(None, description="of the model; the one with the newest predictions if left out")
    window: str | float | None = field(
        "7d",
        (
            "how far back events are taken: a duration such as 7d, or seconds; without one, in the request and "
            "in the settings, since the last change of calibration, or all there are"
        ),
        None,
    )
    since: str | None = field(
        "2026-11-21T14:05:00Z", "only events predicted then or later are taken, such as since a change", None
    )
    alert: str | None = field(
        "al_5e2c8f0b7d1a4936", "an alert about the model: its version, and since its change point", None
    )
    promote: bool | None = Field(None, description="whether the map is promoted at once if it passes the guard")


class LinksBody(Body):
    """Paths of the parts of a refit."""

    self: str = field(_PATH)
    page: str = field(f"/recalibrations/{_ID}", "for people")
    artifact: str | None = field(
        f"{_PATH}/artifact", "its map; null while there is none, and where it is not kept any more"
    )
    promotion: str | None = field(
        f"{_PATH}/promotion", "where to promote it; null where that would be refused as things stand"
    )
    figures: dict[str, str] = field({"reliability": f"{_PATH}/figures/reliability"}, "its figures by name")
    model: str | None = field(
        "/v1/models/churn/recalibration", "what serves the model; null where no path leads to a model of this name"
    )


class RefitSummaryBody(Body):
    """A refit, without its comparison."""

    id: str = field(_ID, "also the name of its map")
    model: str = field("churn")
    version: str = field("7")
    method: str = field("beta")
    options: dict[str, OptionValue] = field({})
    window: str | None = field("7d", "null: since the last change of calibration, or all there are")
    since: str | None = field(None, "only events predicted then or later; null: as far back as the window says")
    promote: bool = field(False, "whether the map is promoted at once if it passes the guard")
    trigger: str = field("request", "request, schedule or verdict")
    actor: str = field("anonymous", "who requested it")
    state: JobState = field(
        "candidate",
        (
            "queued and running: under way; failed: there is no map; rejected: the map is not better, and is "
            "never promoted; candidate: it passed the guard; champion: it serves; retired, rolled_back: it served"
        ),
    )
    progress: float = field(1.0, ge=0, le=1)
    step: str = field("done", "what is being done")
    reason: str | None = field(None, "why it failed or was rejected, or what was noteworthy")
    attempts: int = field(1, "how often a worker began it")
    requested_at: str = field("2026-11-21T08:00:00.000Z", "RFC 3339")
    started_at: str | None = field("2026-11-21T08:00:00.412Z")
    finished_at: str | None = field("2026-11-21T08:00:09.118Z")
    baseline: str | None = field(None, "the map that served when it was compared; null if none did")
    links: LinksBody = field(LinksBody.example())

    @classmethod
    def of(cls, job: Job) -> Self:
        """The body of a refit."""
        path = job_path(job.id)
        return cls.of_attributes(
            job,
            window=_window(job),
            since=format_known(job.since_ms),
            requested_at=format_time(job.requested_ms),
            started_at=format_known(job.started_ms),
            finished_at=format_known(job.finished_ms),
            links=LinksBody(
                self=path,
                page=f"/recalibrations/{quote(job.id, safe='')}",
                artifact=f"{path}/artifact" if job.has_map else None,
                promotion=f"{path}/promotion" if job.promotable else None,
                figures={name: f"{path}/figures/{quote(name, safe='')}" for name in job.figures},
                model=None if wrong_path(job.model) else f"/v1/models/{quote(job.model)}/recalibration",
            ),
        )


class RefitBody(RefitSummaryBody):
    """A refit."""

    comparison: dict[str, Any] | None = field(
        _COMPARISON, "results on events that the fit never saw (docs/recalibration.md); null until there is one"
    )


class RefitsBody(Body):
    """Refits, the newest first."""

    recalibrations: list[RefitSummaryBody] = field([RefitSummaryBody.example()])
    next_cursor: str | None = field(None, NEXT_CURSOR)


class FigureBody(Body):
    """A figure of a refit, as its page draws it. Members beyond these depend on its kind."""

    model_config = ConfigDict(extra="allow")

    kind: Literal["reliability", "lines", "plane", "strips"] = field("reliability")
    title: str = field("Later events, before and after")
    text: str = field("Of predictions of 70%, 70% should come true.", "how to read it")


class ArtifactBody(Body):
    """A map as JSON. What its settings and arrays mean depends on the method."""

    format: int = field(1)
    method: str = field("beta")
    classes: int = field(2, "of the predictions that it is for; 2 for P(y = 1) alone")
    feature_count: int | None = field(None, "how many features an event must have; null: none are used")
    segment_key: str | None = field(None, "the segment that an event must have; null: none is used")
    settings: dict[str, Any] = field({"a": 0.71, "b": 0.69, "c": -0.02}, "what is small")
    shapes: dict[str, list[int]] = field({}, "of the arrays")
    types: dict[str, str] = field({}, "of the arrays")
    about: dict[str, Any] = field(
        {"id": _ID, "model": "churn", "version": "7"}, "its id, model, version, method, options, data hash, ..."
    )
    sha256: str = field("5f0c2b7e9d3a4c1886f7e2d90b1a6c354e8d7f60a9b2c3d4e5f60718293a4b5c", "of the map's content")
    arrays: dict[str, list[Any]] = field({}, "what is large: lists, or lists of lists")


class NoteBody(Body):
    """A note for the audit trail."""

    note: str = field("agreed with the pricing team", "kept in the audit trail", "", max_length=MAX_NOTE)


class RollbackBody(Body):
    """The version whose map is rolled back, and a note for the audit trail."""

    note: str = field("complaints since noon", "kept in the audit trail", "", max_length=MAX_NOTE)
    version: str | int | None = field("7", "the one with the newest predictions if left out", None)


class ChampionBody(Body):
    """The map that serves a version of a model."""

    model: str = field("churn")
    version: str = field("7")
    map: str | None = field(_ID, "id of the map; null: none, predictions are as they are")
    since: str | None = field("2026-11-21T08:05:13.000Z", "RFC 3339; null if no map ever served")
    revision: int = field(1, "grows with each promotion and rollback; 0 if no map ever served")
    artifact: str | None = field(f"{_PATH}/artifact", "path of the map")

    @classmethod
    def of(cls, champion: Champion, **more: Any) -> Self:
        """The body of what serves."""
        served = champion.map_id
        return cls.of_attributes(
            champion,
            map=served,
            since=format_time(champion.since_ms) if champion.revision else None,
            artifact=None if served is None else f"{job_path(served)}/artifact",
            **more,
        )


class PromotionBody(ChampionBody):
    """The map that serves a version of a model after a promotion or rollback."""

    resolved_alerts: list[str] = field(["al_5e2c8f0b7d1a4936"], "ids of the alerts about the version that this ended")


class ApplyRequestBody(Body):
    """Predictions to be recalibrated, in columns."""

    p: Annotated[Probabilities, DecodedAs(list[float | list[float]])] = field(
        [0.91, 0.32], "P(y = 1) of each event; or of each event the probabilities of all classes"
    )
    features: Annotated[list[list[float] | str] | None, DecodedAs(list[msgspec.Raw] | None)] = field(
        [[0.1, -2.3], "zczMPTMzE8A="],
        "of each event: numbers, or base64 of little-endian float32. Only some maps need them",
        None,
    )
    segments: dict[str, list[SegmentValue]] | None = field(
        {"region": ["eu", None]},
        "key to the value of each event, null where it has none. Only some maps need one",
        None,
    )
    version: str | int | None = Field(None, description="of the model; the one with the newest predictions if left out")


class AppliedBody(Body):
    """Recalibrated predictions."""

    model: str = field("churn")
    version: str = field("7")
    map: str | None = field(_ID, "id of the map that made them; null: none serves")
    p: Probabilities = field([0.842, 0.371], "in the order of the request")
    note: str | None = field(None, "says that no map serves, and that predictions are as they were sent")


class RefitSettingsBody(Body):
    """The settings of refits of a model."""

    method: str = field("beta")
    options: dict[str, OptionValue] = field({})
    window: str | None = field(None)
    promotion: Literal["manual", "automatic"] = field("manual")
    schedule: str | None = field("0 3 * * *", "cron, UTC")
    on_verdict: bool = field(False, "whether a verdict of shape miscalibration starts one")
    next: str | None = field("2026-11-22T03:00:00.000Z", "when the schedule starts the next one, RFC 3339")

    @classmethod
    def of(cls, recalibrations: Recalibrations, model: str, version: str) -> Self:
        """The body of a model's settings."""
        plan, request = recalibrations.plan(model), recalibrations.make_request(model, version)
        return cls.of_attributes(
            plan,
            options=dict(request.options),
            window=_window(request),
            schedule=plan.cron,
            next=format_known(recalibrations.next_scheduled_ms(model)),
        )


class ServingBody(Body):
    """A promotion or a rollback."""

    map: str | None = field(_ID, "id of the map that served from then on; null: none, predictions stayed as they were")
    from_: str = field("2026-11-21T08:04:58.000Z", "time of predictions from which on, RFC 3339", alias="from")
    revision: int = field(1, "grows with each promotion and rollback")


class RecalibrationBody(Body):
    """The state of recalibration of a version of a model."""

    model: str = field("churn")
    version: str = field("7")
    serves: ChampionBody = field(ChampionBody.example())
    servings: list[ServingBody] = field([ServingBody.example()], "what served since when, the first first")
    under_way: RefitSummaryBody | None = field(None, "the model's refit that is queued or running")
    candidate: RefitSummaryBody | None = field(None, "the newest map that could be promoted")
    settings: RefitSettingsBody = field(RefitSettingsBody.example())
    live: dict[str, Any] | None = field(
        None,
        (
            "measures of raw and recalibrated scores side by side, on events that no refit saw "
            "(docs/recalibration.md); null if there are none yet"
        ),
    )


class OptionBody(Body):
    """An option of a method."""

    name: str = field("bins")
    kind: Literal["number", "whole", "text", "flag"] = field("whole")
    default: OptionValue = field(15, "null: the method finds a value itself")
    meaning: str = field("Number of bins.")
    choices: list[str] = field([], "the texts that are allowed; empty: any")
    above: float | None = field(None)
    at_least: float | None = field(1.0)
    at_most: float | None = field(1000.0)


class MethodBody(Body):
    """A method of recalibration."""

    name: str = field("histogram")
    title: str = field("Histogram binning")
    meaning: str = field("Gives each bin of predictions the rate of its outcomes.")
    binary: bool = field(True, "whether it is for predictions P(y = 1)")
    many_classes: bool = field(False, "whether it is for predictions over several classes")
    needs_features: bool = field(False)
    needs_segments: bool = field(False)
    options: list[OptionBody] = field([OptionBody.example()])

    @classmethod
    def of(cls, method: Method) -> Self:
        """The body of a method."""
        options = [OptionBody(name=name, **asdict(option)) for name, option in method.options.items()]
        return cls.of_attributes(method, options=options)


class MethodsBody(Body):
    """All methods."""

    methods: list[MethodBody] = field([MethodBody.example()])


class AuditEntryBody(Body):
    """An entry of the audit trail."""

    number: int = field(4)
    at: str = field("2026-11-21T08:05:13.000Z", "RFC 3339")
    actor: str = field("anonymous")
    action: str = field("promoted")
    model: str = field("churn")
    version: str = field("7")
    subject: str | None = field(_ID, "id of the refit or the alert")
    detail: dict[str, Any] = field({"note": "agreed with the pricing team"})

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        """The body of an entry."""
        return cls.of_attributes(
            entry, at=format_time(entry.at_ms), subject=entry.subject or None, detail=dict(entry.detail)
        )


class AuditBody(Body):
    """Entries of the audit trail, the oldest first."""

    entries: list[AuditEntryBody] = field([AuditEntryBody.example()])
    next_cursor: str | None = field(None, NEXT_CURSOR)
