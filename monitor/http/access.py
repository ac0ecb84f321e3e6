"""Access of routes: each one declares the role that it needs; a route without a declaration stops the start.

::

    @router.post("/v1/models/{model:path}/rollback", dependencies=[needs(Role.PROMOTE, Of.MODEL), ...])
    @router.get("/healthz", dependencies=[public()])

A model that the caller may not read looks like one that does not exist: 404, in the same words. For one that they may
read but not change, the answer is 403. Routes check what only they know with :func:`require`, :func:`may` and
:func:`readable`.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from fastapi import Depends, FastAPI, Request
from fastapi.routing import RouteContext, iter_route_contexts

from monitor.access.model import Principal, Role
from monitor.errors import UnknownRecalibration, UnknownSeries
from monitor.http.authorization import Authorization
from monitor.http.problems import unknown_model
from monitor.http.request_log import note_principal


class Of(Enum):
    """For which models a route needs its role."""

    MODEL = "the model"
    """The model in the path."""
    REFIT = "the refit's model"
    """The model of the refit in the path."""
    ANY = "any model"
    """At least one model: the route shows, or takes, only what concerns the models of the caller's grants."""
    ALL = "all models"
    """All models: a grant for one model does not suffice."""


@dataclass(frozen=True, slots=True)
class Needs:
    """A dependency: the caller must hold a role."""

    role: Role
    of: Of

    async def __call__(self, request: Request) -> None:
        """Accept the request, or raise Unauthenticated, Forbidden, Problem, UnknownSeries or UnknownRecalibration."""
        authorization = _authorization_of(request)
        principal = await authorization.identify(request)
        request.state.principal = principal
        note_principal(principal.name)
        authorization.check_rate(request, principal)
        if not principal.grants:
            # A known caller without any grant: there is no model to hide from them by a 404.
            authorization.forbid(request, self.role, None)
        match self.of:
            case Of.MODEL:
                require(request, self.role, request.path_params["model"])
            case Of.REFIT:
                await self._require_of_refit(request, authorization, principal)
            case Of.ALL:
                require(request, self.role, None)
            case Of.ANY:
                if not principal.may_somewhere(self.role):
                    authorization.forbid(request, self.role, None)

    async def _require_of_refit(self, request: Request, authorization: Authorization, principal: Principal) -> None:
        if principal.may(self.role):
            # For all models: the route finds out whether the refit exists.
            return
        refit = request.path_params["id"]
        model = await authorization.model_of(refit)
        if not principal.may(Role.READ, model):
            authorization.count_forbidden(request)
            # The words of the store for a refit that does not exist.
            raise UnknownRecalibration(f"no refit is called {refit!r}")
        require(request, self.role, model)


class Public:
    """A dependency that accepts everybody: the answer holds no data."""

    async def __call__(self) -> None:
        """Accept the request."""


def needs(role: Role, of: Of) -> Any:
    """Declare the role that a route needs."""
    return Depends(Needs(role, of))


def public() -> Any:
    """Declare that a route is for everybody."""
    return Depends(Public())


def _authorization_of(request: Request) -> Authorization:
    authorization: Authorization = request.app.state.services.authorization
    return authorization


def principal_of(request: Request) -> Principal:
    """The caller, in a route that declares :func:`needs`."""
    principal: Principal = request.state.principal
    return principal


def require(request: Request, role: Role, model: str | None) -> None:
    """Check that the caller holds a role for a model; without one, for all.

    Raises
    ------
    UnknownSeries
        They may not even read the model.
    Forbidden
        They may read it, but not do this.
    """
    principal = principal_of(request)
    if principal.may(role, model):
        return
    authorization = _authorization_of(request)
    if model is not None and not principal.may(Role.READ, model):
        authorization.count_forbidden(request)
        raise UnknownSeries(unknown_model(model))
    authorization.forbid(request, role, model)


def may(request: Request, role: Role) -> Callable[[str], bool]:
    """Whether the caller holds a role, by model."""
    principal = principal_of(request)
    if principal.may(role):
        return lambda _: True
    return lambda model: principal.may(role, model)


def readable(request: Request) -> Collection[str] | None:
    """The models that the caller may read; None: all."""
    principal = principal_of(request)
    if principal.may(Role.READ):
        return None
    return {grant.model for grant in principal.grants if grant.model is not None}


_UNDECLARED: Final = "{what} declares no role: give it dependencies=[needs(...)], or [public()] if it holds no data"


def declaration(route: RouteContext) -> Needs | Public | None:
    """What a route declares; None: nothing, or more than one thing."""
    dependant = getattr(route.original_route, "dependant", None)
    if dependant is None:
        return None
    declared = [item.call for item in dependant.dependencies if isinstance(item.call, Needs | Public)]
    return declared[0] if len(declared) == 1 else None


def check_declared(app: FastAPI, static: Collection[str]) -> None:
    """Check that every route declares who may use it.

    Parameters
    ----------
    static
        Paths that the framework serves itself, without data: the OpenAPI document and files.

    Raises
    ------
    ValueError
        A route declares nothing, or more than one thing.
    """
    for route in iter_route_contexts(app.routes):
        if route.path not in static and declaration(route) is None:
            raise ValueError(_UNDECLARED.format(what=f"{', '.join(sorted(route.methods or ()))} {route.path}"))
