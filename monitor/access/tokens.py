"""Tokens (JWT) of an OpenID Connect provider: whose one is, and what it allows.

What is checked follows RFC 8725 (best current practices) and RFC 9068, section 4: one list of signatures, all of public
keys; keys from the configured provider alone, whatever the token says of itself (`jku`, `x5u`, `jwk` are not read);
issuer and audience; times.
"""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import jwt
from jwt.types import Options

from monitor.access.model import Grant, Principal
from monitor.access.provider import ProviderKeys
from monitor.clock import Clock
from monitor.errors import InputError, Unauthenticated

MOST_CHARACTERS: Final = 16 * 1024
"""Longer tokens are refused unread."""
REMEMBERED_SECONDS: Final = 60.0
"""A token that was right is not verified again for so long, unless it expires or the provider's keys change."""
MOST_REMEMBERED: Final = 4096
"""Tokens that are remembered; the one used least recently is forgotten first."""

_MOST_TRIED: Final = 4
"""Keys that one token is tried with: names of keys are the provider's to give, and may be given twice."""
_LONGEST_NAME: Final = 120
_TYPES: Final = frozenset({"jwt", "at+jwt"})
"""Kinds of token that are accepted, where one says its kind. Others, as of a log-out, have another purpose."""

_UNREADABLE: Final = "the token cannot be read: is it a whole JWT (three parts with dots between them)?"
_NO_SUCH_KEY: Final = (
    "the token is not signed with a key that its provider has now, or names it wrongly: get a new one from the provider"
    " in access.oidc.issuer"
)


@dataclass(frozen=True, slots=True)
class TokenRules:
    """Which tokens are accepted, and what they allow.

    Attributes
    ----------
    issuer, audience
        What `iss` must be, and `aud` name.
    algorithms
        Signatures that are accepted, of :data:`monitor.access.oidc.ALGORITHMS`.
    roles_claim
        The claim that names roles.
    roles
        What its values allow; empty: they are grants themselves.
    name_claim
        The claim that says who it is.
    leeway_seconds
        By how much the provider's clock may differ.
    """

    issuer: str
    audience: str
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    roles_claim: str = "roles"
    roles: Mapping[str, tuple[Grant, ...]] | None = None
    name_claim: str = "sub"
    leeway_seconds: float = 30.0


class _Known(NamedTuple):
    """A token that was right."""

    principal: Principal
    version: int
    """Of the provider's keys."""
    until: float
    """On the monotonic clock."""
    expires: float
    """Seconds since the epoch."""


class TokenAuthenticator:
    """Says who holds a token: an Authenticator. Any thread; it may wait for the provider (see ProviderKeys).

    Parameters
    ----------
    rules
        Which tokens are accepted.
    keys
        The provider's.
    clock
        Tells whether a token has expired.
    """

    def __init__(self, rules: TokenRules, keys: ProviderKeys, clock: Clock) -> None:
        self._rules = rules
        self._keys = keys
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        """SHA-256 of a token -> whose it is: of the token itself nothing is kept."""

    def authenticate(self, credential: str) -> Principal:
        """Say who holds this token.

        Raises
        ------
        Unauthenticated
            Nobody: it is no token, expired, forged, or for another service. Only of what the provider has signed does
            the message say which.
        ProviderUnavailable
            It cannot be checked, as the provider does not answer.
        """
        if len(credential) > MOST_CHARACTERS:
            raise Unauthenticated(f"a token has {MOST_CHARACTERS} characters at most, and this one {len(credential)}")
        if not credential.isascii():
            raise Unauthenticated(_UNREADABLE)
        digest = _digest(credential)
        # Asked for each request, so that keys are renewed also where all tokens are known.
        principal = self._remembered(digest, self._keys.version())
        if principal is not None:
            return principal
        version, claims = self._verify(credential)
        expires = self._check_times(claims)
        principal = _principal(claims, self._rules)
        with self._lock:
            until = self._clock.monotonic() + REMEMBERED_SECONDS
            self._known[digest] = _Known(principal, version, until, expires)
            self._known.move_to_end(digest)
            if len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        return principal

    def recall(self, credential: str) -> Principal | None:
        """Say who holds this token, if it was right a moment ago; else None. Never waits."""
        if len(credential) > MOST_CHARACTERS or not credential.isascii():
            return None
        version = self._keys.current()
        return None if version is None else self._remembered(_digest(credential), version)

    def _remembered(self, digest: bytes, version: int | None) -> Principal | None:
        with self._lock:
            known = self._known.get(digest)
            if known is None:
                return None
            if known.version != version or self._clock.monotonic() >= known.until or self._now() >= known.expires:
                del self._known[digest]
                return None
            self._known.move_to_end(digest)
            return known.principal

    def _verify(self, token: str) -> tuple[int, dict[str, Any]]:
        """What a token says, which its provider has signed, and the version of the key."""
        kid, algorithm = self._header(token)
        version, keys = self._keys.find(kid, algorithm)
        for each in keys[:_MOST_TRIED]:
            claims = self._decode(token, each.key, algorithm)
            if claims is not None:
                return version, claims
        raise Unauthenticated(_NO_SUCH_KEY)

    def _header(self, token: str) -> tuple[str | None, str]:
        """The name of the key, and the signature's kind: all that is believed before the signature is checked."""
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError as error:
            raise Unauthenticated(_UNREADABLE) from error
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self._rules.algorithms:
            raise Unauthenticated(
                "the token is signed in a way that is not accepted (alg): access.oidc.algorithms lists those that are"
            )
        kind = header.get("typ", "JWT")
        if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
            raise Unauthenticated("the token is of a kind that is not accepted (typ): send an access token")
        return header.get("kid"), algorithm

    def _decode(self, token: str, key: Any, algorithm: str) -> dict[str, Any] | None:
        """What a token says; None: another key has signed it."""
        rules = self._rules
        # Times are checked by the clock that all else goes by.
        options: Options = {
            "require": ["iss", "aud", "exp", "iat"],
            "verify_exp": False,
            "verify_nbf": False,
            "verify_iat": False,
        }
        try:
            return jwt.decode(token, key, [algorithm], options=options, audience=rules.audience, issuer=rules.issuer)
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
        """When a token expires, in seconds since the epoch, leeway included. Raises Unauthenticated."""
        now, leeway = self._now(), self._rules.leeway_seconds
        times: dict[str, float] = {}
        for name in ("exp", "nbf", "iat"):
            if name in claims:
                times[name] = _time(claims[name], name)
        expires = times["exp"] + leeway
        if now >= expires:
            raise Unauthenticated("the token has expired: get a new one from the provider in access.oidc.issuer")
        for name in ("nbf", "iat"):
            if times.get(name, now) > now + leeway:
                raise Unauthenticated(
                    f"the token does not hold yet ({name} lies ahead): do the clocks of its provider and of this"
                    " service agree?"
                )
        return expires

    def _now(self) -> float:
        return self._clock.now_ms() / 1000


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _time(value: Any, name: str) -> float:
    try:
        # bool is a number to Python, and JSON of Python's knows Infinity.
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise Unauthenticated(f"the token's claim {name} is no time in seconds")


def _principal(claims: Mapping[str, Any], rules: TokenRules) -> Principal:
    """Who it is, of a token that is in order."""
    name = _claim(claims, rules.name_claim)
    if not isinstance(name, str) or not name:
        raise Unauthenticated(f"the token does not say who it is: its claim {rules.name_claim} is missing, or no text")
    grants, note = _grants(_claim(claims, rules.roles_claim), rules)
    return Principal(f"oidc:{_clean(name)}", grants, note)


def _grants(value: Any, rules: TokenRules) -> tuple[tuple[Grant, ...], str]:
    """What the claim of roles allows, and where it allows nothing, why."""
    said = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    # Of others than text, and of what would garble a log, there is no role.
    names = [each for each in said if isinstance(each, str) and each.isprintable()]
    grants: set[Grant] = set()
    for each in names:
        if rules.roles:
            grants.update(rules.roles.get(each, ()))
            continue
        try:
            grants.add(Grant.parse(each))
        except InputError:
            # Providers put more into such claims than what is for us, as `openid profile` into scope.
            continue
    if grants:
        return tuple(sorted(grants, key=str)), ""
    if not names:
        return (), f"the token has no claim {rules.roles_claim} that names a role"
    known = "access.oidc.roles lists" if rules.roles else "is a role: read, write, promote, or one as in read:churn"
    return (), f"the token's claim {rules.roles_claim} names nothing that {known}"


def _claim(claims: Any, path: str) -> Any:
    """A claim by name, or one inside others: names may hold dots themselves, as those that are URLs do."""
    if not isinstance(claims, Mapping):
        return None
    if path in claims:
        return claims[path]
    for at, character in enumerate(path):
        if character == "." and path[:at] in claims:
            found = _claim(claims[path[:at]], path[at + 1 :])
            if found is not None:
                return found
    return None


def _clean(name: str) -> str:
    """A name that is fit for a log: short, of printable characters, and of two names never the same."""
    if name.isprintable() and len(name) <= _LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    readable = "".join(each if each.isprintable() else "?" for each in name[:_LONGEST_NAME])
    return f"{readable}~{mark}"
