"""Identifies callers by their API key, token or session, and checks the role that each route declares.

::

    @router.post("/v1/models/{model:path}/rollback", dependencies=[needs(Role.PROMOTE, Of.MODEL), ...])
    @router.get("/healthz", dependencies=[public()])

A route without a declaration stops the start. Wrong or too many requests are refused before any work. A model that the
caller may not read looks like one that does not exist: 404, in the same words. For one that they may read but not
change, the answer is 403. Routes check what only they know with :func:`require`, :func:`may` and :func:`readable`.
"""

import hashlib
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import urlsplit

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi.routing import RouteContext, iter_route_contexts

from monitor.access.model import ANONYMOUS, Authenticator, Principal, Role
from monitor.access.settings import AccessSettings
from monitor.clock import Clock
from monitor.errors import Forbidden, InputError, Unauthenticated, UnknownAlert, UnknownRecalibration, UnknownSeries
from monitor.http.limits import ConcurrencyLimit, RateLimit, client_network
from monitor.http.problems import SESSION_COOKIE, Problem, unknown_model
from monitor.http.request_log import RefusalReason, RefusedRequests
from monitor.http.request_parsing import check_media_type
from monitor.urls import wrong_path

_MAX_ACCEPTED: Final = 4096
"""Fingerprints of valid credentials that are kept."""

_MAX_MODELS_OF: Final = 10_000
"""Refits and alerts whose model is kept in memory."""

_NEW_AT_ONCE: Final = 4
"""Unknown credentials that are checked at one time: a check may query the store."""

_ACCEPTED_AT_ONCE: Final = 8

MAX_CHARACTERS: Final = 16 * 1024
"""Longer credentials are refused before they are parsed."""

_CREDENTIAL: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""What may follow Bearer (RFC 6750, section 2.1). Keys and tokens use a part of it."""

_READS: Final = frozenset({"GET", "HEAD"})


class Credential(NamedTuple):
    """A key or token, as it was sent."""

    text: str
    from_cookie: bool

    @property
    def is_well_formed(self) -> bool:
        """Whether it can be a key or a token at all."""
        return len(self.text) <= MAX_CHARACTERS and _CREDENTIAL.fullmatch(self.text) is not None


def credential_of(request: Request) -> Credential | None:
    """The key or token of a request: of the header, else of the cookie. None if there is neither.

    A proxy's own ``Authorization: Basic`` is ignored, so that the cookie counts.
    """
    for header in request.headers.getlist("authorization"):
        scheme, _, rest = header.strip().partition(" ")
        if scheme.lower() == "bearer":
            return Credential(rest.strip(), from_cookie=False)
    cookie = request.cookies.get(SESSION_COOKIE)
    return Credential(cookie, from_cookie=True) if cookie else None


def _address_of(request: Request) -> str:
    """The client's network. Headers that a proxy sets are not read: anybody can set them."""
    return client_network(request.client.host if request.client is not None else "")


class Authorization:
    """Identifies callers. Use it in the event loop's thread.

    After too many wrong keys from an address, its further credentials are not checked for a while, except for those
    that were valid before or are in memory: many clients may share one address, as behind a proxy, and a scraper must
    not fail because of another client's typing error.

    Parameters
    ----------
    authenticator
        Identifies credentials; None: access control is off, and everybody may do everything.
    access
        Rates of requests and of wrong credentials.
    wait_seconds
        How long a check of a credential waits for its turn.
    models_of
        What looks up the model of a refit, and of an alert, by id.
    lookups
        Limits queries of the store.
    refused
        Counts and logs refused requests.
    clock
        Measures the rates.
    """

    def __init__(
        self,
        authenticator: Authenticator | None,
        access: AccessSettings,
        wait_seconds: float,
        models_of: Mapping["Of", Callable[[str], str]],
        lookups: ConcurrencyLimit,
        *,
        refused: RefusedRequests,
        clock: Clock,
    ) -> None:
        self._authenticator = authenticator
        self._models_of = models_of
        self._lookups = lookups
        self._refused = refused
        self._failures = RateLimit(access.failures_per_minute, 60.0, clock)
        self._requests = RateLimit(access.requests_per_second, 1.0, clock)
        self._accepted: OrderedDict[bytes, None] = OrderedDict()
        """Fingerprints of valid credentials, the most recently used one last."""
        self._fingerprint_key = secrets.token_bytes(32)
        self._models: dict[str, str] = {}
        """Refit or alert -> its model, which never changes."""
        self._new_checks = ConcurrencyLimit(_NEW_AT_ONCE, wait_seconds)
        self._accepted_checks = ConcurrencyLimit(_ACCEPTED_AT_ONCE, wait_seconds)

    @property
    def is_off(self) -> bool:
        """Whether access control is off."""
        return self._authenticator is None

    async def identify(self, request: Request) -> Principal:
        """Identify the caller.

        Raises
        ------
        Unauthenticated
            There is no valid credential.
        Problem
            403: a page of another site uses the caller's session. 429: too many wrong keys came from this address.
        """
        if self._authenticator is None:
            return ANONYMOUS
        credential = credential_of(request)
        if credential is None:
            self._refused.count(RefusalReason.MISSING, _address_of(request))
            raise Unauthenticated(
                "this needs an API key or a token: send it as Authorization: Bearer ...; `monitor keys create` makes a"
                " key"
            )
        if credential.from_cookie:
            self.check_own_page(request, allow_no_browser=False)
        return await self.check_credential(request, credential)

    async def check_credential(self, request: Request, credential: Credential) -> Principal:
        """The owner of a credential. Raises as :meth:`identify`."""
        authenticator = self._authenticator
        if authenticator is None:
            return ANONYMOUS
        fingerprint = self._fingerprint(credential.text)
        if credential.is_well_formed and (recalled := authenticator.recall(credential.text)) is not None:
            # Without a thread, which costs more than all the rest, and regardless of failures at its address: a lookup
            # in memory costs nothing, and nobody guesses 256 random bits or a verified token.
            self._accept(fingerprint)
            return recalled
        address = _address_of(request)

        def check() -> Principal:
            return authenticator.authenticate(credential.text)

        try:
            if fingerprint in self._accepted:
                principal = await self._accepted_checks.run(check)
            else:
                self._check_failures(address)
                if not credential.is_well_formed:
                    raise Unauthenticated(  # noqa: TRY301 - counted like any other
                        "the API key or token cannot be read: send it whole, as Authorization: Bearer cmk_..."
                    )
                # Checked again when it starts: many may have come at once.
                principal = await self._new_checks.run(check, before=lambda: self._check_failures(address))
        except Unauthenticated:
            self._accepted.pop(fingerprint, None)
            self._failures.hit(address)
            self._refused.count(RefusalReason.WRONG, address)
            request.state.forget_session = credential.from_cookie
            raise
        self._accept(fingerprint)
        return principal

    def check_own_page(self, request: Request, *, allow_no_browser: bool) -> None:
        """Refuse a request that a page of another site makes a browser send with its cookies.

        Parameters
        ----------
        allow_no_browser
            Whether a request without a browser's headers is accepted: one without a cookie may be.

        Raises
        ------
        Problem
            403 if it does not come from a page of this service, 415 if its body is a form.
        """
        if request.method in _READS:
            return
        try:
            if not _is_own_page(request, allow_no_browser):
                raise Problem(  # noqa: TRY301 - counted like a form
                    403,
                    "cross-site",
                    "a session changes things from the pages of this service alone; send the key as Authorization: "
                    "Bearer instead",
                )
            if request.method != "DELETE":
                check_media_type(request, "application/json")
        except Problem:
            self._refused.count(RefusalReason.CROSS_SITE, _address_of(request))
            raise

    def check_rate(self, request: Request, principal: Principal) -> None:
        """Count a request of a caller. Raises Problem (429) if there were too many within a second."""
        if self._authenticator is None or self._requests.hit(principal.name):
            return
        self._refused.count(RefusalReason.REQUESTS, _address_of(request))
        raise _too_many(
            f"{principal.name} sends more requests than access.requests_per_second allows; send fewer, or request more"
            " at once",
            self._requests.wait_seconds(principal.name) or 1,
        )

    def count_forbidden(self, request: Request) -> None:
        """Count a request for something that the caller may not have. Any thread."""
        self._refused.count(RefusalReason.FORBIDDEN, _address_of(request))

    def forbid(self, request: Request, role: Role, model: str | None) -> NoReturn:
        """Raise Forbidden: the caller does not hold this role. Any thread."""
        principal: Principal = request.state.principal
        self.count_forbidden(request)
        held = ", ".join(map(str, principal.grants)) or "nothing"
        needed = f"role {role.value} for " + ("all models" if model is None else f"model {model!r}")
        why = f": {principal.note}" if principal.note else ""
        raise Forbidden(f"this needs the {needed}, and {principal.name} holds {held}{why}")

    async def model_of(self, of: "Of", item: str) -> str:
        """The model of a refit or an alert. Raises UnknownRecalibration or UnknownAlert."""
        model = self._models.get(item)
        if model is None:
            model = await self._lookups.run(lambda: self._models_of[of](item))
            if len(self._models) >= _MAX_MODELS_OF:
                self._models.clear()
            self._models[item] = model
        return model

    def _accept(self, fingerprint: bytes) -> None:
        self._accepted[fingerprint] = None
        self._accepted.move_to_end(fingerprint)
        if len(self._accepted) > _MAX_ACCEPTED:
            self._accepted.popitem(last=False)

    def _check_failures(self, address: str) -> None:
        wait_seconds = self._failures.wait_seconds(address)
        if wait_seconds is None:
            return
        self._refused.count(RefusalReason.FAILURES, address)
        raise _too_many(
            "too many wrong keys or tokens came from this address, so that new ones are not checked for now; those that"
            " were valid before still are",
            wait_seconds,
        )

    def _fingerprint(self, credential: str) -> bytes:
        # With a random key of this process: fingerprints from its memory are of no use to others.
        return hashlib.blake2b(
            credential.encode("utf-8", "replace"), key=self._fingerprint_key, digest_size=16
        ).digest()


def _is_own_page(request: Request, allow_no_browser: bool) -> bool:
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        # Set by the browser, and by no page. Browsers send it over https and to this machine only.
        return site == "same-origin"
    origin = request.headers.get("origin")
    if origin is None:
        return allow_no_browser
    try:
        # The scheme is ignored: a proxy may end https in front of this service.
        return urlsplit(origin.lower()).netloc == request.headers.get("host", "").lower()
    except ValueError:
        return False


def _too_many(detail: str, wait_seconds: int) -> Problem:
    return Problem(429, "too-many-requests", detail, headers={"retry-after": str(wait_seconds)})


class Of(Enum):
    """For which models a route needs its role."""

    MODEL = "the model"
    """The model in the path."""
    REFIT = "the refit's model"
    """The model of the refit in the path."""
    ALERT = "the alert's model"
    """The model of the alert in the path."""
    ANY = "any model"
    """At least one model: the route shows, or takes, only what concerns the models of the caller's grants."""
    ALL = "all models"
    """All models: a grant for one model does not suffice."""


_UNKNOWN: Final[Mapping[Of, tuple[type[InputError], str]]] = {
    Of.REFIT: (UnknownRecalibration, "no refit is called {!r}"),
    Of.ALERT: (UnknownAlert, "no alert is called {!r}"),
}
"""The error of the store for one that does not exist."""


@dataclass(frozen=True, slots=True)
class Needs:
    """A dependency: the caller must hold a role."""

    role: Role
    of: Of

    async def __call__(self, request: Request) -> None:
        """Accept the request, or raise what :func:`require` and :meth:`Authorization.identify` raise."""
        authorization = _authorization_of(request)
        principal = await authorization.identify(request)
        request.state.principal = principal
        structlog.contextvars.bind_contextvars(principal=principal.name)
        authorization.check_rate(request, principal)
        if not principal.grants:
            # A caller without any grant gets 403 at once: they may not read any model that a 404 would hide.
            authorization.forbid(request, self.role, None)
        match self.of:
            case Of.MODEL:
                model = request.path_params["model"]
                check_path(model)
                require(request, self.role, model)
            case Of.REFIT | Of.ALERT:
                await self._require_of_item(request, authorization, principal)
            case Of.ALL:
                require(request, self.role, None)
            case Of.ANY:
                if not principal.may_somewhere(self.role):
                    authorization.forbid(request, self.role, None)

    async def _require_of_item(self, request: Request, authorization: Authorization, principal: Principal) -> None:
        item = request.path_params["id"]
        model = await authorization.model_of(self.of, item)
        if wrong_path(model) or not principal.may(Role.READ, model):
            authorization.count_forbidden(request)
            unknown, message = _UNKNOWN[self.of]
            raise unknown(message.format(item))
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


def caller_of(request: Request) -> str:
    """The name of the caller for limits, in a route that declares :func:`needs`; without access control its network."""
    principal = principal_of(request)
    return _address_of(request) if principal == ANONYMOUS else principal.name


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


def check_path(model: str) -> None:
    """Raise UnknownSeries for a name that older versions let a model have: a page or proxy would send another path."""
    if wrong_path(model):
        raise UnknownSeries(unknown_model(model))


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
