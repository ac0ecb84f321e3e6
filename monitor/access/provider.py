"""The public keys of a provider of tokens: how they are read, and how long they hold."""

import json
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import anyio
import httpx
import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from monitor.access.last_read import Ages, LastRead
from monitor.access.oidc import ALGORITHMS, check_url
from monitor.clock import Clock
from monitor.errors import InputError, ProviderUnavailable, SettingsError
from monitor.outage_log import Outage

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

ASK_AGAIN_SECONDS: Final = 10.0
"""For a key that is not known, and after a failure, the provider is asked at most this often."""
OUTAGE_SECONDS: Final = 3600.0
"""How long keys hold beyond `refresh`, while the provider does not answer."""
WAIT_SECONDS: Final = 5.0
"""How long a request waits for keys that are being read."""
READ_SECONDS: Final = 10.0
"""How long the provider may take to answer, from the first byte to the last."""
MOST_BYTES: Final = 256 * 1024
"""The largest answer that is read."""
MOST_KEYS: Final = 100
"""Further keys of a provider are not looked at."""

_EARLY: Final = 0.8
"""Share of `refresh` after which keys are asked for, while requests go on with those there are."""
_LEAST_RSA_BITS: Final = 2048

_log = structlog.get_logger(__name__)


class SigningKey(NamedTuple):
    """A key with which tokens are signed."""

    kid: str | None
    """What tokens call it; None: the provider gives it no name."""
    algorithms: frozenset[str]
    """The signatures that it makes."""
    key: PublicKey
    source: str
    """The key as it was read: two are the same where this is."""


class KeySet(NamedTuple):
    """What a provider's key set holds for us."""

    keys: tuple[SigningKey, ...]
    unusable: tuple[str, ...]
    """Why others were left out, in words."""


def parse_keys(document: Any) -> KeySet:
    """Read a JSON Web Key Set (RFC 7517).

    Keys that are not for signatures, of kinds that are not known, too short, secret or broken are left out: providers
    publish keys for other purposes beside those for tokens.

    Raises
    ------
    InputError
        It is none, or holds no key that is of use. Says why.
    """
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise InputError('is no JSON Web Key Set: it must be an object with a list "keys"')
    keys: list[SigningKey] = []
    unusable: list[str] = []
    for number, jwk in enumerate(listed[:MOST_KEYS]):
        try:
            keys.append(_key(jwk))
        except InputError as error:
            unusable.append(f"keys[{number}] {error}")
    if len(listed) > MOST_KEYS:
        unusable.append(f"{len(listed) - MOST_KEYS} keys beyond the first {MOST_KEYS}")
    if not keys:
        raise InputError(f"holds no keys for signatures ({'; '.join(unusable[:3]) or 'it is empty'})")
    return KeySet(tuple(keys), tuple(unusable))


def _key(jwk: Any) -> SigningKey:
    if not isinstance(jwk, dict):
        raise InputError("is no object")
    operations = jwk.get("key_ops")
    if jwk.get("use", "sig") != "sig" or (isinstance(operations, list) and "verify" not in operations):
        raise InputError("is not for signatures")
    if "d" in jwk or jwk.get("kty") == "oct":
        # It would do, and whoever has read it can sign what they like.
        raise InputError("is secret and was published: replace it")
    kid, named = jwk.get("kid"), jwk.get("alg")
    if kid is not None and not isinstance(kid, str):
        raise InputError("has a kid that is no text")
    kind = jwk.get("crv") or jwk.get("kty")
    algorithms = frozenset(each for each, its in ALGORITHMS.items() if its == kind and named in (None, each))
    if not algorithms:
        raise InputError(f"is of a kind that is not accepted ({str(named or kind)[:20]!r})")
    try:
        key = jwt.PyJWK(jwk, min(algorithms)).key
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise InputError("is broken") from error
    if not isinstance(key, PublicKey):
        raise InputError("is no public key")
    if isinstance(key, RSAPublicKey) and key.key_size < _LEAST_RSA_BITS:
        raise InputError(f"has {key.key_size} bits, and at least {_LEAST_RSA_BITS} are needed")
    return SigningKey(kid, algorithms, key, json.dumps(jwk, sort_keys=True))


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a provider's keys are.

    Attributes
    ----------
    issuer
        Its name, and where its discovery document is found.
    jwks_url
        Where its keys are; None: where the discovery document says.
    cafile
        Certificates to trust, PEM; None: those of httpx.
    """

    issuer: str
    jwks_url: str | None = None
    cafile: str | None = None

    def trust(self) -> ssl.SSLContext:
        """The certificates that are trusted. Raises SettingsError where the file of them cannot be read."""
        try:
            return httpx.create_ssl_context() if self.cafile is None else ssl.create_default_context(cafile=self.cafile)
        except OSError as error:
            raise SettingsError(
                f"access.oidc.cafile: cannot read certificates (PEM) from {self.cafile}: {error.strerror or error}"
            ) from error

    def read(self) -> KeySet:
        """Ask for the keys. Takes ``READ_SECONDS`` at most; not from an event loop.

        Redirects are not followed, as they could lead anywhere, and of an answer no more than ``MOST_BYTES`` is read.

        Raises
        ------
        ProviderUnavailable
            It does not answer, or not as it should. Names the address and says what to do.
        """
        try:
            return anyio.run(self._read)
        except TimeoutError as error:
            raise ProviderUnavailable(
                f"{self.jwks_url or self.issuer} did not answer within {READ_SECONDS:g} s"
            ) from error

    async def _read(self) -> KeySet:
        try:
            trust = self.trust()
        except SettingsError as error:
            raise ProviderUnavailable(str(error)) from error
        with anyio.fail_after(READ_SECONDS):
            # The limit is above: httpx's own are for each piece of an answer, of which there may be many.
            async with httpx.AsyncClient(verify=trust, timeout=None, follow_redirects=False) as http:  # noqa: S113
                url = self.jwks_url or await self._discover(http)
                document = await _json(http, url)
        try:
            return parse_keys(document)
        except InputError as error:
            raise ProviderUnavailable(f"{url} {error}") from error

    async def _discover(self, http: httpx.AsyncClient) -> str:
        """Where the keys are, as the provider says (OpenID Connect Discovery 1.0, section 4)."""
        url = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        document = await _json(http, url)
        issuer, jwks_url = (
            (document.get("issuer"), document.get("jwks_uri")) if isinstance(document, dict) else (None, None)
        )
        if issuer != self.issuer:
            raise ProviderUnavailable(
                f"{url} says that its issuer is {_shown(issuer)}, and access.oidc.issuer is {self.issuer!r}: they must"
                " be equal, to the last slash"
            )
        if not isinstance(jwks_url, str):
            raise ProviderUnavailable(f"{url} does not say where the keys are (jwks_uri): set access.oidc.jwks_url")
        try:
            check_url(jwks_url)
        except InputError as error:
            raise ProviderUnavailable(f"{url}: its jwks_uri {_shown(jwks_url)} {error}") from error
        return jwks_url


async def _json(http: httpx.AsyncClient, url: str) -> Any:
    # As it is: a few bytes, unpacked, may be millions.
    asked = {"accept": "application/json", "accept-encoding": "identity"}
    body = bytearray()
    try:
        async with http.stream("GET", url, headers=asked) as answer:
            if answer.is_redirect:
                raise ProviderUnavailable(
                    f"{url} leads elsewhere ({answer.status_code}), and redirects are not followed: name the last"
                    " address as access.oidc.issuer or access.oidc.jwks_url"
                )
            if answer.status_code != httpx.codes.OK:
                raise ProviderUnavailable(f"{url} answers {answer.status_code} {answer.reason_phrase}")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise ProviderUnavailable(f"{url} answers compressed, unasked")
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > MOST_BYTES:
                    raise ProviderUnavailable(f"{url} answers with more than {MOST_BYTES // 1024} KiB")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ProviderUnavailable(f"{url} does not answer: {error or type(error).__name__}") from error
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProviderUnavailable(f"{url} does not answer with JSON") from error


class _Version(NamedTuple):
    """The keys that a provider had at some time."""

    number: int
    keys: tuple[SigningKey, ...]

    def fitting(self, kid: str | None, algorithm: str) -> tuple[SigningKey, ...]:
        return tuple(each for each in self.keys if algorithm in each.algorithms and kid in (None, each.kid))


_NONE: Final = _Version(0, ())


class ProviderKeys:
    """A provider's keys, in memory. Any thread.

    What the provider is asked does not depend on what requests send. Keys are asked for when four fifths of `refresh`
    have passed, while requests go on with those there are, and again for a name that is not known, so that a new key
    holds at once; for either, and after a failure, at most once in ``ASK_AGAIN_SECONDS``. While the provider does not
    answer, its last keys hold for `refresh` and ``OUTAGE_SECONDS``, and then none.

    A request may wait here for ``WAIT_SECONDS``, where its key is not known or nobody asked for a while: call it from a
    worker's thread, not from an event loop.

    Parameters
    ----------
    read
        Asks the provider; raises ProviderUnavailable.
    refresh_seconds
        After so long a key that the provider has withdrawn does not hold any more, if it answers.
    clock
        Tells the age of what is held.
    """

    def __init__(self, read: Callable[[], KeySet], refresh_seconds: float, clock: Clock) -> None:
        self._read_provider = read
        self._newest = _NONE
        """What was read last, however long ago. Belongs to the thread that reads."""
        self._last = LastRead(
            self._read,
            Ages(
                early=_EARLY * refresh_seconds,
                stale=refresh_seconds,
                lost=refresh_seconds + OUTAGE_SECONDS,
                again=ASK_AGAIN_SECONDS,
                wait=WAIT_SECONDS,
            ),
            away=ProviderUnavailable,
            outage=Outage(
                _log,
                "the provider's keys cannot be read; those known so far go on",
                "the provider's keys are read",
                clock,
            ),
            name="the provider's keys",
            clock=clock,
        )

    def version(self) -> int:
        """Grows whenever the keys change: what was verified with an earlier one may not hold. 0: no keys hold."""
        self._last.freshen()
        return self._held().number

    def current(self) -> int | None:
        """As :meth:`version`, without waiting; None also where keys are so old that those being read are waited for."""
        return self._held().number if self._last.is_fresh() else None

    def find(self, kid: str | None, algorithm: str) -> tuple[int, tuple[SigningKey, ...]]:
        """The keys that a token may be signed with; none if the provider has no such key.

        Parameters
        ----------
        kid
            What the token calls its key; None: it does not say, and any may be it.
        algorithm
            How it is signed.

        Returns
        -------
        Their version, and the keys.

        Raises
        ------
        ProviderUnavailable
            There is no such key among those known, and the provider does not answer.
        """
        self._last.freshen()
        held = self._held()
        if not held.fitting(kid, algorithm):
            self._last.look_again()
            known = self._last.wait()
            held = self._held()
            if not known and not held.fitting(kid, algorithm):
                raise ProviderUnavailable(
                    "the provider of tokens does not answer, so that this token cannot be checked at present: try again"
                    " soon, or use an API key"
                )
        return held.number, held.fitting(kid, algorithm)

    def _held(self) -> "_Version":
        return self._last.get() or _NONE

    def _read(self) -> "_Version":
        """In the thread that reads."""
        found = self._read_provider()
        if _sources(found.keys) != _sources(self._newest.keys):
            self._newest = _Version(self._newest.number + 1, found.keys)
            kids = [each.kid for each in found.keys]
            _log.info("the provider's keys have changed", kids=kids, unusable=list(found.unusable))
        return self._newest


def _sources(keys: Iterable[SigningKey]) -> set[str]:
    return {each.source for each in keys}


def _shown(value: object) -> str:
    return repr(value if isinstance(value, str) else type(value).__name__)[:200]
