"""Authenticates tokens (JWT) of an OpenID Connect provider.

The checks follow RFC 8725 (best current practices) and RFC 9068, section 4: one list of signatures, all of public keys;
keys of the configured provider only (`jku`, `x5u` and `jwk` in a token are not read); issuer and audience; times.
"""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import jwt
from jwt.types import Options

from monitor.access.model import Grant, Principal
from monitor.access.provider import ProviderKeys
from monitor.access.settings import OidcSettings
from monitor.clock import Clock
from monitor.errors import InputError, Unauthenticated

REMEMBERED_SECONDS: Final = 60.0
"""How long a valid token is not verified again, unless it expires or the provider's keys change."""
MAX_REMEMBERED: Final = 4096
"""Tokens that are remembered; the least recently used one is evicted."""

_MAX_TRIED: Final = 4
"""Keys that are tried for one token: a provider may give several keys the same name."""
_MAX_NAME: Final = 120
_TYPES: Final = frozenset({"jwt", "at+jwt"})
"""Accepted kinds of token, where it has a kind. Others, such as log-out tokens, have another purpose."""

_UNREADABLE: Final = "the token cannot be read: is it a whole JWT (three parts with dots between them)?"
_UNKNOWN_KEY: Final = (
    "the token is not signed with a key that its provider has now, or names it wrongly: get a new one from the provider"
    " in access.oidc.issuer"
)


class _Verified(NamedTuple):
    """A valid token."""

    principal: Principal
    version: int
    """The version of the provider's keys."""
    until: float
    """Time on the monotonic clock until which the token counts as verified."""
    expires: float
    """Seconds since the epoch."""


class TokenAuthenticator:
    """Authenticates tokens: an Authenticator. Any thread; it may wait for the provider (see ProviderKeys)."""

    def __init__(self, settings: OidcSettings, keys: ProviderKeys, clock: Clock) -> None:
        self._settings = settings
        self._keys = keys
        self._clock = clock
        self._lock = threading.Lock()
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()
        """SHA-256 of a token, which itself is not kept -> what it stands for."""

    def authenticate(self, credential: str) -> Principal:
        """The caller whom this token names.

        Raises
        ------
        Unauthenticated
            It is no token, expired, forged, or for another service. The message says which only if the provider has
            signed it.
        ProviderUnavailable
            It cannot be checked, because the provider does not answer.
        """
        digest = _digest(credential)
        # For each request, so that keys are read again also while all tokens are remembered.
        principal = self._remembered(digest, self._keys.version())
        if principal is not None:
            return principal
        version, claims = self._verify(credential)
        expires = self._check_times(claims)
        principal = _principal(claims, self._settings)
        with self._lock:
            until = self._clock.monotonic() + REMEMBERED_SECONDS
            self._verified[digest] = _Verified(principal, version, until, expires)
            self._verified.move_to_end(digest)
            if len(self._verified) > MAX_REMEMBERED:
                self._verified.popitem(last=False)
        return principal

    def recall(self, credential: str) -> Principal | None:
        """The caller whom this token names, if it was verified a moment ago; else None. Never waits."""
        version = self._keys.current()
        return None if version is None else self._remembered(_digest(credential), version)

    def _remembered(self, digest: bytes, version: int | None) -> Principal | None:
        with self._lock:
            token = self._verified.get(digest)
            if token is None:
                return None
            if token.version != version or self._clock.monotonic() >= token.until or self._now() >= token.expires:
                del self._verified[digest]
                return None
            self._verified.move_to_end(digest)
            return token.principal

    def _verify(self, token: str) -> tuple[int, dict[str, Any]]:
        """The version of the provider's keys, and the claims of a token that one of them has signed."""
        kid, algorithm = self._header(token)
        version, keys = self._keys.find(kid, algorithm)
        for key in keys[:_MAX_TRIED]:
            claims = self._decode(token, key.key, algorithm)
            if claims is not None:
                return version, claims
        raise Unauthenticated(_UNKNOWN_KEY)

    def _header(self, token: str) -> tuple[str | None, str]:
        """The name of the key and the kind of the signature: all that is read before the signature is checked."""
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(_UNREADABLE) from error
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            raise Unauthenticated(
                "the token is signed in a way that is not accepted (alg): access.oidc.algorithms lists those that are"
            )
        kind = header.get("typ", "JWT")
        if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
            raise Unauthenticated("the token is of a kind that is not accepted (typ): send an access token")
        return header.get("kid"), algorithm

    def _decode(self, token: str, key: Any, algorithm: str) -> dict[str, Any] | None:
        """The claims of a token; None: another key has signed it."""
        settings = self._settings
        # Times are checked by this service's clock.
        options: Options = {
            "require": ["iss", "aud", "exp", "iat"],
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
        }
        try:
            return jwt.decode(
                token, key, [algorithm], options=options, audience=settings.audience, issuer=settings.issuer
            )
        except jwt.InvalidSignatureError:
            return None
        except jwt.MissingRequiredClaimError as error:
            raise Unauthenticated(f"the token lacks the claim {error.claim}") from error
        except jwt.InvalidIssuerError as error:
            raise Unauthenticated("the token's iss is not the provider in access.oidc.issuer, to the letter") from error
        except jwt.InvalidAudienceError as error:
            raise Unauthenticated(
                "the token is for another service: its aud does not name this one, as access.oidc.audience has it"
            ) from error
        except jwt.PyJWTError as error:
            raise Unauthenticated(_UNREADABLE) from error

    def _check_times(self, claims: Mapping[str, Any]) -> float:
        """When a token expires, in seconds since the epoch, including the leeway. Raises Unauthenticated."""
        now, leeway = self._now(), self._settings.leeway.total_seconds()
        times = {name: _time(claims[name], name) for name in ("exp", "nbf", "iat") if name in claims}
        expires = times["exp"] + leeway
        if now >= expires:
            raise Unauthenticated("the token has expired: get a new one from the provider in access.oidc.issuer")
        for name in ("nbf", "iat"):
            if times.get(name, now) > now + leeway:
                raise Unauthenticated(
                    f"the token is not valid yet ({name} is in the future): do the clocks of its provider and of this"
                    " service agree?"
                )
        return expires

    def _now(self) -> float:
        return self._clock.now_ms() / 1000


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _time(value: Any, name: str) -> float:
    try:
        # In Python, bool is a number, and JSON may hold Infinity.
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise Unauthenticated(f"the token's claim {name} is no time in seconds")


def _principal(claims: Mapping[str, Any], settings: OidcSettings) -> Principal:
    """The caller whom a valid token names."""
    name = _claim(claims, settings.name_claim)
    if not isinstance(name, str) or not name:
        raise Unauthenticated(
            f"the token does not say who it is: its claim {settings.name_claim} is missing, or no text"
        )
    grants, note = _grants(_claim(claims, settings.roles_claim), settings)
    return Principal(f"oidc:{_clean(name)}", grants, note)


def _grants(value: Any, settings: OidcSettings) -> tuple[tuple[Grant, ...], str]:
    """What the claim of roles allows; if nothing, a note that says why."""
    values = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    # A role is text that does not garble a log.
    names = [name for name in values if isinstance(name, str) and name.isprintable()]
    grants: set[Grant] = set()
    for name in names:
        if settings.roles:
            grants.update(map(Grant.parse, settings.roles.get(name, ())))
        else:
            # Providers put other values into such claims, too, such as `openid profile` into scope.
            with suppress(InputError):
                grants.add(Grant.parse(name))
    if grants:
        return tuple(sorted(grants, key=str)), ""
    if not names:
        return (), f"the token has no claim {settings.roles_claim} that names a role"
    known = "access.oidc.roles lists" if settings.roles else "is a role: read, write, promote, or one as in read:churn"
    return (), f"the token's claim {settings.roles_claim} names nothing that {known}"


def _claim(claims: Any, path: str) -> Any:
    """A claim by its name, or by a path of names with dots; a name may itself have dots, such as a URL."""
    if not isinstance(claims, Mapping):
        return None
    if path in claims:
        return claims[path]
    for index, character in enumerate(path):
        if character == "." and path[:index] in claims:
            value = _claim(claims[path[:index]], path[index + 1 :])
            if value is not None:
                return value
    return None


def _clean(name: str) -> str:
    """A name for the log: short, printable, and different for different names."""
    if name.isprintable() and len(name) <= _MAX_NAME:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    readable = "".join(character if character.isprintable() else "?" for character in name[:_MAX_NAME])
    return f"{readable}~{digest}"
