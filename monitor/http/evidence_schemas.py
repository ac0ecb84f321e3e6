"""The bodies of sequential evidence."""

from monitor.http.schemas import Body, field

_SINCE = "2026-11-20T14:05:00.000Z"


class RaisedBody(Body):
    """What an alarm that fires was raised for."""

    at: str = field("2026-11-20T17:10:00.000Z", "settled time at which it was raised, for the last time; RFC 3339")
    log10_evidence: float = field(5.3, "decimal logarithm of the evidence then")
    segment: str = field("all", "of the series that spoke most for it; all: the whole model")
    since: str = field(_SINCE, "when the change was")
    segments: list[str] = field([], "all segments to blame, the strongest first; few of them wrongly")


class DetectorBody(Body):
    """The evidence of one detector on one version."""

    detector: str = field(
        "calibration",
        "calibration, prevalence, change or serving_map; of dependent outcomes calibration_even and calibration_odd: "
        "see docs/alarms.md",
    )
    log10_evidence: float | None = field(
        7.2, "decimal logarithm of the evidence, while an alarm fires of the most there was; null while it is 0"
    )
    log10_line: float = field(5.1, "that of the line at which an alarm is raised: the budget of false alarms draws it")
    segment: str = field("all", "of the series that speaks most; all: the whole model")
    since: str = field(_SINCE, "the change that it speaks for, in the time of predictions; RFC 3339")
    sentence: str = field("evidence since 2026-11-20T14:05:00.000Z: 10^7.2; one false alarm a year is 10^5.1")
    alarm: RaisedBody | None = field(RaisedBody.example(), "null while none fires")


class ShockBody(Body):
    """How much the logits of all events of a period of one horizon are off together, from period to period."""

    deviation: float = field(0.08, "standard deviation in logits")
    lower: float = field(0.03, "lower end of its 95% confidence interval")
    upper: float = field(0.15, "upper end of its 95% confidence interval")
    periods: int = field(14, "periods with outcomes")
    covered: bool = field(False, "whether the tolerance may cover it: twice the lower end is not more")
    sentence: str = field("The common shock of a horizon is 0.08 logits (0.03 to 0.15, 14 periods), which ...")


class PastLevelsBody(Body):
    """The evidence of one detector at each time."""

    log10_evidence: list[float | None] = field([1.3, 6.9], "null where it was 0")
    log10_line: list[float | None] = field([5.1, 5.1])
    firing: list[bool] = field([False, True], "whether an alarm fired")


class EvidencePointsBody(Body):
    """The history of the evidence on a version, in columns."""

    to: list[str] = field(
        ["2026-11-20T16:00:00.000Z", "2026-11-20T17:00:00.000Z"],
        "predictions before this time were in it; ascending, RFC 3339",
    )
    detectors: dict[str, PastLevelsBody] = field({"calibration": PastLevelsBody.example()}, "those that had evidence")


class VersionEvidenceBody(Body):
    """The evidence on one version."""

    version: str = field("7")
    settled_to: str = field("2026-11-20T17:40:00.000Z", "predictions before this time are in it; RFC 3339")
    detectors: list[DetectorBody] = field([DetectorBody.example()])
    resting: str | None = field(
        None, "why detectors of predictions have no evidence: the map that serves cannot be applied to closings"
    )
    shock: ShockBody | None = field(
        ShockBody.example(), "null while there are fewer than two settled periods with outcomes of both kinds"
    )
    history: EvidencePointsBody | None = field(EvidencePointsBody.example(), "null unless `from` is given")


class EvidenceBody(Body):
    """The evidence on a model."""

    model: str = field("churn")
    step: str | None = field("1h", "the history has a point for each; null unless `from` is given")
    versions: list[VersionEvidenceBody] = field([VersionEvidenceBody.example()])


class FleetRowBody(Body):
    """The evidence on one version, of its strongest detector: one that fires, or whose evidence is nearest its line."""

    model: str = field("churn")
    version: str = field("7")
    settled_to: str = field("2026-11-20T17:40:00.000Z", "predictions before this time are in it; RFC 3339")
    detector: str = field("calibration")
    log10_evidence: float | None = field(7.2, "null while it is 0")
    log10_line: float = field(5.1)
    firing: bool = field(True, "whether an alarm fires")
    segment: str = field("all", "of the series that speaks most; all: the whole model")
    since: str = field(_SINCE, "the change that it speaks for")
    above_line: list[float | None] = field(
        [-3.8, 1.8],
        "at each of `times` the decimal logarithm of evidence over line, the largest of the step and of all detectors; "
        "at least 0 while an alarm fires, null where there is none",
    )


class FleetEvidenceBody(Body):
    """The evidence on all versions."""

    step: str = field("3h", "of each step the largest value is shown")
    times: list[str] = field(
        ["2026-11-20T15:00:00.000Z", "2026-11-20T18:00:00.000Z"], "ends of the steps, ascending; RFC 3339"
    )
    versions: list[FleetRowBody] = field(
        [FleetRowBody.example()], "those that fire first, then by how far evidence is above its line"
    )
