"""The bodies of requests and answers: each model is the documented one, with its example, and the one read or sent."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticUndefined

from monitor.measures.base import AppearsIn, Unit
from monitor.reports.evaluation.report import Severity, Verdict
from monitor.version import VERSION

B = TypeVar("B", bound="Body")

NEXT_CURSOR: Final = "pass it as cursor for the next page; null on the last"


def field(example: Any, description: str | None = None, default: Any = PydanticUndefined, **constraints: Any) -> Any:
    """A field with its part of the body's example."""
    return Field(default, description=description, json_schema_extra={"example": example}, **constraints)


class Body(BaseModel):
    """Every body of the API: no keys beyond those listed."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)

    @classmethod
    def example(cls, **changes: Any) -> dict[str, Any]:
        """The example of the OpenAPI document, with changes: the examples of the fields, by their names in JSON."""
        examples = {
            info.alias or name: deepcopy(info.json_schema_extra["example"])
            for name, info in cls.model_fields.items()
            if isinstance(info.json_schema_extra, dict)
        }
        return examples | changes

    @classmethod
    def of_attributes(cls, source: object, **others: Any) -> Self:
        """The body with the attributes of ``source`` that are called like its fields, and the other fields given."""
        return cls(**{name: getattr(source, name) for name in cls.model_fields if name not in others}, **others)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The schema, with one example of the whole body in place of one of each field."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        for of_field in schema.get("properties", {}).values():
            of_field.pop("example", None)
        if example := cls.example():
            schema["examples"] = [example]
        return schema


@dataclass(frozen=True, slots=True)
class DecodedAs:
    """Beside the type of a field that is long: the type that it is decoded as, which is checked where it is used."""

    type: Any


def reader(model: type[B]) -> Callable[[bytes], B]:
    """A decoder of the JSON form of a model that costs half of pydantic's: msgspec checks keys and types.

    The limits of values are documented by the model and checked where the values are used, with messages of their own.
    """
    struct = msgspec.defstruct(
        model.__name__,
        [
            (name, _decoded_as(info)) if info.is_required() else (name, _decoded_as(info), info.default)
            for name, info in model.model_fields.items()
        ],
        forbid_unknown_fields=True,
    )
    decode = msgspec.json.Decoder(struct).decode
    return lambda body: model.model_construct(**msgspec.structs.asdict(decode(body)))


def _decoded_as(info: FieldInfo) -> Any:
    return next((item.type for item in info.metadata if isinstance(item, DecodedAs)), info.annotation)


def reference(model: type[BaseModel]) -> dict[str, str]:
    """Where the schema of a body is in the OpenAPI document."""
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def request_body(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """The ``openapi_extra`` of a route that reads a JSON body itself."""
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": reference(model)}}}}


Probability = Annotated[float, Field(ge=0, le=1)]
Probabilities = list[Probability] | list[list[Probability]]


class PastMeasureBody(Body):
    """One measure of an earlier window. Null: not computed for this window."""

    unit: Unit = field(
        "ratio", "percent is 0 to 100, ratio is 0 to 1, nats a logarithm of likelihoods, sigma standard deviations"
    )
    value: float = field(0.0317)
    lower: float | None = field(0.0262, "lower end of the 95% confidence interval")
    upper: float | None = field(0.0371, "upper end of the 95% confidence interval")
    null_mean: float | None = field(0.0026, "mean if the model were perfectly calibrated")
    null_q95: float | None = field(0.0049, "95% point if the model were perfectly calibrated")
    p_value: float | None = field(0.005, "share of perfectly calibrated resamples at least as far off")


class MeasureBody(PastMeasureBody):
    """One measure of one window."""

    error_bound: float | None = field(
        3.1e-06,
        "how far value can lie from that of the raw predictions; for TCE, whose bins follow the data, an "
        "estimate that holds nearly always",
    )


class DecompositionBody(Body):
    """A proper score in parts: score = miscalibration - discrimination + uncertainty."""

    miscalibration: float = field(0.0021, "by how much isotonic recalibration lowers the score")
    discrimination: float = field(0.0312, "by how much recalibrated predictions are better than the prevalence")
    uncertainty: float = field(0.1422, "the score of the prevalence")


class PerformanceBody(Body):
    """How good the model is beside its calibration: whether it became worse, or only its probabilities."""

    accuracy: float = field(0.8413, "share of the events that a threshold of 0.5 classifies correctly")
    auc: float | None = field(0.7421, "area under the ROC curve; null where all outcomes are alike")
    average_precision: float | None = field(0.4417, "to be compared with the prevalence; null without positives")
    log_loss: float | None = field(0.3921, "null where it is not finite")


class DiagnosisBody(Body):
    """Is it the prior or the model? Logits are z = logit p. Null: these data do not suffice for the value."""

    verdict: Verdict = field("prior_shift")
    sentence: str = field(
        "Predictions are too high: 20.3% predicted, 17.2% came true. Add -0.26 (give or take 0.05) to every logit, "
        "which multiplies the odds by 0.77; beyond that no fault is seen, but with this many events a slope between "
        "0.97 and 1.05 cannot be excluded.",
        "the finding, and what to do about it",
    )
    p_value: float | None = field(2.1e-24, "combined p-value of the tests of calibration")
    offset: float | None = field(-0.2612, "b of sigmoid(z + b): what has to be added to every logit")
    offset_error: float | None = field(0.0233, "its standard error")
    slope: float | None = field(1.012, "a of sigmoid(a z + c): below 1 where the model is too sure")
    slope_error: float | None = field(0.019, "its standard error")
    slope_lower: float | None = field(0.975, "lower end of its 95% interval")
    slope_upper: float | None = field(1.05, "upper end of its 95% interval")
    error: float | None = field(0.0317, "smCE as it is")
    error_after_offset: float | None = field(0.0024, "smCE after the best offset")
    logit_error_after_offset: float | None = field(
        0.018, "RMS by which logits are off after the best offset, by stretches, slope or contradictions"
    )
    prior_shift_p_value: float | None = field(0.41, "of the hypothesis that all there is is a prior shift")
    severity: Severity | None = field(
        "moderate", "how large the fault is: slight is logits that are off by up to 0.2, moderate by up to 0.5"
    )
    tolerance: float | None = field(0.05, "error of the logits up to which nothing is called a fault")
    detectable_offset: float | None = field(
        0.073, "size of the smallest offset that a verdict would have been given on with probability 0.8"
    )
    detectable_slope_below: float | None = field(0.93, "likewise the nearest slope below 1")
    detectable_slope_above: float | None = field(1.07, "likewise the nearest slope above 1")


_TCE: Final = MeasureBody.example(
    value=61.3, unit="percent", lower=None, upper=None, null_mean=9.8, null_q95=15.2, error_bound=0.4
)


class _OfWindow(BaseModel):
    """A series in a window, and the times that it covers."""

    model: str = field("churn")
    version: str = field("7")
    segment: str = field("all")
    window: str = field("24h")
    from_: str | None = field(
        "2026-11-19T10:00:00.000Z", "prediction times covered, from, included; RFC 3339", alias="from"
    )
    to: str | None = field("2026-11-20T10:00:00.000Z", "prediction times covered, to, excluded; RFC 3339")


class ReportBody(_OfWindow, Body):
    """The calibration of one series in one window."""

    n: int = field(18211, "predictions whose outcome is known or implied, which the measures are of")
    positives: int = field(3127)
    prevalence: float | None = field(0.171709406402724)
    mean_prediction: float | None = field(0.203318447)
    predictions: int = field(20534, "all predictions of the window, with or without an outcome")
    label_coverage: float | None = field(0.886870556151, "n / predictions")
    measures: dict[str, MeasureBody] = field(
        {"tce": _TCE, "smce": MeasureBody.example()}, "by name; empty where the data is insufficient"
    )
    canonical: dict[str, MeasureBody] = field(
        {}, "measures of whole probability vectors by name: skce, where a model of classes has sketches"
    )
    insufficient: str | None = field(None, "why there are no measures, or null")
    omitted: dict[str, str] = field({}, "requested measures that are missing: name to reason")
    decomposition: dict[str, DecompositionBody] = field(
        {"brier": DecompositionBody.example()}, "proper scores in parts: brier and log_loss, where they are finite"
    )
    diagnosis: DiagnosisBody | None = field(
        DiagnosisBody.example(), "null where it was not requested, or is not computed yet"
    )
    performance: PerformanceBody | None = field(
        PerformanceBody.example(), "null where there are no measures, and of the most probable of several classes"
    )
    intervals_outdated_since: str | None = field(
        None,
        "since when intervals, levels, p-values and diagnosis lag behind the values, RFC 3339: they are of "
        "earlier predictions, or not there yet; null where they are of the same",
    )


class EvidenceStateBody(Body):
    """What the sequential evidence on a version says: its state, which a single window does not change."""

    state: Literal["waiting", "quiet", "pending", "firing"] = field(
        "firing",
        "waiting: no labelled prediction is settled; quiet: nothing was found; pending: within a factor of ten of the "
        "line; firing: the line was reached",
    )
    words: str = field("firing: shape", "the state as pages show it")
    sentence: str = field(
        "Predictions of churn 7 are too sure of themselves since 2026-11-20 14:05 UTC: slope 0.59 (0.55 to 0.62), "
        "where 1 is right. Refit on the events since then. The evidence is well past the alert line (130 x)."
    )
    label: Literal["prior_shift", "missing_labels", "shape", "both", "unclear", "not_worse", "harm"] | None = field(
        "shape",
        "what is wrong, of one that is pending or firing; not_worse: outcomes changed for the better; harm: of the map "
        "that serves",
    )
    detector: str | None = field("calibration", "the one that speaks most; null while waiting, as what follows")
    log10_evidence: float | None = field(7.2, "decimal logarithm; of an alarm that fires the most there was")
    log10_line: float | None = field(
        5.1, "that of the line at which an alert fires: the budget of false alarms draws it"
    )
    since: str | None = field("2026-11-20T14:05:00.000Z", "the change that is pending or firing, RFC 3339")
    settled_to: str | None = field("2026-11-21T07:00:00.000Z", "predictions before this time are in it")


class WindowReportBody(ReportBody):
    """The calibration of one series in one window, and what the evidence on its version says."""

    evidence: EvidenceStateBody | None = field(EvidenceStateBody.example(), "null with `as_of`")


class PointBody(Body):
    """What was measured in one window."""

    from_: str = field("2026-11-19T10:00:00.000Z", "prediction times covered, from, included; RFC 3339", alias="from")
    to: str = field("2026-11-20T10:00:00.000Z", "prediction times covered, to, excluded; RFC 3339")
    n: int = field(18211, "predictions whose outcome is known or implied, which the measures are of")
    positives: int = field(3127)
    prevalence: float | None = field(0.171709406402724)
    mean_prediction: float | None = field(0.2033184)
    predictions: int = field(20534, "all predictions of the window, with or without an outcome")
    verdict: Verdict | None = field(
        "prior_shift", "null where intervals, levels and verdict were not computed for this window"
    )
    severity: Severity | None = field("moderate")
    offset: float | None = field(
        -0.2612, "what has to be added to every logit: the prior; of the same windows as verdict"
    )
    offset_error: float | None = field(0.0233, "its standard error")
    slope: float | None = field(1.012, "below 1 where the model is too sure: the shape; of the same windows as verdict")
    slope_lower: float | None = field(0.975, "lower end of its 95% interval")
    slope_upper: float | None = field(1.05, "upper end of its 95% interval")
    measures: dict[str, PastMeasureBody] = field(
        {"smce": PastMeasureBody.example()}, "by name, seven digits; empty where the data were insufficient"
    )


class HistoryBody(Body):
    """Earlier windows of one series."""

    model: str = field("churn")
    version: str = field("7")
    segment: str = field("all")
    window: str = field("24h")
    step: str = field("1h", "each point is of the last window that ends in a step of this length")
    points: list[PointBody] = field([PointBody.example()], "ascending by the end of the window")


class ClassMeasureBody(MeasureBody):
    """One measure of whole probability vectors."""

    method: str | None = field(
        "all events, 512 Fourier features of the kernel",
        "how it was computed, where that depends on the number of events",
    )


_SKCE: Final = ClassMeasureBody.example(
    value=0.000193, lower=0.000081, upper=0.000412, null_mean=0.0, null_q95=0.000012, p_value=3.1e-9, error_bound=None
)
_CLASSWISE: Final = MeasureBody.example(
    value=0.0121, lower=0.0084, upper=0.0158, null_mean=0.0024, null_q95=0.0036, error_bound=0.0
)
_CLASS_EXAMPLE: Final = ReportBody.example(model="species", version="2", performance=None)


class ClassReportBody(_OfWindow, Body):
    """The calibration of a model of many classes."""

    model: str = field("species")
    version: str = field("2")
    n: int = field(18211, "predictions whose outcome is known, which the measures are of")
    predictions: int = field(20534, "all predictions, with or without an outcome")
    label_coverage: float | None = field(0.886870556151, "n / predictions")
    classes: int = field(3)
    accuracy: float | None = field(0.742, "share of the predictions whose most probable class came true")
    prevalence: list[float] = field([0.51, 0.31, 0.18], "of each class; empty without outcomes")
    mean_prediction: list[float] = field([0.53, 0.3, 0.17], "of each class; empty without outcomes")
    measures: dict[str, ClassMeasureBody] = field({"skce": _SKCE}, "of whole vectors, by name")
    classwise: dict[str, MeasureBody] = field(
        {"smce": _CLASSWISE}, "mean over the classes of their measures against the rest, by name"
    )
    insufficient: str | None = field(None, "why there are no measures, or null")
    omitted: dict[str, str] = field({}, "missing measures of whole vectors: name to reason")
    top_label: ReportBody = field(_CLASS_EXAMPLE, "of the largest probability, and whether its class came true")
    each_class: list[ReportBody] = field(
        [{**_CLASS_EXAMPLE, "performance": PerformanceBody.example(), "segment": f"class={k}"} for k in range(3)],
        "of each class against the rest, from class 0 on: segment class=0, ...",
    )


class FailureBody(Body):
    """A report that the last evaluation could not make."""

    model: str = field("churn")
    version: str = field("7")
    segment: str = field("region=eu")
    window: str = field("1h")
    reason: str = field("the events of this window cannot be read")


class ReportsBody(Body):
    """Reports of the latest snapshot."""

    evaluated_at: str | None = field("2026-11-20T18:00:05.000Z", "RFC 3339; null before the first evaluation")
    evaluation: int = field(1207, "counts the evaluations")
    failures: list[FailureBody] = field([])
    next_cursor: str | None = field(None, NEXT_CURSOR)
    reports: list[WindowReportBody] = field([WindowReportBody.example()])


class PolicyBody(Body):
    """The settings of a model."""

    horizon_seconds: float = field(86400.0, "how long after a prediction its outcome still counts")
    lateness_seconds: float = field(3600.0, "how far out of order events may be in their log")
    implied_negative: bool = field(False, "whether no outcome within the horizon means a negative")
    segments: list[str] = field(["region"], "segment keys that become series of their own")
    classes: list[str] = field([], "its classes, each a segment class=...; empty if binary")


class ServesBody(Body):
    """The recalibration map that serves a version."""

    map: str = field("rc_5e2c8f0b7d1a4936", "its id")
    method: str = field("beta", "by which it was made")


class VersionBody(Body):
    """A version of a model, with its segments and windows."""

    version: str = field("7")
    segments: list[str] = field(["all", "region=eu"])
    windows: list[str] = field(["1h", "24h", "7d"])
    evidence: EvidenceStateBody = field(EvidenceStateBody.example(), "what the evidence on it says")
    predictions_per_day: float | None = field(
        20534.0,
        "rate of predictions in the longest window of at most a day, or in the shortest; null while there is none",
    )
    label_coverage: float | None = field(
        0.886870556151, "share of the predictions of that window whose outcome is known or implied"
    )
    serves: ServesBody | None = field(ServesBody.example(), "null: predictions are used as they are")


class HoldBody(Body):
    """The partition that holds the settled edge of a model back."""

    partition: int = field(3)
    reason: Literal["not_read", "behind", "outcomes_silent", "idle"] = field(
        "outcomes_silent",
        "not_read: no replica reads the partition; behind: it is read only up to an earlier time; outcomes_silent: "
        "predictions came and no outcomes; idle: the model is idle in it, and it was not read to its end since",
    )
    detail: str = field("outcome log silent since 2026-11-20T09:12:00.000Z", "the reason in words")


class CapBody(Body):
    """A cap on names that is at least half used, or has made names `other` that windows still reach."""

    setting: str = field("caps.versions", "the setting to change")
    segment_key: str | None = field(None, "the segment key whose values it counts; null for the other caps")
    used: int = field(20, "names that live in the fullest partition")
    limit: int = field(20, "names that may live in a partition")
    folded: int = field(1234, "accepted predictions of which a name became `other`, while windows reach them")
    warning: str | None = field(
        "1,234 predictions count as `other`: 20 of at most 20 versions live in a partition; raise caps.versions, or "
        "send fewer",
        "what happens, and what to do; null while it is less than 90% full and nothing became `other`",
    )


class ModelBody(Body):
    """A model."""

    model: str = field("churn")
    state: Literal["measured", "insufficient", "failed", "waiting"] = field(
        "measured",
        "measured: a report has measures; insufficient: reports, but too little data for any; "
        "failed: no report could be made; waiting: no events yet",
    )
    labels: dict[str, str] = field({"team": "payments"}, "the setting `labels` of the model")
    current_version: str | None = field("7", "the version of a report that names none")
    versions: list[VersionBody] = field([VersionBody.example()])
    watermark: str | None = field("2026-11-20T18:00:00.000Z", "newest event time read, RFC 3339")
    evaluated_at: str | None = field(
        "2026-11-20T18:00:04.000Z", "when its windows were last evaluated, by whichever replica does, RFC 3339"
    )
    settled_to: str | None = field(
        "2026-11-20T08:00:00.000Z", "predictions before this time are final, RFC 3339: mature windows end there"
    )
    held_back_by: HoldBody | None = field(
        HoldBody.example(), "what holds settled_to back; null where it is only the horizon and the allowed lateness"
    )
    policy: PolicyBody | None = field(PolicyBody.example())
    caps: list[CapBody] = field([CapBody.example()], "caps on its names that are at least half used")
    report: str = field("/v1/models/churn/report", "path of its report")


class ModelsBody(Body):
    """Models by name."""

    models: list[ModelBody] = field([ModelBody.example()])
    caps: list[CapBody] = field([], "the cap on undeclared models, where it is at least half used")
    next_cursor: str | None = field(None, NEXT_CURSOR)
    partitions: list[int] = field(
        [0, 1, 2, 3], "partitions of the log that this process reads; reports are of the events in all partitions"
    )


class PipelineBody(Body):
    """The state of reading events, of one replica."""

    phase: Literal[
        "starting", "running", "source_unavailable", "store_unavailable", "schema_unavailable", "stopped", "failed"
    ] = field("running", "running: events are read and saved; otherwise `detail` says why not")
    detail: str = field("", "what is wrong and what to do; empty where nothing is")
    partitions: list[int] = field([0, 1, 2, 3], "partitions of the log that this replica reads")
    records_behind: int | None = field(
        120, "records in these partitions that are not read yet; null while nothing is read"
    )
    saved_at: str | None = field("2026-11-20T18:00:02.000Z", "last checkpoint, RFC 3339; null before the first")


class ReplicaBody(Body):
    """A replica."""

    id: str = field("calibration-monitor-0-7-5e2c8f0b", "machine, process and a random part")
    roles: list[str] = field(["consume", "evaluate", "serve"], "the setting `roles`")
    started: str = field("2026-11-20T09:00:00.000Z", "by the store's clock, RFC 3339")
    seen: str = field("2026-11-20T18:00:02.000Z", "when it last said so to the store, RFC 3339")
    models: list[str] = field(["churn", "fraud"], "models that it evaluates, and whose series it exports")


class ReplicasBody(Body):
    """Replicas by id."""

    replicas: list[ReplicaBody] = field([ReplicaBody.example()])


class DataBody(Body):
    """Predictions with their outcomes, to be reported on."""

    p: Annotated[Probabilities, DecodedAs(list[float | list[float]])] = field(
        [0.91, 0.32, 0.66, 0.67, 0.57, 0.98, 0.41, 0.19],
        "predictions P(y = 1), or of each event the probabilities of all classes; [P(y = 0), P(y = 1)] is P(y = 1)",
    )
    y: list[Annotated[float, Field(ge=0, multiple_of=1)] | bool | None] = field(
        [1, 0, 1, 1, 0, 1, 0, 0],
        "outcomes, as many: 0 or 1, true or false, or null where unknown; of class probabilities the "
        "class that came true, from 0 on",
    )
    weight: list[Annotated[float, Field(ge=0)]] | None = Field(
        None,
        description="weights, as many; measures that need whole counts are left out then. Not with class probabilities",
    )
    measures: list[str] | None = Field(
        None,
        description="names of the measures wanted, of those that GET /v1/measures lists; the usual ones if left out",
    )
    model: str = field("churn", "the name of the model in the report", "unnamed")
    version: str = Field("unversioned", description="likewise")
    segment: str = Field("all", description="likewise")


class RejectedBody(Body):
    """An event that was refused."""

    index: int = field(1, "its place in the request, from 0")
    reason: str = field("invalid_outcome", "that of a dead letter, or forbidden_model")
    detail: str = field("y must be 0 or 1, got 2", "names key and value and says what is allowed")


class TakenBody(Body):
    """The result of the events of a request."""

    accepted: int = field(1, "written, and durable")
    rejected: int = field(1)
    errors: list[RejectedBody] = field([RejectedBody.example()], "the first hundred rejected events")


class MeasureHelpBody(Body):
    """The description of a measure."""

    name: str = field("tce", "its key in a report")
    title: str = field("TCE")
    help: str = field("Percentage of predictions that an exact binomial test refutes.")
    unit: Unit = field("percent")
    stands_in: AppearsIn = field(
        "windows", "windows: in every report; reports: in those of files and of data sent along; request: where named"
    )
    in_windows: bool = field(True, "whether the windows of this service are measured by it")


class MeasuresBody(Body):
    """All measures."""

    measures: list[MeasureHelpBody] = field([MeasureHelpBody.example()])


class HealthBody(Body):
    """The process answers."""

    status: Literal["ok"] = field("ok")
    version: str = field(VERSION)


class ReadyBody(Body):
    """Partitions are assigned, restored and read."""

    status: Literal["ready"] = field("ready")
    partitions: list[int] = field([0, 1, 2, 3], "partitions of the log that this process holds and reports on")


class LogInBody(Body):
    """The credential of a log-in."""

    key: str = field(
        "cmk_0123456789ab_Zm9yIGV4YW1wbGUgb25seSwgdGhpcyBpcyBub2tleSE",
        "an API key, or a token of the configured issuer",
    )


class SimulationBody(Body):
    """Clock of simulated events: it runs at its speed until it has caught up with the real one."""

    began_at: str = field("2026-11-28T20:00:00.000Z", "RFC 3339: when it began to run, by the clock")
    start: str = field("2026-10-29T20:00:00.000Z", "RFC 3339: the simulated time then")
    speed: float = field(120.0, "simulated seconds per second")


class SessionBody(Body):
    """The caller and their roles."""

    name: str = field("key:nightly-refits", "as the audit trail has it")
    roles: list[str] = field(
        ["promote:churn", "write"], "read, write or promote, for all models, or for one as in promote:churn"
    )
    simulated_now: str | None = field(
        None,
        "RFC 3339: where the events of a simulation are, as those of `monitor demo`, whose time runs faster; null: "
        "events are of the clock's time",
    )
    simulation: SimulationBody | None = field(
        None, "how that time runs, so that a time of the clock, such as that of a refit, can be shown in it; or null"
    )


class ProblemBody(BaseModel):
    """RFC 9457 problem details. Some kinds have further members, such as ``errors``."""

    type: str = Field(description="identifies the problem for programs")
    title: str
    status: int
    detail: str = Field(description="names key and value and says what to do")
    instance: str = Field(description="the requested path")
    request_id: str = Field(description="as in the header X-Request-ID, and in the service's log")
