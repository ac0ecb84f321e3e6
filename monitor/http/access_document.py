"""What the OpenAPI document says of access: who may use each operation, and how they are refused."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from monitor.http.access import Needs, Of, declaration
from monitor.http.problems import SESSION_COOKIE
from monitor.http.schemas import problems

_SCHEMES: Final = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key (`monitor keys create`), `cmk_...`, or a token (JWT) of the configured issuer.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION_COOKIE,
        "description": "Of browsers, made by `POST /v1/session`. Operations that change something are then taken from "
        "the pages of this service alone.",
    },
}

_EITHER: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {"session": []}]

_WORDS: Final = {
    Of.MODEL: "Takes the role `{role}` for the model. A model that one may not read is 404, as if there were none.",
    Of.REFIT: "Takes the role `{role}` for the model of the refit. One of a model that one may not read is 404, as if "
    "there were none.",
    Of.ANY: "Takes the role `{role}` for any model.",
    Of.ALL: "Takes the role `{role}` for all models.",
}

_REFUSALS: Final = (401, 403, 429, 503)

_UNKNOWN_MODEL: Final = {404: ("unknown-series", "no model 'churn' among those that you may read")}


def add_access(document: dict[str, Any], app: FastAPI) -> None:
    """Add schemes, the role that each operation takes, and the ways to be refused."""
    document.setdefault("components", {})["securitySchemes"] = _SCHEMES
    for route in iter_route_contexts(app.routes):
        methods = document["paths"].get(route.path_format, {})
        for method in route.methods or ():
            operation = methods.get(method.lower())
            if operation is not None:
                _describe(operation, declaration(route))


def _describe(operation: dict[str, Any], declared: object) -> None:
    if not isinstance(declared, Needs):
        operation["security"] = []
        return
    operation["security"] = _EITHER
    operation["x-required-role"] = declared.role.value
    operation["x-required-of"] = declared.of.value
    told = _WORDS[declared.of].format(role=declared.role.value)
    operation["description"] = "\n\n".join(filter(None, (operation.get("description", "").strip(), told)))
    responses: dict[str, Any] = operation["responses"]
    added = _by_text(problems(*_REFUSALS))
    if declared.of in (Of.MODEL, Of.REFIT):
        added |= _by_text(problems(404, other=_UNKNOWN_MODEL))
    operation["responses"] = dict(sorted((added | responses).items()))


def _by_text(responses: Mapping[int | str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {str(status): response for status, response in responses.items()}
