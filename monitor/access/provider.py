"""The public keys of an OpenID Connect provider: read, checked, and kept in memory.

PyJWT's own client (``PyJWKClient``) has no bound on size or total time, no tolerance of outages and no limit of
requests while the provider fails: see docs/decisions/0016-http-and-its-libraries.md.
"""

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

from monitor.access.cached_source import CachedSource, CacheTimes
from monitor.access.settings import ALGORITHMS, check_url
from monitor.clock import Clock
from monitor.errors import InputError, ProviderUnavailable, SettingsError
from monitor.outage_log import Outage

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

RETRY_SECONDS: Final = 10.0
"""Shortest time between two reads of the provider, for an unknown key and after a failure."""
OUTAGE_SECONDS: Final = 3600.0
"""How long keys are valid beyond `refresh`, while the provider does not answer."""
WAIT_SECONDS: Final = 5.0
"""How long a request waits for keys that are being read."""
READ_SECONDS: Final = 10.0
"""How long the provider may take to answer, from the first byte to the last."""
MAX_BYTES: Final = 256 * 1024
"""The largest answer that is read."""
MAX_KEYS: Final = 100
"""Further keys of a provider are ignored."""

_REFRESH_SHARE: Final = 0.8
"""Share of `refresh` after which keys are read again, while requests go on with those in memory."""
_MIN_RSA_BITS: Final = 2048

_log = structlog.get_logger(__name__)


class SigningKey(NamedTuple):
    """A public key for tokens."""

    kid: str | None
    """Its name in tokens; None: the provider gives it no name."""
    algorithms: frozenset[str]
    """The signatures that it fits."""
    key: PublicKey
    source: str
    """The JSON of the key, by which keys are compared."""


class KeySet(NamedTuple):
    """The usable keys of a provider's key set."""

    keys: tuple[SigningKey, ...] = ()
    unusable: tuple[str, ...] = ()
    """Why others are not usable, in words."""
    version: int = 0
    """Grows when the provider's keys change; 0: not read yet."""

    def matching(self, kid: str | None, algorithm: str) -> tuple[SigningKey, ...]:
        """The keys that a token with this name of a key and this signature may be signed with."""
        return tuple(key for key in self.keys if algorithm in key.algorithms and kid in (None, key.kid))


def parse_keys(document: Any) -> KeySet:
    """Parse a JSON Web Key Set (RFC 7517).

    Keys that are not for signatures, of unknown kinds, too short, secret or broken are left out: providers publish keys
    for other purposes, too.

    Raises
    ------
    InputError
        It is not a key set, or has no usable key. Says why.
    """
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise InputError('is no JSON Web Key Set: it must be an object with a list "keys"')
    keys: list[SigningKey] = []
    unusable: list[str] = []
    for number, jwk in enumerate(listed[:MAX_KEYS]):
        try:
            keys.append(_key(jwk))
        except InputError as error:
            unusable.append(f"keys[{number}] {error}")
    if len(listed) > MAX_KEYS:
        unusable.append(f"{len(listed) - MAX_KEYS} keys beyond the first {MAX_KEYS}")
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
        # Everybody who has read it can sign tokens.
        raise InputError("is secret and was published: replace it")
    kid, named = jwk.get("kid"), jwk.get("alg")
    if kid is not None and not isinstance(kid, str):
        raise InputError("has a kid that is no text")
    kind = jwk.get("crv") or jwk.get("kty")
    algorithms = frozenset(name for name, of in ALGORITHMS.items() if of == kind and named in (None, name))
    if not algorithms:
        raise InputError(f"is of a kind that is not accepted ({str(named or kind)[:20]!r})")
    try:
        key = jwt.PyJWK(jwk, min(algorithms)).key
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise InputError("is broken") from error
    if not isinstance(key, PublicKey):
        raise InputError("is no public key")
    if isinstance(key, RSAPublicKey) and key.key_size < _MIN_RSA_BITS:
        raise InputError(f"has {key.key_size} bits, and at least {_MIN_RSA_BITS} are needed")
    return SigningKey(kid, algorithms, key, json.dumps(jwk, sort_keys=True))


@dataclass(frozen=True, slots=True)
class Provider:
    """The URL of a provider's keys.

    Attributes
    ----------
    issuer
        Its name, and the base URL of its discovery document.
    jwks_url
        The URL of its keys; None: the one in the discovery document.
    cafile
        Certificates to trust, PEM; None: those of httpx.
    """

    issuer: str
    jwks_url: str | None = None
    cafile: str | None = None

    def trust(self) -> ssl.SSLContext:
        """The trusted certificates. Raises SettingsError if their file cannot be read."""
        try:
            return httpx.create_ssl_context() if self.cafile is None else ssl.create_default_context(cafile=self.cafile)
        except OSError as error:
            raise SettingsError(
                f"access.oidc.cafile: cannot read certificates (PEM) from {self.cafile}: {error.strerror or error}"
            ) from error

    def read(self) -> KeySet:
        """Read the keys, in ``READ_SECONDS`` at most; not in an event loop.

        Redirects are not followed, and at most ``MAX_BYTES`` of an answer are read.

        Raises
        ------
        ProviderUnavailable
            It does not answer, or its answer is wrong. Names the URL and says what to do.
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
            # The limit is above: those of httpx are for each chunk of an answer, of which there may be many.
            async with httpx.AsyncClient(verify=trust, timeout=None, follow_redirects=False) as http:  # noqa: S113
                url = self.jwks_url or await self._discover(http)
                document = await _json(http, url)
        try:
            return parse_keys(document)
        except InputError as error:
            raise ProviderUnavailable(f"{url} {error}") from error

    async def _discover(self, http: httpx.AsyncClient) -> str:
        """The URL of the keys in the discovery document (OpenID Connect Discovery 1.0, section 4)."""
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
    # Not compressed: a few bytes may unpack to millions.
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    body = bytearray()
    try:
        async with http.stream("GET", url, headers=headers) as response:
            if response.is_redirect:
                raise ProviderUnavailable(
                    f"{url} redirects ({response.status_code}), which is not followed: set the last"
                    " address as access.oidc.issuer or access.oidc.jwks_url"
                )
            if response.status_code != httpx.codes.OK:
                raise ProviderUnavailable(f"{url} answers {response.status_code} {response.reason_phrase}")
            if response.headers.get("content-encoding", "identity") != "identity":
                raise ProviderUnavailable(f"{url} answers compressed, which was not requested")
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ProviderUnavailable(f"{url} answers with more than {MAX_BYTES // 1024} KiB")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ProviderUnavailable(f"{url} does not answer: {error or type(error).__name__}") from error
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ProviderUnavailable(f"{url} does not answer with JSON") from error


class ProviderKeys:
    """A provider's keys, in memory. Any thread.

    The load of the provider does not depend on what requests send. Keys are read when four fifths of `refresh` have
    passed, while requests go on with those in memory, and for an unknown key, so that a new one is valid at once; for
    either, and after a failure, at most once in ``RETRY_SECONDS``. While the provider does not answer, its last
    keys are valid for `refresh` and ``OUTAGE_SECONDS``.

    A request may wait here for ``WAIT_SECONDS``, for an unknown key or after a long pause: call it in a worker's
    thread, not in an event loop.

    Parameters
    ----------
    read
        Reads the keys of the provider; raises ProviderUnavailable.
    refresh_seconds
        After so long, a key that the provider has withdrawn is refused, if the provider answers.
    clock
        Measures the age of the keys.
    """

    def __init__(self, read: Callable[[], KeySet], refresh_seconds: float, clock: Clock) -> None:
        self._read_provider = read
        self._newest = KeySet()
        """The keys read last, however long ago. Used in the thread that reads."""
        self._cache = CachedSource(
            self._read,
            CacheTimes(
                refresh=_REFRESH_SHARE * refresh_seconds,
                stale=refresh_seconds,
                expire=refresh_seconds + OUTAGE_SECONDS,
                retry=RETRY_SECONDS,
                wait=WAIT_SECONDS,
            ),
            unavailable=ProviderUnavailable,
            outage=Outage(
                _log,
                "the provider's keys cannot be read; the last ones stay in use",
                "the provider's keys are read",
                clock,
            ),
            name="the provider's keys",
            clock=clock,
        )

    def version(self) -> int:
        """Grows when the keys change: tokens verified with an earlier version may be invalid. 0: there are no keys."""
        self._cache.refresh()
        return self._keys().version

    def current(self) -> int | None:
        """Return the version of the keys without waiting; None if they are stale."""
        return self._keys().version if self._cache.is_fresh() else None

    def find(self, kid: str | None, algorithm: str) -> tuple[int, tuple[SigningKey, ...]]:
        """The keys that a token may be signed with; empty if the provider has no such key.

        Parameters
        ----------
        kid
            The name of the key in the token; None: any key may be it.
        algorithm
            The signature of the token.

        Returns
        -------
        Their version, and the keys.

        Raises
        ------
        ProviderUnavailable
            There is no such key in memory, and the provider does not answer.
        """
        self._cache.refresh()
        keys = self._keys()
        matching = keys.matching(kid, algorithm)
        if not matching:
            self._cache.start_read()
            is_current = self._cache.wait()
            keys = self._keys()
            matching = keys.matching(kid, algorithm)
            if not matching and not is_current:
                raise ProviderUnavailable(
                    "the provider of tokens does not answer, so that this token cannot be checked at present: try again"
                    " soon, or use an API key"
                )
        return keys.version, matching

    def _keys(self) -> KeySet:
        return self._cache.get() or KeySet()

    def _read(self) -> KeySet:
        """Read the provider, in the thread that reads."""
        read = self._read_provider()
        if _sources(read.keys) != _sources(self._newest.keys):
            self._newest = read._replace(version=self._newest.version + 1)
            kids = [key.kid for key in read.keys]
            _log.info("the provider's keys have changed", kids=kids, unusable=list(read.unusable))
        return self._newest


def _sources(keys: Iterable[SigningKey]) -> set[str]:
    return {key.source for key in keys}


def _shown(value: object) -> str:
    return repr(value if isinstance(value, str) else type(value).__name__)[:200]
