"""The bodies of what pages draw: columns of numbers, with the digits that can be seen."""

from typing import Literal

from pydantic import Field

from monitor.http.schemas import Body, field
from monitor.measures.base import Unit

Number = float | None


class CurveBody(Body):
    """The CORP curve and its consistency band, at up to 128 predictions."""

    prediction: list[float] = field([0.021, 0.18, 0.55], "ascending")
    n: list[float] = field([5210, 8120, 4881], "events behind each point; sums of weights where there are weights")
    rate: list[float] = field([0.0312, 0.2012, 0.4512], "the best estimate of how often it comes true that never falls")
    chance_lower: list[float] = field([0.017, 0.161, 0.521], "95% of calibrated models have a curve above, here")
    chance_upper: list[float] = field([0.025, 0.199, 0.579], "and below")
    witness: list[Number] = field(
        [0.21, 0.05, -0.31],
        "of smCE: above 0 where the model says too little, below 0 where it says too much",
    )


class BinsBody(Body):
    """Ten bins of one width on the axis, without the empty ones."""

    from_: list[float] = field([0.0, 0.5], "probabilities", alias="from")
    to: list[float] = field([0.1, 0.6])
    n: list[float] = field([9120, 4011])
    positives: list[float] = field([431, 1890])
    prediction: list[float] = field([0.0412, 0.5501], "mean prediction")
    rate: list[float] = field([0.0473, 0.4712], "positives / n")
    lower: list[float] = field([0.0431, 0.4558], "lower end of the rate's 95% interval (Wilson's)")
    upper: list[float] = field([0.0518, 0.4867], "upper end of the rate's 95% interval")
    chance_lower: list[float] = field([0.0371, 0.5348], "at least 95% of calibrated models have a rate from here")
    chance_upper: list[float] = field([0.0453, 0.5657], "to here")


class ColumnsBody(Body):
    """Forty columns of one width from end to end of the axis; the outermost also hold what lies beyond."""

    positives: list[float] = field([212, 219])
    negatives: list[float] = field([5110, 3579])
    surplus: list[Number] = field([21.3, -12.7], "positives beyond the sum of the predictions")
    chance: list[Number] = field([28.2, 25.9], "by how much at most, in 95% of calibrated models")


class AxisBody(Body):
    """What is summed up by an axis."""

    from_: Number = field(-5.412, "its lower end: a probability, or a logit on the axis of logits", alias="from")
    to: Number = field(3.107, "its upper end")
    bins: BinsBody = field(BinsBody.example())
    columns: ColumnsBody = field(ColumnsBody.example())


class PlaceBody(Body):
    """A range of predictions that are too low, or too high."""

    from_: float = field(0.34, "lowest prediction", alias="from")
    to: float = field(0.97, "highest prediction")
    prediction: float = field(0.6512, "mean prediction")
    rate: float = field(0.5893, "how often it came true")
    share: Number = field(0.62, "its part in all that predictions and outcomes differ by")


class TestBody(Body):
    """TCE's test by bins of similar predictions: up to 48, each of one or several bins of the test."""

    alpha: float = field(0.05, "level of the test")
    from_: list[float] = field([0.0, 0.112], "lower edges", alias="from")
    to: list[float] = field([0.112, 1.0], "upper edges")
    n: list[int] = field([9120, 9091])
    positives: list[int] = field([431, 2696])
    too_low: list[int] = field([1204, 0], "predictions that the outcomes refute as too low")
    too_high: list[int] = field([0, 3110], "predictions that they refute as too high")


class FitBody(Body):
    """The Cox fit: sigmoid(z + offset), and sigmoid(slope z + intercept), of logits z. Null: none, or infinite."""

    offset: Number = field(-0.2612)
    offset_error: Number = field(0.0233, "standard error")
    slope: Number = field(1.012, "below 1 where the model is too sure")
    slope_lower: Number = field(0.975, "lower end of its 95% interval")
    slope_upper: Number = field(1.05, "upper end of its 95% interval")
    intercept: Number = field(-0.2591)


class DiagramsBody(Body):
    """What the diagrams of some labelled predictions show."""

    axis: Literal["probability", "logit"] = field(
        "probability", "which axis shows them better: logit where most predictions are below 10%, or above 90%"
    )
    curve: CurveBody = field(CurveBody.example())
    probability: AxisBody = field({**AxisBody.example(), "from": 0.0, "to": 1.0})
    logit: AxisBody = field(AxisBody.example())
    places: list[PlaceBody] = field(
        [PlaceBody.example()],
        "where predictions are too high or too low by more than two standard deviations, ascending; of use where smCE "
        "is significant",
    )
    test: TestBody | None = field(TestBody.example(), "null where events have weights")
    fit: FitBody = field(FitBody.example())


class WindowDiagramsBody(Body):
    """The diagrams of a window, or of a span of time."""

    model: str = field("churn")
    version: str = field("7")
    segment: str = field("all")
    window: str | None = field("24h", "null where a span of time was requested")
    from_: str = field("2026-11-19T10:00:00.000Z", "prediction times covered, from, included; RFC 3339", alias="from")
    to: str = field("2026-11-20T10:00:00.000Z", "prediction times covered, to, excluded; RFC 3339")
    n: int = field(18211, "predictions whose outcome is known or implied, which the diagrams are of")
    positives: int = field(3127)
    predictions: int = field(20534, "all predictions of that time, with or without an outcome")
    diagrams: DiagramsBody | None = Field(
        description="null where no prediction has an outcome", json_schema_extra={"example": DiagramsBody.example()}
    )


class SegmentBody(Body):
    """One segment, a value for each of the steps; null where it has no window that ends in the step."""

    segment: str = field("region=eu")
    n: list[int | None] = field([812, 790], "predictions whose outcome is known or implied")
    gap: list[Number] = field([0.0312, 0.0297], "mean prediction less prevalence: above 0 where it is too high")
    value: list[Number] = field([0.0331, 0.0302], "the measure")
    null_q95: list[Number] = field([0.0172, 0.0175], "its 95% point if the model were perfectly calibrated")
    q_value: list[Number] = field(
        [0.0125, 0.02], "false-discovery rate at which it is called miscalibrated among the segments of the step"
    )


class SegmentsBody(Body):
    """One measure of all segments of a version over time."""

    model: str = field("churn")
    version: str = field("7")
    window: str = field("24h")
    measure: str = field("smce")
    unit: Unit = field("ratio")
    step: str = field("6h", "each value is of the last window that ends in a step of this length")
    steps: list[str] = field(
        ["2026-11-20T00:00:00.000Z", "2026-11-20T06:00:00.000Z"],
        "starts of the steps, RFC 3339, without those in which no window ends",
    )
    segments: list[SegmentBody] = field([SegmentBody.example()], "by name, with `all` among them")


class CohortBody(Body):
    """The predictions of one age."""

    cohort: str = field("25-50%", "age in parts of the horizon; mature: beyond the horizon, and settled")
    from_seconds: float = field(21600.0, "age from which they are")
    to_seconds: float | None = field(43200.0, "age below which they are; null where there is no limit")
    predictions: int = field(5120)
    labelled: int = field(3301, "those with an outcome; implied negatives do not count")


class VersionCoverageBody(Body):
    """How many predictions of a version have an outcome, by age."""

    version: str = field("7")
    cohorts: list[CohortBody] = field([CohortBody.example()], "ascending by age")


class CoverageBody(Body):
    """How many predictions of a model have an outcome, by age."""

    model: str = field("churn")
    evaluated_at: str | None = field(
        "2026-11-20T18:00:04.000Z", "when it was counted, RFC 3339; null before the first evaluation of the model"
    )
    versions: list[VersionCoverageBody] = field([VersionCoverageBody.example()], "by name")
