"""Completes FastAPI's OpenAPI document: bodies that it does not see, and who may use each operation."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from monitor.http.authorization import Needs, Of, declaration
from monitor.http.problems import SESSION_COOKIE
from monitor.http.recalibration_schemas import ApplyRequestBody, NoteBody, RefitRequestBody, RollbackBody
from monitor.http.responses import problems
from monitor.http.schemas import Body, DataBody, LogInBody, ProblemBody

DESCRIPTION: Final = """\
Watches the calibration of probabilistic classifiers in production.

Every error is `application/problem+json` (RFC 9457): `detail` names key and value and says what to do, `type`
identifies it for programs. Lists have cursors: pass `next_cursor` as `cursor`, until it is null.

Callers send an API key or a token: `Authorization: Bearer ...`. Lists hold what concerns the models that the caller may
read; other models look as if they did not exist.
"""

_REQUESTS: Final = (ApplyRequestBody, DataBody, LogInBody, NoteBody, RefitRequestBody, RollbackBody)

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
        "description": "Of browsers, made by `POST /v1/session`. Operations that change something are then accepted "
        "from the pages of this service only.",
    },
}

_ROLE_TEXTS: Final = {
    Of.MODEL: "Needs the role `{role}` for the model. A model that the caller may not read is 404, as if it did not "
    "exist.",
    Of.REFIT: "Needs the role `{role}` for the model of the refit. A refit of a model that the caller may not read is "
    "404, as if it did not exist.",
    Of.ALERT: "Needs the role `{role}` for the model of the alert. An alert of a model that the caller may not read is "
    "404, as if it did not exist.",
    Of.ANY: "Needs the role `{role}` for at least one model.",
    Of.ALL: "Needs the role `{role}` for all models.",
}

_REFUSALS: Final = problems(401, 403, 429, 503)
_UNKNOWN_MODEL: Final = problems(404, other={404: ("unknown-series", "no model 'churn' among those that you may read")})


def complete_openapi(app: FastAPI) -> None:
    """Extend the document of an app, once: making it takes 0.1 s, in which nothing else is answered."""
    of_routes = app.openapi

    @cache
    def openapi() -> dict[str, Any]:
        document = of_routes()
        components = document.setdefault("components", {})
        components.setdefault("schemas", {}).update(_definitions())
        components["securitySchemes"] = _SCHEMES
        for route in iter_route_contexts(app.routes):
            methods = document["paths"].get(route.path_format, {})
            for method in route.methods or ():
                if method.lower() in methods:
                    _add_access(methods[method.lower()], declaration(route))
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document


def _definitions() -> dict[str, Any]:
    """The schemas of all bodies: FastAPI does not see all of them, and leaves null out of their examples."""
    # Answers as they are sent: a key that always comes is required.
    bodies: list[tuple[type[BaseModel], JsonSchemaMode]] = [(ProblemBody, "serialization")]
    bodies += ((body, "validation" if body in _REQUESTS else "serialization") for body in _subclasses(Body))
    _, schema = models_json_schema(bodies, ref_template="#/components/schemas/{model}")
    definitions: dict[str, Any] = schema["$defs"]
    return definitions


def _subclasses(body: type[Body]) -> Iterator[type[Body]]:
    for subclass in body.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _add_access(operation: dict[str, Any], declared: object) -> None:
    if not isinstance(declared, Needs):
        operation["security"] = []
        return
    operation["security"] = [{"bearer": []}, {"session": []}]
    operation["x-required-role"] = declared.role.value
    operation["x-required-of"] = declared.of.value
    text = _ROLE_TEXTS[declared.of].format(role=declared.role.value)
    operation["description"] = "\n\n".join(filter(None, (operation.get("description", "").strip(), text)))
    added: Mapping[int | str, Any] = _REFUSALS | (
        _UNKNOWN_MODEL if declared.of in (Of.MODEL, Of.REFIT, Of.ALERT) else {}
    )
    of_access = {str(status): response for status, response in added.items()}
    operation["responses"] = dict(sorted((of_access | operation["responses"]).items()))
