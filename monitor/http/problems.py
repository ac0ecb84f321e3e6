"""Errors as RFC 9457 problem details; the only place where errors become HTTP status codes."""

import asyncio
import json
import uuid
from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor import errors
from monitor.access.model import Principal, Role
from monitor.http.html import page_headers, root_of, wants_page
from monitor.page.assets import service_page

MEDIA_TYPE: Final = "application/problem+json"

_TYPES: Final = "urn:calibration-monitor:problem:"

_RETRY_SECONDS: Final = 5

SESSION_COOKIE: Final = "calibration_session"
"""The cookie of browsers: holds the key of their log-in."""

_STATUS: Final[tuple[tuple[type[errors.MonitorError], int, str], ...]] = (
    (errors.Unauthenticated, 401, "unauthenticated"),
    (errors.Forbidden, 403, "forbidden"),
    (errors.UnknownSeries, 404, "unknown-series"),
    (errors.UnknownRecalibration, 404, "unknown-recalibration"),
    (errors.UnknownAlert, 404, "unknown-alert"),
    (errors.Conflict, 409, "conflict"),
    (errors.NoLongerKept, 410, "no-longer-kept"),
    (errors.InputError, 422, "invalid-input"),
    (errors.NotEnoughData, 422, "not-enough-data"),
    (errors.EvaluationFailed, 503, "evaluation-failed"),
    (errors.SourceError, 503, "source-unavailable"),
    (errors.StoreUnavailable, 503, "store-unavailable"),
    (errors.ProviderUnavailable, 503, "provider-unavailable"),
)
"""Errors whose message is for the caller. Any other one is a fault of the service."""

_log = structlog.get_logger(__name__)


class Problem(Exception):  # noqa: N818 - RFC 9457 calls it a problem
    """An error of a request, as problem details.

    Parameters
    ----------
    status
        The HTTP status code.
    kind
        Identifies the problem for programs: the last part of its ``type``.
    detail
        One line that names key and value and says what to do.
    headers
        Headers of the answer.
    members
        Further members of the problem, such as ``errors``.
    """

    def __init__(
        self, status: int, kind: str, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = members

    def response(self, path: str) -> Response:
        """The problem as the answer to a request for ``path``."""
        body = {
            "type": _TYPES + self.kind,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": path,
            **self.members,
        }
        request_id = structlog.contextvars.get_contextvars().get("request_id")
        if request_id is not None:
            body["request_id"] = request_id
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        # Relative, as the paths of pages are: a proxy may serve all below a prefix.
        link = {"link": f'<{"../" * (path.count("/") - 1) or "./"}{self.help_path}>; rel="help"'}
        return Response(_to_bytes(text), self.status, self.all_headers() | link, MEDIA_TYPE)

    @property
    def help_path(self) -> str:
        """The paragraph that explains the problem, relative to the root of the service."""
        return f"help/answers.html#problem-{self.kind}"

    @property
    def title(self) -> str:
        """The status in words."""
        return HTTPStatus(self.status).phrase

    def all_headers(self) -> dict[str, str]:
        """Headers of the answer, whatever its form."""
        headers = {"cache-control": "no-store", "vary": "Accept"} | self.headers
        if self.status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers.setdefault("retry-after", str(_RETRY_SECONDS))
        return headers


def wrong_parameter(detail: str, **members: Any) -> Problem:
    """The problem of a parameter that no request may have."""
    return Problem(422, "invalid-parameter", detail, **members)


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # a detail may repeat a lone surrogate that the caller sent


def expired_cookie() -> str:
    """The header that makes a browser forget its session."""
    return f"{SESSION_COOKIE}=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict"


def add_problem_handlers(app: FastAPI, request_seconds: float) -> None:
    """Answer every error of the app with problem details, and requests that take longer than this with 503."""

    async def problem(request: Request, error: Exception) -> Response:
        return _response(_problem_of(error, request), request)

    for kind in (Problem, HTTPException, RequestValidationError, ClientDisconnect, *(error for error, _, _ in _STATUS)):
        app.add_exception_handler(kind, problem)
    app.add_middleware(_Failures, seconds=request_seconds)


def _response(problem: Problem, request: Request) -> Response:
    """The answer: for a browser a page, which has the log-in form where a log-in is needed, and then loads again."""
    if not wants_page(request):
        return problem.response(request.url.path)
    root = root_of(request)
    content = (
        f"<main><h1>{problem.status} {problem.title}</h1>\n<p>{escape(problem.detail)}</p>\n"
        f'<p><a href="{root}{problem.help_path}">What this means</a></p></main>'
    )
    page = service_page("problem", root, content)
    return Response(_to_bytes(page), problem.status, page_headers(page) | problem.all_headers(), "text/html")


def _problem_of(error: Exception, request: Request) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return _of_http(error, request)
    if isinstance(error, RequestValidationError):
        return _of_parameters(error)
    if isinstance(error, ClientDisconnect):
        return Problem(400, "incomplete-body", "the connection was closed before the body was complete")
    for kind, status, name in _STATUS:
        if isinstance(error, kind):
            return Problem(status, name, _detail_of(error, request), headers=_headers_of(error, request))
    raise TypeError(f"there is no problem for {type(error).__name__}") from error


def unknown_model(model: str) -> str:
    """The message for a caller who may not read all models: the same whether there is such a model or not."""
    return f"no model {model!r} among those that you may read; GET /v1/models lists them"


def _detail_of(error: errors.MonitorError, request: Request) -> str:
    principal: Principal | None = getattr(request.state, "principal", None)
    if isinstance(error, errors.UnknownModel) and principal is not None and not principal.may(Role.READ):
        # The message of the error would name the other models.
        return unknown_model(request.path_params["model"])
    return str(error)


def _headers_of(error: errors.MonitorError, request: Request) -> dict[str, str]:
    if not isinstance(error, errors.Unauthenticated):
        return {}
    headers = {"www-authenticate": 'Bearer realm="calibration-monitor"'}
    if getattr(request.state, "forget_session", False):
        # A page that polls every few seconds would otherwise send the same dead session again and again.
        headers["set-cookie"] = expired_cookie()
    return headers


def _of_http(error: HTTPException, request: Request) -> Problem:
    headers = error.headers or {}
    what = f"{request.method} {request.url.path}"
    if error.status_code == HTTPStatus.NOT_FOUND:
        return Problem(404, "no-such-route", f"there is no {what}; /docs lists what there is")
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The router names the methods of one route alone, where the path may have several.
        methods = _methods_of(request)
        return Problem(
            405,
            "method-not-allowed",
            f"there is no {what}; this path answers {', '.join(methods)}",
            headers={"allow": ", ".join(methods)},
        )
    return Problem(error.status_code, "http", str(error.detail), headers=headers)


def _methods_of(request: Request) -> list[str]:
    return [
        method
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
        # HEAD is answered wherever GET is.
        if any(
            route.matches({**request.scope, "method": "GET" if method == "HEAD" else method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]


def _of_parameters(error: RequestValidationError) -> Problem:
    wrong = [
        {
            "parameter": ".".join(str(part) for part in item["loc"][1:]) or str(item["loc"][0]),
            "detail": _reason(item),
            "value": _shown(item.get("input")),
        }
        for item in error.errors()
    ]
    detail = "; ".join(f"{item['parameter']}: {item['detail']}, got {item['value']}" for item in wrong)
    return wrong_parameter(detail, errors=wrong)


def _reason(error: Mapping[str, Any]) -> str:
    if error["type"] == "extra_forbidden":
        return "there is no such parameter here; /docs lists those there are"
    if error["type"] == "literal_error":
        # An empty parameter is as one that is left out.
        return f"must be {error['ctx']['expected'].removeprefix(repr('') + ', ').replace(chr(39), '')}"
    message: str = error["msg"]
    return message[:1].lower() + message[1:]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


class _Failures:
    """Middleware: answers 500 to unexpected errors, logs their cause, and ends requests that take too long with 503.

    The time includes the body. Threads that compute for the request end by themselves.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            async with asyncio.timeout(self._seconds) as limit:
                await self._app(scope, receive, watched_send)
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                if started:
                    raise
                problem = Problem(
                    503,
                    "too-slow",
                    f"there was no answer within {self._seconds:g} seconds (api.request_timeout); request less, or try"
                    " again later. If something was to be changed, check first whether it was",
                )
            else:
                incident = uuid.uuid4().hex[:12]
                _log.exception("request failed", method=scope["method"], path=scope["path"], incident=incident)
                problem = _failure(error, incident)
            if not started:
                await _response(problem, Request(scope))(scope, receive, send)


def _failure(error: Exception, incident: str) -> Problem:
    where = f"the service's log says why, under incident {incident}"
    if isinstance(error, errors.CorruptMap):
        return Problem(
            500,
            "corrupt-map",
            f"the stored map cannot be read: roll back to the one before, and fit another then; {where}",
            incident=incident,
        )
    return Problem(500, "internal", f"the service failed to answer; {where}", incident=incident)
