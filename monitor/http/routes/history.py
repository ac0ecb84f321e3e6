"""What was measured in earlier windows: of one series, and of all segments of a version."""

from math import isnan
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.durations import format_ms
from monitor.errors import InputError
from monitor.events.model import ALL, SeriesKey
from monitor.events.times import format_known, format_time
from monitor.http.authorization import Of, needs
from monitor.http.diagram_schemas import SegmentsBody
from monitor.http.problems import wrong_parameter
from monitor.http.request_parsing import Parameters, parameter, parse_step, parse_time
from monitor.http.responses import NOT_MODIFIED, problems, tagged_response
from monitor.http.schemas import HistoryBody
from monitor.http.services import Services, ServicesOf
from monitor.reports.diagrams.document import short
from monitor.reports.evaluation.report import Report, ReportKey, leading_measure
from monitor.store.history import FIELDS
from monitor.store.series import MINUTE_MS
from monitor.windows.history import CANONICAL, fitting_step, reports_of, unit_of
from monitor.windows.lookup import check_series, listed, no_window

router: Final = APIRouter(tags=["reports"])

MAX_VALUES: Final = 10_000
"""Values of measures in one answer."""

_SEGMENT_COLUMNS: Final = ("gap", "value", "null_q95", "q_value")
_DIAGNOSIS: Final = ("verdict", "severity", "offset", "offset_error", "slope", "slope_lower", "slope_upper")
_COUNTS: Final = ("n", "positives", "prevalence", "mean_prediction", "predictions")


class SpanQuery(Parameters):
    """The windows that are requested."""

    window: str = parameter("the first of those declared if left out", "24h")
    from_: str = parameter(
        "windows that end there or later: RFC 3339, or milliseconds since the epoch; "
        "the oldest that are kept if left out",
        "2026-11-20T10:00:00Z",
        alias="from",
    )
    to: str = parameter("windows that end there or earlier; the newest if left out", "2026-11-21T10:00:00Z")
    step: str = parameter(
        "the last window that ends in each step, such as 15m or 6h, at least 1m; the shortest with "
        f"which the answer has at most {MAX_VALUES} values if left out",
        "1h",
    )
    version: str = parameter("the one with the newest predictions if left out", "7")

    def span_ms(self) -> tuple[int | None, int | None]:
        """The ends of the span. Raises Problem (422) for times that are none."""
        from_ms = parse_time(self.from_, "from") if self.from_ else None
        to_ms = parse_time(self.to, "to") if self.to else None
        if from_ms is not None and to_ms is not None and from_ms > to_ms:
            raise wrong_parameter(f"from must not be later than to, got {self.from_} and {self.to}")
        return from_ms, to_ms


class HistoryQuery(SpanQuery):
    """The part of the history that is requested."""

    measure: str = parameter("only this measure; all if left out", "smce")
    segment: str = parameter("all if left out: the whole model", "region=eu")
    points: int = parameter(
        "where no step is named, the shortest with at most so many points", default=MAX_VALUES, ge=1, le=MAX_VALUES
    )


class SegmentsQuery(SpanQuery):
    """The measure and the windows of the segments that are requested."""

    measure: str = parameter("smce if left out, or the first measure of windows", "smce")


@router.get(
    "/v1/models/{model:path}/history",
    dependencies=[needs(Role.READ, Of.MODEL)],
    summary="Earlier reports of one series",
    description="What was measured in each window of one series, ascending by the window's end: counts, measures with "
    "intervals and levels, the verdict, and the offset and slope of the logits. It is kept for `history.retention`, "
    "the older the sparser. "
    "The answer has an `ETag`: send it as `If-None-Match` to get 304 while nothing has changed.",
    response_model=HistoryBody,
    response_description="The points; none where nothing was measured in that time",
    responses=NOT_MODIFIED | problems(404, 422, 503),
)
async def history(
    request: Request, services: ServicesOf, model: str, query: Annotated[HistoryQuery, Query()]
) -> Response:
    from_ms, to_ms = query.span_ms()
    step_ms = parse_step(query.step, MINUTE_MS) if query.step else None

    def read() -> Response:
        measures = _measures(services, query.measure)
        key = _key(services, model, query, query.segment or ALL)
        max_points = MAX_VALUES // len(measures)
        points, used_ms = services.history.read(
            key, from_ms=from_ms, to_ms=to_ms, step_ms=step_ms, max_points=min(max_points, query.points)
        )
        if points.to_ms.size > max_points:
            fitting = format_ms(fitting_step(points, max_points))
            raise wrong_parameter(
                f"step={format_ms(used_ms)} makes {points.to_ms.size * len(measures):,} values, and an answer has at "
                f"most {MAX_VALUES:,}: set step={fitting}, or name one measure or a shorter time"
            )
        body = {
            **key.series._asdict(),
            "window": key.window,
            "step": format_ms(used_ms),
            "points": [_to_dict(report) for report in reports_of(key, points, measures)],
        }
        return tagged_response(request, body)

    return await services.lookups.run(read)


@router.get(
    "/v1/models/{model:path}/segments",
    dependencies=[needs(Role.READ, Of.MODEL)],
    summary="One measure of all segments over time",
    description="For whom a model is wrong, and since when: a measure of every segment of a version (and of `all`) in "
    "the windows of common steps, in columns. `q_value` corrects for the number of segments. "
    "The answer has an `ETag`: send it as `If-None-Match` to get 304 while nothing has changed.",
    response_model=SegmentsBody,
    response_description="The segments by name; none where nothing was measured in that time",
    responses=NOT_MODIFIED | problems(404, 422, 503),
)
async def segments(
    request: Request, services: ServicesOf, model: str, query: Annotated[SegmentsQuery, Query()]
) -> Response:
    from_ms, to_ms = query.span_ms()
    step_ms = parse_step(query.step, MINUTE_MS) if query.step else None

    def read() -> Response:
        measures = _measures(services, query.measure)
        measure = leading_measure(measures)
        key = _key(services, model, query, ALL)
        of = services.history.segments(
            key.series,
            key.window,
            measure,
            from_ms=from_ms,
            to_ms=to_ms,
            step_ms=step_ms,
            max_values=MAX_VALUES,
        )
        if (values := of.n.size) > MAX_VALUES:
            raise wrong_parameter(
                f"step={format_ms(of.step_ms)} makes {values:,} values of {len(of.segments)} segments, and an answer "
                f"has at most {MAX_VALUES:,}: set a longer step, or name a shorter time"
            )
        body = {
            "model": model,
            "version": key.series.version,
            "window": key.window,
            "measure": measure,
            "unit": unit_of(measure),
            "step": format_ms(of.step_ms),
            "steps": [format_time(start_ms) for start_ms in of.start_ms.tolist()],
            "segments": [
                {
                    "segment": segment,
                    "n": [None if isnan(n) else int(n) for n in of.n[row].tolist()],
                    **{name: short(getattr(of, name)[row]) for name in _SEGMENT_COLUMNS},
                }
                for row, segment in enumerate(of.segments)
            ],
        }
        return tagged_response(request, body)

    return await services.lookups.run(read)


def _key(services: Services, model: str, query: SpanQuery, segment: str) -> ReportKey:
    """The series and window of a request. Raises UnknownSeries where nothing is measured and nothing was."""
    windows = [window.name for window in services.reports.windows]
    window = query.window or windows[0]
    if window not in windows:
        raise no_window(window, windows)
    snapshot = services.latest().snapshot
    version = query.version or snapshot.current_version(model) or ""
    key = ReportKey(SeriesKey(model, version, segment), window)
    if key in snapshot.reports:
        return key
    # Not measured any more, or not yet since the start.
    kept = services.history.series(model)
    measured = {key.series for key in (*snapshot.reports, *snapshot.failures)}
    newest = kept[-1].version if kept else ""
    return ReportKey(check_series({*kept, *measured}, model, version or newest, key.series.segment), window)


def _measures(services: Services, name: str) -> list[str]:
    measures = [*services.reports.measures, *CANONICAL]
    if name and name not in measures:
        raise InputError(f"no measure {name!r} in windows; measures are {listed(measures)}")
    return [name] if name else measures


def _to_dict(report: Report) -> dict[str, Any]:
    diagnosis = report.diagnosis
    return {
        "from": format_known(report.from_ms),
        "to": format_known(report.to_ms),
        **{name: getattr(report, name) for name in _COUNTS},
        **{name: None if diagnosis is None else getattr(diagnosis, name) for name in _DIAGNOSIS},
        "measures": {
            name: {"unit": result.unit, **{field: getattr(result, field) for field in FIELDS}}
            for name, result in report.measures.items()
        },
    }
