"""Finds out who asks, and refuses those who ask wrongly, or too often, before any work is done for them."""

import hashlib
import secrets
from collections import OrderedDict
from typing import Final, NoReturn

from fastapi import Request

from monitor.access.base import Authenticator
from monitor.access.model import ANONYMOUS, Principal, Role
from monitor.errors import Forbidden, Unauthenticated
from monitor.http.credentials import Credential, address_of, check_own_page, credential_of
from monitor.http.parts import Limits
from monitor.http.problems import Problem
from monitor.http.refusals import Reason, Refusals
from monitor.http.requests import Computations
from monitor.http.throttle import Throttle
from monitor.recalibration.service import Recalibrations

_MINUTE: Final = 60

_MOST_ACCEPTED: Final = 4096
"""Credentials that are remembered to have been right."""

_MOST_REFITS: Final = 10_000

_NEW_AT_ONCE: Final = 4
"""Unknown credentials that are looked at at one time: they may make the store be asked, and others wait meanwhile."""

_ACCEPTED_AT_ONCE: Final = 8

_WITHOUT: Final = (
    "this needs an API key or a token: send it as Authorization: Bearer ...; `monitor keys create` makes a key"
)

_SHAPELESS: Final = "the API key or token cannot be read: send it whole, as Authorization: Bearer cmk_..."


class Gate:
    """Lets in who brings a key or token. Belongs to the event loop's thread.

    Addresses from which too many wrong keys came are not listened to for a while, whatever they send, except for
    credentials that were right before, or that memory knows: behind one address there may be many, as behind a proxy
    all, and a scraper must not go blind because its neighbour has a typing error.

    Parameters
    ----------
    authenticator
        Says whose a credential is; None: access control is off, and everybody may do everything.
    limits
        How often somebody may ask, or be wrong.
    known
        Refits, which say whose model they are of.
    lookups
        Where the store is asked.
    refusals
        Counts, and tells of, those refused.
    """

    def __init__(
        self,
        authenticator: Authenticator | None,
        limits: Limits,
        known: Recalibrations,
        lookups: Computations,
        refusals: Refusals,
    ) -> None:
        self._authenticator = authenticator
        self._known = known
        self._lookups = lookups
        self._refusals = refusals
        self._failures = Throttle(limits.failures_per_minute, _MINUTE)
        self._requests = Throttle(limits.requests_per_second, 1)
        self._accepted: OrderedDict[bytes, None] = OrderedDict()
        """Fingerprints of credentials that were right, the one used last at the end."""
        self._fingerprint_key = secrets.token_bytes(32)
        self._models: dict[str, str] = {}
        """Refit -> its model, which never changes."""
        self._new = Computations(_NEW_AT_ONCE, limits.wait_seconds)
        self._again = Computations(_ACCEPTED_AT_ONCE, limits.wait_seconds)

    @property
    def is_open(self) -> bool:
        """Whether access control is off."""
        return self._authenticator is None

    async def identify(self, request: Request) -> Principal:
        """Who asks.

        Raises
        ------
        Unauthenticated
            Nobody who is known.
        Problem
            403: another site's page asks with somebody's session. 429: too many wrong keys came from there.
        """
        if self._authenticator is None:
            return ANONYMOUS
        self._refusals.tell()
        credential = credential_of(request)
        if credential is None:
            self._refusals.note(Reason.MISSING, address_of(request))
            raise Unauthenticated(_WITHOUT)
        if credential.from_cookie:
            self.check_own_page(request, or_no_browser=False)
        return await self.examine(request, credential)

    async def examine(self, request: Request, credential: Credential) -> Principal:
        """Whose a credential is. Errors as of :meth:`identify`."""
        authenticator = self._authenticator
        if authenticator is None:
            return ANONYMOUS
        fingerprint = self._fingerprint(credential.text)
        if credential.is_sane and (recalled := authenticator.recall(credential.text)) is not None:
            # Without a thread, which costs more than all the rest, and whatever others at its address got wrong: what
            # memory tells costs nothing, and of 256 random bits, or a token that was verified, none is guessed.
            self._remember(fingerprint)
            return recalled
        address = address_of(request)
        is_new = fingerprint not in self._accepted

        def look() -> Principal:
            return authenticator.authenticate(credential.text)

        try:
            if is_new:
                self._check_failures(address)
                if not credential.is_sane:
                    raise Unauthenticated(_SHAPELESS)  # noqa: TRY301 - counted like any other
                # Looked at again when it is its turn: many may have come at once.
                principal = await self._new.run(look, before=lambda: self._check_failures(address))
            else:
                principal = await self._again.run(look)
        except Unauthenticated:
            self._accepted.pop(fingerprint, None)
            self._failures.hit(address)
            self._refusals.note(Reason.WRONG, address)
            request.state.forget_session = credential.from_cookie
            raise
        self._remember(fingerprint)
        return principal

    def check_own_page(self, request: Request, *, or_no_browser: bool) -> None:
        """Refuse what another site's page asks for. Raises Problem."""
        try:
            check_own_page(request, or_no_browser=or_no_browser)
        except Problem:
            self._refusals.note(Reason.CROSS_SITE, address_of(request))
            raise

    def check_rate(self, request: Request, principal: Principal) -> None:
        """Count a request of somebody. Raises Problem (429) if there were too many within a second."""
        if self._authenticator is None or self._requests.hit(principal.name):
            return
        self._refusals.note(Reason.REQUESTS, address_of(request))
        raise _too_many(
            f"{principal.name} asks more often than access.requests_per_second allows; ask less often, or for more at "
            "once",
            self._requests.wait_seconds(principal.name) or 1,
        )

    def note_forbidden(self, request: Request) -> None:
        """Count that somebody asked for what they may not have. Any thread."""
        self._refusals.note(Reason.FORBIDDEN, address_of(request))

    def forbid(self, request: Request, role: Role, model: str | None) -> NoReturn:
        """Raise Forbidden: somebody does not hold this role. Any thread."""
        principal: Principal = request.state.principal
        self.note_forbidden(request)
        held = ", ".join(map(str, principal.grants)) or "nothing"
        needed = f"role {role.value} for " + ("all models" if model is None else f"model {model!r}")
        why = f": {principal.note}" if principal.note else ""
        raise Forbidden(f"this needs the {needed}, and {principal.name} holds {held}{why}")

    async def model_of(self, refit: str) -> str:
        """The model of a refit. Raises UnknownRecalibration."""
        model = self._models.get(refit)
        if model is None:
            model = (await self._lookups.run(lambda: self._known.job(refit))).order.model
            if len(self._models) >= _MOST_REFITS:
                self._models.clear()
            self._models[refit] = model
        return model

    def _remember(self, fingerprint: bytes) -> None:
        self._accepted[fingerprint] = None
        self._accepted.move_to_end(fingerprint)
        if len(self._accepted) > _MOST_ACCEPTED:
            self._accepted.popitem(last=False)

    def _check_failures(self, address: str) -> None:
        wait_seconds = self._failures.wait_seconds(address)
        if wait_seconds is None:
            return
        self._refusals.note(Reason.FAILURES, address)
        raise _too_many(
            "too many wrong keys or tokens came from this address, so that new ones are not looked at for now; those "
            "that were right before still are",
            wait_seconds,
        )

    def _fingerprint(self, credential: str) -> bytes:
        # Keyed, and of this process alone: who reads the memory of one finds nothing to try on another.
        return hashlib.blake2b(
            credential.encode("utf-8", "replace"), key=self._fingerprint_key, digest_size=16
        ).digest()


def _too_many(detail: str, wait_seconds: int) -> Problem:
    return Problem(429, "too-many-requests", detail, headers={"retry-after": str(wait_seconds)})
