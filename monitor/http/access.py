"""Who may do what over HTTP. Each route declares the role that it needs; one that declares nothing is refused.

::

    @router.post("/v1/models/{model:path}/rollback", dependencies=[needs(Role.PROMOTE, Of.MODEL), ...])
    @router.get("/healthz", dependencies=[public()])

A model that somebody may not read looks like one that does not exist: 404, in the same words. One that they may read,
and no more, is 403 where more is needed. What a route finds out only later it asks itself: see :func:`require`,
:func:`may` and :func:`readable`.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from fastapi import Depends, FastAPI, Request
from fastapi.routing import RouteContext, iter_route_contexts

from monitor.access.model import Principal, Role
from monitor.errors import UnknownRecalibration, UnknownSeries
from monitor.http.authorization import Gate
from monitor.http.problems import unknown_model
from monitor.http.request_ids import note_principal


class Of(Enum):
    """Of what a route needs its role."""

    MODEL = "the model"
    """The model in the path."""
    REFIT = "the refit's model"
    """The model of the refit in the path."""
    ANY = "any model"
    """Some model at least: the route shows, or takes, only what concerns those that somebody may."""
    ALL = "all models"
    """All models: the grant must not be for one."""


@dataclass(frozen=True, slots=True)
class Needs:
    """A dependency: lets those pass who hold a role.

    Attributes
    ----------
    role, of
        Which role, of what.
    """

    role: Role
    of: Of

    async def __call__(self, request: Request) -> None:
        """Let the request pass, or raise Unauthenticated, Forbidden, Problem, or that what it names is unknown."""
        gate = gate_of(request)
        principal = await gate.identify(request)
        request.state.principal = principal
        note_principal(principal.name)
        gate.check_rate(request, principal)
        if not principal.grants:
            # Known, and allowed nothing at all: no model could be found for them, and none is hidden.
            gate.forbid(request, self.role, None)
        match self.of:
            case Of.MODEL:
                require(request, self.role, request.path_params["model"])
            case Of.REFIT:
                await self._require_of_refit(request, gate, principal)
            case Of.ALL:
                require(request, self.role, None)
            case Of.ANY:
                if not principal.may_somewhere(self.role):
                    gate.forbid(request, self.role, None)

    async def _require_of_refit(self, request: Request, gate: Gate, principal: Principal) -> None:
        if principal.may(self.role):
            # For all models: there is no need to ask which one it is, and the route finds out whether it is there.
            return
        refit = request.path_params["id"]
        model = await gate.model_of(refit)
        if not principal.may(Role.READ, model):
            gate.note_forbidden(request)
            # As the store says it of one that there is not.
            raise UnknownRecalibration(f"no refit is called {refit!r}")
        require(request, self.role, model)


class Public:
    """A dependency that lets everybody pass: what is answered holds no data."""

    async def __call__(self) -> None:
        """Let the request pass."""


def needs(role: Role, of: Of) -> Any:
    """Declare the role that a route needs."""
    return Depends(Needs(role, of))


def public() -> Any:
    """Declare that a route is for everybody."""
    return Depends(Public())


def gate_of(request: Request) -> Gate:
    """The gate of the service that is asked."""
    gate: Gate = request.app.state.gate
    return gate


def principal_of(request: Request) -> Principal:
    """Who asks. Only behind a dependency that found out."""
    principal: Principal = request.state.principal
    return principal


def require(request: Request, role: Role, model: str | None) -> None:
    """Go on only if who asks holds a role for a model; without one, for all.

    Raises
    ------
    UnknownSeries
        They may not even read the model.
    Forbidden
        They may read it, and not do this.
    """
    principal = principal_of(request)
    if principal.may(role, model):
        return
    gate = gate_of(request)
    if model is not None and not principal.may(Role.READ, model):
        gate.note_forbidden(request)
        raise UnknownSeries(unknown_model(model))
    gate.forbid(request, role, model)


def may(request: Request, role: Role) -> Callable[[str], bool]:
    """Whether who asks holds a role, by model."""
    principal = principal_of(request)
    if principal.may(role):
        return lambda _: True
    return lambda model: principal.may(role, model)


def readable(request: Request) -> Collection[str] | None:
    """The models that who asks may read; None: all there are."""
    principal = principal_of(request)
    if principal.may(Role.READ):
        return None
    return {grant.model for grant in principal.grants if grant.model is not None}


_UNDECLARED: Final = "{what} declares no role: give it dependencies=[needs(...)], or [public()] if it holds no data"


def declaration(route: RouteContext) -> Needs | Public | None:
    """What a route declares; None: nothing."""
    dependant = getattr(route.original_route, "dependant", None)
    if dependant is None:
        return None
    found = [each.call for each in dependant.dependencies if isinstance(each.call, Needs | Public)]
    return found[0] if len(found) == 1 else None


def check_declared(app: FastAPI, static: Collection[str]) -> None:
    """Make sure that no route was forgotten.

    Parameters
    ----------
    static
        Paths of what the framework serves itself, without data: the OpenAPI document, and files.

    Raises
    ------
    ValueError
        A route declares nothing, or more than one thing.
    """
    for route in iter_route_contexts(app.routes):
        if route.path not in static and declaration(route) is None:
            raise ValueError(_UNDECLARED.format(what=f"{', '.join(sorted(route.methods or ()))} {route.path}"))
