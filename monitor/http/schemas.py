"""The bodies as OpenAPI describes them, with examples. Documentation alone: answers are encoded without these."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from monitor.http.examples import EXAMPLES
from monitor.http.problems import MEDIA_TYPE as PROBLEM_TYPE
from monitor.measures.base import AppearsIn, Unit
from monitor.reports.evaluation.report import Severity, Verdict

JSON: Final = "application/json"


class Body(BaseModel):
    """Every body of the API: no keys beyond those listed."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class MeasureBody(Body):
    """One measure of one window."""

    value: float
    unit: Unit = Field(
        description="percent is 0 to 100, ratio is 0 to 1, nats a logarithm of likelihoods, sigma standard deviations"
    )
    lower: float | None = Field(description="lower end of the 95% confidence interval")
    upper: float | None = Field(description="upper end of the 95% confidence interval")
    null_mean: float | None = Field(description="mean if the model were perfectly calibrated")
    null_q95: float | None = Field(description="95% point if the model were perfectly calibrated")
    p_value: float | None = Field(description="share of perfectly calibrated resamples at least as far off")
    error_bound: float | None = Field(
        description="how far value can lie from that of the raw predictions; for TCE, whose bins follow the data, an "
        "estimate that holds nearly always"
    )


class DecompositionBody(Body):
    """A proper score in parts: score = miscalibration - discrimination + uncertainty."""

    miscalibration: float = Field(description="what isotonic recalibration takes off the score")
    discrimination: float = Field(description="by how much recalibrated predictions are better than the prevalence")
    uncertainty: float = Field(description="the score of the prevalence")


class PerformanceBody(Body):
    """How good the model is beside its calibration: whether it became worse, or only its probabilities."""

    accuracy: float = Field(description="share of the events that a threshold of 0.5 puts right")
    auc: float | None = Field(description="area under the ROC curve; null where all outcomes are alike")
    average_precision: float | None = Field(description="to be compared with the prevalence; null without positives")
    log_loss: float | None = Field(description="null where it is not finite")


class DiagnosisBody(Body):
    """Is it the prior or the model? Logits are z = logit p. What is null could not be had from these data."""

    verdict: Verdict
    sentence: str = Field(description="what was found, and what to do about it")
    p_value: float | None = Field(description="combined p-value of the tests of calibration")
    offset: float | None = Field(description="b of sigmoid(z + b): what has to be added to every logit")
    offset_error: float | None = Field(description="its standard error")
    slope: float | None = Field(description="a of sigmoid(a z + c): below 1 where the model is too sure")
    slope_error: float | None = Field(description="its standard error")
    slope_lower: float | None = Field(description="lower end of its 95% interval")
    slope_upper: float | None = Field(description="upper end of its 95% interval")
    error: float | None = Field(description="smCE as it is")
    error_after_offset: float | None = Field(description="smCE after the best offset")
    logit_error_after_offset: float | None = Field(
        description="RMS by which logits are off after the best offset, by stretches, slope or contradictions"
    )
    prior_shift_p_value: float | None = Field(description="of the hypothesis that all there is is a prior shift")
    severity: Severity | None = Field(
        description="how large the fault is: slight is logits that are off by up to 0.2, moderate by up to 0.5"
    )
    tolerance: float | None = Field(description="error of the logits up to which nothing is called a fault")
    detectable_offset: float | None = Field(
        description="size of the smallest offset that a verdict would have been given on with probability 0.8"
    )
    detectable_slope_below: float | None = Field(description="likewise the nearest slope below 1")
    detectable_slope_above: float | None = Field(description="likewise the nearest slope above 1")


class ReportBody(Body):
    """What is known of the calibration of one series in one window."""

    model: str
    version: str
    segment: str
    window: str
    from_: str | None = Field(alias="from", description="prediction times covered, from, included; RFC 3339")
    to: str | None = Field(description="prediction times covered, to, excluded; RFC 3339")
    n: int = Field(description="predictions whose outcome is known or implied, which the measures are of")
    positives: int
    prevalence: float | None
    mean_prediction: float | None
    predictions: int = Field(description="all predictions of the window, with or without an outcome")
    label_coverage: float | None = Field(description="n / predictions")
    measures: dict[str, MeasureBody] = Field(description="by name; empty where the data is insufficient")
    canonical: dict[str, MeasureBody] = Field(
        description="measures of whole probability vectors by name: skce, where a model of classes has sketches"
    )
    insufficient: str | None = Field(description="why there are no measures, or null")
    omitted: dict[str, str] = Field(description="measures that were asked for and are not there: name, and why")
    decomposition: dict[str, DecompositionBody] = Field(
        description="proper scores in parts: brier and log_loss, where they are finite"
    )
    diagnosis: DiagnosisBody | None = Field(description="null where it was not asked for, or is not there yet")
    performance: PerformanceBody | None = Field(
        description="null where there are no measures, and of the most probable of several classes"
    )
    intervals_outdated_since: str | None = Field(
        description="since when intervals, levels, p-values and diagnosis lag behind the values, RFC 3339: they are of "
        "earlier predictions, or not there yet; null where they are of the same"
    )


class ClassMeasureBody(MeasureBody):
    """One measure of whole probability vectors."""

    method: str | None = Field(description="how it was computed, where that depends on the number of events")


class ClassReportBody(Body):
    """What is known of the calibration of a model of many classes."""

    model: str
    version: str
    segment: str
    window: str
    from_: str | None = Field(alias="from", description="prediction times covered, from, included; RFC 3339")
    to: str | None = Field(description="prediction times covered, to, excluded; RFC 3339")
    n: int = Field(description="predictions whose outcome is known, which the measures are of")
    predictions: int = Field(description="all predictions, with or without an outcome")
    label_coverage: float | None = Field(description="n / predictions")
    classes: int
    accuracy: float | None = Field(description="share of the predictions whose most probable class came true")
    prevalence: list[float] = Field(description="of each class; empty without outcomes")
    mean_prediction: list[float] = Field(description="of each class; empty without outcomes")
    measures: dict[str, ClassMeasureBody] = Field(description="of whole vectors, by name")
    classwise: dict[str, MeasureBody] = Field(
        description="mean over the classes of their measures against the rest, by name"
    )
    insufficient: str | None = Field(description="why there are no measures, or null")
    omitted: dict[str, str] = Field(description="measures of whole vectors that are not there: name to why")
    top_label: ReportBody = Field(description="of the largest probability, and whether its class came true")
    each_class: list[ReportBody] = Field(
        description="of each class against the rest, from class 0 on: segment class=0, ..."
    )


class FailureBody(Body):
    """A report that the last evaluation could not make."""

    model: str
    version: str
    segment: str
    window: str
    reason: str


class ReportsBody(Body):
    """Reports of the latest snapshot."""

    evaluated_at: str | None = Field(description="RFC 3339; null before the first evaluation")
    evaluation: int = Field(description="counts the evaluations")
    failures: list[FailureBody]
    next_cursor: str | None = Field(description="pass it as cursor for the next page; null on the last")
    reports: list[ReportBody]


class PolicyBody(Body):
    """What is declared of a model."""

    horizon_seconds: float = Field(description="how long after a prediction its outcome still counts")
    lateness_seconds: float = Field(description="how far out of order events may stand in their log")
    implied_negative: bool = Field(description="whether no outcome within the horizon means a negative")
    segments: list[str] = Field(description="segment keys that become series of their own")
    classes: list[str] = Field(description="classes that it tells apart, each a segment class=...; empty if binary")


class VersionBody(Body):
    """A version of a model, with what is reported of it."""

    version: str
    segments: list[str]
    windows: list[str]


class ModelBody(Body):
    """A model."""

    model: str
    state: Literal["measured", "insufficient", "failed", "waiting"] = Field(
        description="measured: a report has measures; insufficient: reports, but too little data for any; "
        "failed: no report could be made; waiting: no events yet"
    )
    current_version: str | None = Field(description="the one a report is of when nobody names one")
    versions: list[VersionBody]
    watermark: str | None = Field(description="newest event time seen, RFC 3339")
    policy: PolicyBody | None
    report: str = Field(description="path of its report")


class ModelsBody(Body):
    """Models by name."""

    models: list[ModelBody]
    next_cursor: str | None = Field(description="pass it as cursor for the next page; null on the last")
    partitions: list[int] = Field(
        description="partitions of the log that this process holds: its reports are of the events in these alone"
    )


class DataBody(Body):
    """Predictions with their outcomes, to be reported on."""

    p: list[Annotated[float, Field(ge=0, le=1)]] | list[list[Annotated[float, Field(ge=0, le=1)]]] = Field(
        description="predictions P(y = 1), or of each event the probabilities of all classes"
    )
    y: list[Annotated[float, Field(ge=0, multiple_of=1)] | bool | None] = Field(
        description="outcomes, as many: 0 or 1, true or false, or null where unknown; of class probabilities the "
        "class that came true, from 0 on"
    )
    weight: list[Annotated[float, Field(ge=0)]] | None = Field(
        None,
        description="weights, as many; measures that need whole counts are left out then. Not with class probabilities",
    )
    measures: list[str] | None = Field(
        None,
        description="names of the measures wanted, of those that GET /v1/measures lists; the usual ones if left out",
    )
    model: str = Field("unnamed", description="what the report says it is about")
    version: str = Field("unversioned", description="likewise")
    segment: str = Field("all", description="likewise")


class RejectedBody(Body):
    """An event that was not taken."""

    index: int = Field(description="its place in the request, from 0")
    reason: str = Field(
        description="as in the label reason of calibration_dead_letters_total, refused_model or forbidden_model"
    )
    detail: str = Field(description="names key and value and says what is allowed")


class TakenBody(Body):
    """What became of the events of a request."""

    accepted: int = Field(description="written, and durable")
    rejected: int
    errors: list[RejectedBody] = Field(description="the first hundred of those rejected")


class MeasureHelpBody(Body):
    """What a measure says."""

    name: str = Field(description="its key in a report")
    title: str
    help: str
    unit: Unit
    stands_in: AppearsIn = Field(
        description="windows: in every report; reports: in those of files and of data sent along; request: where named"
    )
    in_windows: bool = Field(description="whether the windows of this service are measured by it")


class MeasuresBody(Body):
    """All measures."""

    measures: list[MeasureHelpBody]


class HealthBody(Body):
    """The process answers."""

    status: Literal["ok"]
    version: str


class ReadyBody(Body):
    """Partitions are assigned, restored and read."""

    status: Literal["ready"]
    partitions: list[int] = Field(description="partitions of the log that this process holds and reports on")


class ProblemBody(BaseModel):
    """RFC 9457 problem details. Some kinds have further members, such as ``errors``."""

    type: str = Field(description="what programs tell the problem by")
    title: str
    status: int
    detail: str = Field(description="names key and value and says what to do")
    instance: str = Field(description="the path that was asked for")
    request_id: str = Field(description="as in the header X-Request-ID, and in the service's log")


BODIES: Final = (
    ReportBody,
    ClassReportBody,
    ReportsBody,
    ModelsBody,
    TakenBody,
    MeasuresBody,
    HealthBody,
    ReadyBody,
    ProblemBody,
)
"""Answers that routes refer to."""

_KINDS: Final = {
    401: ("unauthenticated", "this needs an API key or a token: send it as Authorization: Bearer ..."),
    403: ("forbidden", "this needs the role promote for model 'churn', and key:nightly-refits holds write"),
    400: ("incomplete-body", "the connection was closed before the body was complete"),
    404: ("unknown-series", "no window '25h'; windows are '1h', '24h', '7d'"),
    406: ("not-acceptable", "Accept must allow application/vnd.apache.arrow.file or application/json, got image/png"),
    408: ("slow-body", "the body was not complete after 30 seconds; 1024 bytes came"),
    409: ("conflict", "refit rc_5e2c8f0b7d1a4936 of model 'churn' is under way; wait until it has ended"),
    410: ("no-longer-kept", "predictions are kept since 2026-11-13T10:00:00Z: ask as of 2026-11-14T10:00:00Z or later"),
    413: ("body-too-large", "the body must have at most 4194304 bytes, got 5000000 bytes; send it in several requests"),
    415: ("unsupported-media-type", "Content-Type must be application/json, got text/plain"),
    422: ("invalid-input", "y must be 0 or 1, got 2 at index 3"),
    429: (
        "too-many-requests",
        "key:nightly-refits asks more often than access.requests_per_second allows; ask less often",
    ),
    500: ("internal", "the service failed to answer; its log says why, under incident 0f9c2b6a41de"),
    503: ("source-unavailable", "the broker does not answer; try again"),
}


def ok(
    body: type[Body], description: str, status: int = 200, *, other: type[Body] | None = None
) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` entry of a good answer, of one of two forms maybe. Examples stand with the bodies' schemas."""
    schema = reference(body) if other is None else {"oneOf": [reference(body), reference(other)]}
    return {status: {"description": description, "content": {JSON: {"schema": schema}}}}


def text(media_type: str, description: str, example: str) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` entry of a good answer that is no JSON."""
    return {
        200: {
            "description": description,
            "content": {media_type: {"schema": {"type": "string"}, "example": example}},
        }
    }


def problems(
    *statuses: int, other: Mapping[int, tuple[str, str]] = MappingProxyType({})
) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` entries of the problems that a route has, each with an example; 500 always.

    Parameters
    ----------
    other
        Status -> kind and detail, where the usual example is not the route's.
    """
    titles = {status: other.get(status, _KINDS[status]) for status in (*statuses, 500)}
    return {
        status: {
            "description": kind.replace("-", " ").capitalize(),
            "content": {
                PROBLEM_TYPE: {
                    "schema": reference(ProblemBody),
                    "example": {
                        "type": f"urn:calibration-monitor:problem:{kind}",
                        "title": kind.replace("-", " ").capitalize(),
                        "status": status,
                        "detail": detail,
                        "instance": "/v1/...",
                        "request_id": "6f1f2a0c9d0b4f7e8a35c1d2e4b60987",
                    },
                }
            },
        }
        for status, (kind, detail) in titles.items()
    }


def reference(body: type[BaseModel]) -> dict[str, str]:
    """Where the schema of a body stands in the OpenAPI document."""
    return {"$ref": f"#/components/schemas/{body.__name__}"}


def definitions() -> dict[str, Any]:
    """The schemas of all bodies, by name, with their examples."""
    return described(BODIES, (DataBody,), EXAMPLES)


def described(
    answers: Iterable[type[BaseModel]], requests: Iterable[type[BaseModel]], examples: Mapping[str, Any]
) -> dict[str, Any]:
    """The schemas of these bodies, by name, with their examples."""
    # Answers as they are sent: a key that always comes is required.
    _, schema = models_json_schema(
        [*((body, "serialization") for body in answers), *((body, "validation") for body in requests)],
        ref_template="#/components/schemas/{model}",
    )
    found: dict[str, Any] = schema["$defs"]
    for body, example in examples.items():
        found[body]["examples"] = [example]
    return found
