"""GET /v1/evidence and /v1/models/{model}/evidence: sequential evidence now, and how it went."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.durations import format_ms
from monitor.errors import UnknownSeries
from monitor.events.times import format_time
from monitor.http.authorization import Of, needs, readable
from monitor.http.problems import Problem, wrong_parameter
from monitor.http.request_parsing import Parameters, parameter, parse_step, parse_time
from monitor.http.responses import NOT_MODIFIED, problems, tagged_response
from monitor.http.schemas import Body, field
from monitor.http.services import Services, ServicesOf
from monitor.store.evidence_history import DETECTORS, NO_POINTS, PEAK_MS, STEP_MS, thinned
from monitor.store.model_evidence import NO_EVIDENCE, EvidenceLevel, Shock, VersionEvidence, leading
from monitor.store.series import DAY_MS
from monitor.windows.evidence_history import fitting_step
from monitor.windows.lookup import check_model, listed

_SINCE = "2026-11-20T14:05:00.000Z"

router: Final = APIRouter(tags=["evidence"])

MAX_POINTS: Final = 1_000
"""Most points of a version's history in one answer."""
MAX_STEPS: Final = 240
"""Most steps of the fleet's history in one answer."""
_FLEET_MS: Final = 14 * DAY_MS
_FLEET_STEPS: Final = 120
"""Most steps where a request names no step: as many as a small figure can show."""

_FROM: Final = "RFC 3339, or milliseconds since the epoch"
_STEP: Final = "the shortest that fits if left out"


class RaisedBody(Body):
    """The alarm behind an alert that fires: when it was raised, and by which evidence."""

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
        "see docs/alarms.md and docs/dependent-outcomes.md",
    )
    log10_evidence: float | None = field(
        7.2, "decimal logarithm of the evidence, while an alarm fires of the most there was; null while it is 0"
    )
    log10_line: float = field(5.1, "that of the line at which an alarm is raised: the budget of false alarms draws it")
    segment: str = field("all", "of the series that speaks most; all: the whole model")
    since: str = field(_SINCE, "the change that it speaks for, in the time of predictions; RFC 3339")
    sentence: str = field(
        "evidence since 2026-11-20T14:05:00.000Z: 10^7.2; one false alarm a year of all models together is 10^5.1"
    )
    alarm: RaisedBody | None = field(RaisedBody.example(), "null while none fires")


class ShockBody(Body):
    """How much the logits of all events of a period of one horizon are off together, from period to period."""

    deviation: float = field(0.08, "standard deviation in logits")
    lower: float = field(0.03, "lower end of its 95% confidence interval")
    upper: float = field(0.15, "upper end of its 95% confidence interval")
    periods: int = field(14, "periods with outcomes")
    covered: bool = field(False, "whether the tolerance may cover it: twice the lower end is not more")
    sentence: str = field("Outcomes of this model swing together from horizon to horizon, by 0.08 logits ...")


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


class EvidenceQuery(Parameters):
    """The part of the evidence on a model that is requested."""

    version: str = parameter("only this one; all that have evidence if left out", "7")
    from_: str = parameter(
        f"also the history since this settled time: {_FROM}; no history if left out",
        "2026-11-06T10:00:00Z",
        alias="from",
    )
    to: str = parameter("the history up to this time; the newest if left out", "2026-11-20T10:00:00Z")
    step: str = parameter(f"the last point of each step, such as 1h, at least 10m; {_STEP}", "1h")
    points: int = parameter(
        "where no step is named, the shortest with at most so many points", default=MAX_POINTS, ge=1, le=MAX_POINTS
    )


class FleetQuery(Parameters):
    """The part of the history of the fleet that is requested."""

    from_: str = parameter(
        f"since this settled time: {_FROM}; 14 days before `to` if left out", "2026-11-06T10:00:00Z", alias="from"
    )
    to: str = parameter("up to this time; the newest that is settled if left out", "2026-11-20T10:00:00Z")
    step: str = parameter(f"the largest value of each step, a multiple of 3h; {_STEP}", "3h")


@router.get(
    "/v1/evidence",
    dependencies=[needs(Role.READ, Of.ANY)],
    summary="The evidence on all models",
    description="A row for each version: its strongest detector, and how far evidence was above its line over time, "
    "for small figures beside each other. The answer has an `ETag`: send it as `If-None-Match` to get 304 while "
    "nothing has changed.",
    response_model=FleetEvidenceBody,
    response_description="The rows; none where there is no evidence yet",
    responses=NOT_MODIFIED | problems(422, 503),
)
async def fleet(request: Request, services: ServicesOf, query: Annotated[FleetQuery, Query()]) -> Response:
    models = readable(request)
    snapshot = services.latest().snapshot
    versions = {
        (model, version): found
        for model, part in snapshot.models.items()
        if models is None or model in models
        for version, found in part.evidence.versions.items()
        if found.levels
    }
    newest_ms = max((found.to_ms for found in versions.values()), default=services.clock.now_ms())
    to_ms = parse_time(query.to, "to") if query.to else newest_ms
    from_ms = parse_time(query.from_, "from") if query.from_ else to_ms - _FLEET_MS
    _check_order(query, from_ms, to_ms)
    step_ms = parse_step(query.step, PEAK_MS) if query.step else fitting_step(from_ms, to_ms, _FLEET_STEPS, PEAK_MS)
    if step_ms % PEAK_MS:
        raise wrong_parameter(f"step must be a multiple of {format_ms(PEAK_MS)}, got {query.step}")
    steps = (to_ms - 1) // step_ms - (from_ms - 1) // step_ms + 1
    if steps > MAX_STEPS:
        raise _too_many(steps, MAX_STEPS, fitting_step(from_ms, to_ms, MAX_STEPS, PEAK_MS))

    def read() -> Response:
        above = services.evidence_history.read_peaks(models, step_ms, from_ms=from_ms, to_ms=to_ms)
        ends_ms = step_ms * ((from_ms - 1) // step_ms + 1 + np.arange(steps))
        rows = sorted((_row(*key, found) for key, found in versions.items()), key=_rank)
        for row in rows:
            of_row = above.get((row["model"], row["version"]))
            row["above_line"] = [None] * steps if of_row is None else _numbers(of_row)
        body = {
            "step": format_ms(step_ms),
            "times": [format_time(end_ms) for end_ms in ends_ms.tolist()],
            "versions": rows,
        }
        return tagged_response(request, body, compress=True)

    return await services.lookups.run(read)


@router.get(
    "/v1/models/{model:path}/evidence",
    dependencies=[needs(Role.READ, Of.MODEL)],
    summary="The evidence on a model",
    description="Of each version and detector: how much evidence there is, the line at which an alarm is raised, since "
    "when and of which segment; the common shock; and, with `from`, how evidence went. See docs/alarms.md. The answer "
    "has an `ETag`: send it as `If-None-Match` to get 304 while nothing has changed.",
    response_model=EvidenceBody,
    response_description="The evidence; no versions while nothing is settled",
    responses=NOT_MODIFIED | problems(404, 422, 503),
)
async def evidence(
    request: Request, services: ServicesOf, model: str, query: Annotated[EvidenceQuery, Query()]
) -> Response:
    from_ms = parse_time(query.from_, "from") if query.from_ else None
    to_ms = parse_time(query.to, "to") if query.to else None
    step_ms = parse_step(query.step, STEP_MS) if query.step else None
    if from_ms is None and (to_ms is not None or step_ms is not None):
        raise wrong_parameter("to and step are of the history: name from as well, the time it begins")
    snapshot = services.latest().snapshot
    check_model({*snapshot.models, *services.declared}, model)
    found = snapshot.models[model].evidence.versions if model in snapshot.models else {}
    if query.version and query.version not in found:
        raise UnknownSeries(
            f"no evidence on version {query.version!r} of model {model!r}; there is of {listed(found.keys())}"
        )
    versions = [_version(services, *one) for one in sorted(found.items()) if query.version in ("", one[0])]
    if from_ms is None:
        return tagged_response(request, {"model": model, "step": None, "versions": versions})
    newest_ms = max((one.to_ms for one in found.values()), default=services.clock.now_ms())
    until_ms = newest_ms if to_ms is None else to_ms
    _check_order(query, from_ms, until_ms)

    def read() -> Response:
        points = services.evidence_history.read(model, from_ms=from_ms, to_ms=until_ms)
        shown = [points[row["version"]] for row in versions if row["version"] in points]
        first_ms = min((int(of["to_ms"][0]) for of in shown if of.size), default=until_ms)
        used_ms = step_ms or fitting_step(first_ms, until_ms, query.points)
        for row in versions:
            thin = thinned(points.get(row["version"], NO_POINTS), used_ms)
            if thin.size > MAX_POINTS:
                raise _too_many(thin.size, MAX_POINTS, fitting_step(first_ms, until_ms, MAX_POINTS))
            row["history"] = _history(thin)
        return tagged_response(request, {"model": model, "step": format_ms(used_ms), "versions": versions})

    return await services.lookups.run(read)


def _version(services: Services, version: str, found: VersionEvidence) -> dict[str, Any]:
    return {
        "version": version,
        "settled_to": format_time(found.to_ms),
        "detectors": [_detector(services, *one) for one in found.levels.items()],
        "resting": found.resting or None,
        "shock": None if found.shock is None else _shock(found.shock),
        "history": None,
    }


def _detector(services: Services, name: str, level: EvidenceLevel) -> dict[str, Any]:
    raised = level.raised
    return {
        "detector": name,
        **_level(level),
        "sentence": f"evidence since {format_time(level.since_ms)}: {_power(level.log10_evidence)}; "
        f"{_budget(services.false_alarms_per_year)} is {_power(level.log10_line)}",
        "alarm": None
        if raised is None
        else {
            "at": format_time(raised.end_ms),
            "log10_evidence": raised.log10_evidence,
            "segment": raised.segment,
            "since": format_time(raised.since_ms),
            "segments": raised.segments,
        },
    }


def _level(level: EvidenceLevel) -> dict[str, Any]:
    return {
        "log10_evidence": level.log10_evidence if level.log10_evidence > NO_EVIDENCE else None,
        "log10_line": level.log10_line,
        "segment": level.segment,
        "since": format_time(level.since_ms),
    }


def _shock(shock: Shock) -> dict[str, Any]:
    numbers = {name: getattr(shock, name) for name in ("deviation", "lower", "upper", "periods")}
    return numbers | {"covered": shock.covered, "sentence": shock.sentence}


def _power(log10: float) -> str:
    return f"10^{log10:.1f}" if log10 > NO_EVIDENCE else "0"


def _budget(per_year: float) -> str:
    alarms = "one false alarm" if per_year == 1.0 else f"{per_year:g} false alarms"
    return f"{alarms} a year of all models together"


def _row(model: str, version: str, found: VersionEvidence) -> dict[str, Any]:
    name = leading(found.levels)
    level = found.levels[name]
    return {
        "model": model,
        "version": version,
        "settled_to": format_time(found.to_ms),
        "detector": name,
        **_level(level),
        "firing": level.raised is not None,
    }


def _rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
    value = NO_EVIDENCE if row["log10_evidence"] is None else row["log10_evidence"]
    return not row["firing"], row["log10_line"] - value, row["model"], row["version"]


def _history(points: Any) -> dict[str, Any]:
    has_line = ~np.isnan(points["log10_line"])
    return {
        "to": [format_time(to_ms) for to_ms in points["to_ms"].tolist()],
        "detectors": {
            name: {
                "log10_evidence": _numbers(points["log10_evidence"][:, at]),
                "log10_line": _numbers(points["log10_line"][:, at]),
                "firing": points["firing"][:, at].tolist(),
            }
            for at, name in enumerate(DETECTORS)
            if has_line[:, at].any()
        },
    }


def _numbers(values: Any) -> list[float]:
    """Round to three digits after the point, which a figure shows; nan becomes null in JSON."""
    rounded: list[float] = np.round(np.asarray(values, np.float64), 3).tolist()
    return rounded


def _check_order(query: EvidenceQuery | FleetQuery, from_ms: int, to_ms: int) -> None:
    if from_ms > to_ms:
        until = query.to or format_time(to_ms)
        raise wrong_parameter(f"from must not be later than to, got {query.from_} and {until}")


def _too_many(points: int, most: int, fitting_ms: int) -> Problem:
    return wrong_parameter(
        f"the history would have {points:,} points of a version, and an answer has at most {most:,}: set "
        f"step={format_ms(fitting_ms)}, or a later from"
    )
