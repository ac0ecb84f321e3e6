"""POST, GET and DELETE /v1/session: how a browser shows who asks, without a script of its page ever holding the key."""

from typing import Any, Final

import msgspec
from fastapi import APIRouter, Depends, Request
from pydantic import Field
from starlette.responses import Response

from monitor.access.model import Role
from monitor.http.access import Of, gate_of, needs, principal_of, public
from monitor.http.answers import MEDIA_TYPE, encode_json
from monitor.http.credentials import Credential, is_https
from monitor.http.parts import Limits
from monitor.http.problems import SESSION_COOKIE, Problem, expired_cookie
from monitor.http.requests import check_json, no_parameters, read_body
from monitor.http.schemas import Body, ok, problems, reference

_BODY_BYTES: Final = 16 * 1024

_COOKIE_CHARACTERS: Final = 3800
"""Browsers keep cookies of up to 4096 bytes, name and attributes included."""

_NO_CONTENT: Final = 204

_DESCRIPTION: Final = """\
For the pages in a browser: the key, or token, comes back as a cookie that no script can read, and ends with the
browser, or with `DELETE /v1/session`. Programs send `Authorization: Bearer` instead, which stands before the cookie.
With the cookie alone, what changes anything is taken from the pages of this service only.
"""


class LogIn(msgspec.Struct, forbid_unknown_fields=True):
    """Who logs in."""

    key: str


class LogInBody(Body):
    """Who logs in."""

    key: str = Field(description="an API key, or a token of the configured issuer")


class SessionBody(Body):
    """Who asks, and what they may do."""

    name: str = Field(description="as the audit trail has it")
    roles: list[str] = Field(description="read, write or promote, for all models, or for one as in promote:churn")


SESSION_EXAMPLES: Final = {
    "LogInBody": {"key": "cmk_0123456789ab_Zm9yIGV4YW1wbGUgb25seSwgdGhpcyBpcyBub2tleSE"},
    "SessionBody": {"name": "key:nightly-refits", "roles": ["promote:churn", "write"]},
}


def session_router(limits: Limits) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["access"])

    @router.post(
        "/v1/session",
        status_code=_NO_CONTENT,
        summary="Log in, from a browser",
        dependencies=[public(), Depends(no_parameters)],
        description=_DESCRIPTION,
        response_class=Response,
        responses=_no_content("`Set-Cookie` holds the session; none where access control is off")
        | problems(400, 401, 403, 408, 413, 415, 422, 429, 503),
        openapi_extra={
            "requestBody": {"required": True, "content": {MEDIA_TYPE: {"schema": reference(LogInBody)}}},
        },
    )
    async def log_in(request: Request) -> Response:
        gate = gate_of(request)
        check_json(request, (MEDIA_TYPE,))
        # Another site's page shall not log somebody in as somebody else, either.
        gate.check_own_page(request, or_no_browser=True)
        credential = _read(await read_body(request, _BODY_BYTES, limits.body_seconds))
        principal = await gate.examine(request, credential)
        gate.check_rate(request, principal)
        return Response(status_code=_NO_CONTENT, headers={} if gate.is_open else _cookie(request, credential.text))

    @router.get(
        "/v1/session",
        summary="Who asks, and what they may do",
        dependencies=[needs(Role.READ, Of.ANY), Depends(no_parameters)],
        response_class=Response,
        responses=ok(SessionBody, "Whose key or token it is") | problems(422),
    )
    async def session(request: Request) -> Response:
        principal = principal_of(request)
        roles = [str(grant) for grant in principal.grants]
        return Response(encode_json({"name": principal.name, "roles": roles}), media_type=MEDIA_TYPE)

    @router.delete(
        "/v1/session",
        status_code=_NO_CONTENT,
        summary="Log out, from a browser",
        dependencies=[public(), Depends(no_parameters)],
        description="The key goes on being good: revoke it with `monitor keys revoke` where it is known to others.",
        response_class=Response,
        responses=_no_content("The browser forgets the session, if it had one") | problems(403, 422),
    )
    async def log_out(request: Request) -> Response:
        gate_of(request).check_own_page(request, or_no_browser=True)
        return Response(status_code=_NO_CONTENT, headers={"set-cookie": expired_cookie()})

    return router


def _no_content(description: str) -> dict[int | str, dict[str, Any]]:
    return {_NO_CONTENT: {"description": description}}


def _read(body: bytes) -> Credential:
    try:
        key = msgspec.json.decode(body, type=LogIn).key.strip()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # What was sent may be the key: nothing of it is repeated.
        raise Problem(422, "invalid-input", 'the body must be JSON like {"key": "cmk_..."}') from None
    if not 0 < len(key) <= _COOKIE_CHARACTERS:
        raise Problem(
            422,
            "invalid-input",
            f"key must have 1 to {_COOKIE_CHARACTERS} characters, which is what a browser keeps, got {len(key)}",
        )
    return Credential(key, from_cookie=False)


def _cookie(request: Request, text: str) -> dict[str, str]:
    secure = "; Secure" if is_https(request) else ""
    return {"set-cookie": f"{SESSION_COOKIE}={text}; Path=/; HttpOnly; SameSite=Strict{secure}"}
