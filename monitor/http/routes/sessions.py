"""POST, GET and DELETE /v1/session: sessions of browsers, in a cookie that no script can read."""

from typing import Final

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import Response

from monitor.access.model import Role
from monitor.errors import InputError
from monitor.events.times import format_time
from monitor.http.authorization import Credential, Of, needs, principal_of, public
from monitor.http.problems import SESSION_COOKIE, expired_cookie
from monitor.http.request_parsing import NO_PARAMETERS, check_media_type, read_body
from monitor.http.responses import BODY_PROBLEMS, JSON, problems
from monitor.http.schemas import LogInBody, SessionBody, SimulationBody, reader, request_body
from monitor.http.services import ServicesOf

router: Final = APIRouter(tags=["access"])

_BODY_BYTES: Final = 16 * 1024

_COOKIE_CHARACTERS: Final = 3800
"""Browsers keep cookies of up to 4096 bytes, name and attributes included."""

_DESCRIPTION: Final = """\
For the pages in a browser: the key, or token, becomes a cookie that no script can read, until the browser ends, or
`DELETE /v1/session`. Programs send `Authorization: Bearer` instead, which has precedence over the cookie. With the
cookie alone, requests that change something are accepted from the pages of this service only.
"""

_read_log_in: Final = reader(LogInBody)


@router.post(
    "/v1/session",
    status_code=204,
    summary="Log in, from a browser",
    dependencies=[public(), NO_PARAMETERS],
    description=_DESCRIPTION,
    response_class=Response,
    response_description="`Set-Cookie` holds the session; none where access control is off",
    responses=problems(*BODY_PROBLEMS, 401, 403, 429),
    openapi_extra=request_body(LogInBody),
)
async def log_in(request: Request, services: ServicesOf) -> Response:
    authorization = services.authorization
    check_media_type(request, JSON)
    # A page of another site must not log somebody in under another name, either.
    authorization.check_own_page(request, allow_no_browser=True)
    credential = _parse(await read_body(request, _BODY_BYTES, services.body_seconds))
    principal = await authorization.check_credential(request, credential)
    authorization.check_rate(request, principal)
    return Response(status_code=204, headers={} if authorization.is_off else _cookie(request, credential.text))


@router.get(
    "/v1/session",
    summary="The caller and their roles",
    dependencies=[needs(Role.READ, Of.ANY), NO_PARAMETERS],
    response_description="The owner of the key or token",
    responses=problems(422),
)
async def session(request: Request, services: ServicesOf) -> SessionBody:
    principal = principal_of(request)
    simulated = services.simulation()
    return SessionBody(
        name=principal.name,
        roles=[str(grant) for grant in principal.grants],
        simulated_now=None if simulated is None else format_time(simulated.at(services.clock.now_ms())),
        simulation=None
        if simulated is None
        else SimulationBody(
            began_at=format_time(simulated.began_ms), start=format_time(simulated.start_ms), speed=simulated.speed
        ),
    )


@router.delete(
    "/v1/session",
    status_code=204,
    summary="Log out, from a browser",
    dependencies=[public(), NO_PARAMETERS],
    description="The key stays valid: revoke it with `monitor keys revoke` if others know it.",
    response_class=Response,
    response_description="The browser forgets the session, if it had one",
    responses=problems(403, 422),
)
async def log_out(request: Request, services: ServicesOf) -> Response:
    services.authorization.check_own_page(request, allow_no_browser=True)
    return Response(status_code=204, headers={"set-cookie": expired_cookie()})


def _parse(body: bytes) -> Credential:
    try:
        key = _read_log_in(body).key.strip()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # The body may be the key: no part of it is repeated.
        raise InputError('the body must be JSON like {"key": "cmk_..."}') from None
    if not 0 < len(key) <= _COOKIE_CHARACTERS:
        raise InputError(f"key must have 1 to {_COOKIE_CHARACTERS} characters, as a browser keeps them, got {len(key)}")
    return Credential(key, from_cookie=False)


def _cookie(request: Request, text: str) -> dict[str, str]:
    # Behind a proxy that ends https, the page's origin shows the scheme. A wrong one spoils the client's own cookie.
    https = request.url.scheme == "https" or request.headers.get("origin", "").lower().startswith("https://")
    return {"set-cookie": f"{SESSION_COOKIE}={text}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if https else ''}"}
