"""API keys: make, parse and authenticate them."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

import structlog

from monitor.access.cached_source import CachedSource, CacheTimes
from monitor.access.model import Principal, StoredKey
from monitor.clock import Clock
from monitor.errors import InputError, StoreError, StoreUnavailable, Unauthenticated
from monitor.outage_log import Outage

PREFIX: Final = "cmk_"
"""The beginning of every API key: it differs from a token, and scanners of secrets find it."""

REREAD_SECONDS: Final = 5.0
"""Age of keys in memory from which on they are read again, while requests go on with them."""
STALE_SECONDS: Final = 8.0
"""Age of keys in memory from which on requests wait for newer ones: there may have been no request for hours."""
WAIT_SECONDS: Final = 2.0
"""How long a request waits for keys that are being read."""
REVOKED_WITHIN_SECONDS: Final = STALE_SECONDS + WAIT_SECONDS
"""Longest time until every replica whose store answers refuses a revoked key."""
UNKNOWN_SECONDS: Final = 1.0
"""Shortest time between two reads of the keys, for an unknown key and after a failure."""
OUTAGE_SECONDS: Final = 900.0
"""How long the keys in memory are valid while their store does not answer."""

_SECRET_BYTES: Final = 32
_KEY_ID: Final = re.compile(r"[0-9a-f]{12}")
_FORM: Final = re.compile(rf"{PREFIX}({_KEY_ID.pattern})_([A-Za-z0-9_-]{{43}})")
_MAX_NAME: Final = 64

_NO_DIGEST: Final = bytes(hashlib.sha256().digest_size)
"""Compared with in place of the digest of an unknown key: no text with this digest is known."""

_log = structlog.get_logger(__name__)


class NewKey(NamedTuple):
    """A new key. Its text is stored nowhere."""

    key_id: str
    text: str
    """What its owner sends: ``cmk_<key id>_<secret>``."""
    digest: bytes
    """SHA-256 of the secret, which itself is never stored."""


def make_key() -> NewKey:
    """Make a key of 256 random bits with a random id."""
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(_SECRET_BYTES)
    return NewKey(key_id, f"{PREFIX}{key_id}_{secret}", digest_of(secret))


def digest_of(secret: str) -> bytes:
    """SHA-256 of a secret as text: decoded to bytes, four different last characters would be the same secret."""
    return hashlib.sha256(secret.encode()).digest()


def parse_key(text: str) -> tuple[str, str]:
    """The id and the secret of a key.

    Raises
    ------
    Unauthenticated
        It does not look like one. The message does not show it.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise Unauthenticated(
            f"an API key is {PREFIX}, 12 hexadecimal digits, _ and 43 characters; this one is not: was it cut, or put"
            " in quotes?"
        )
    return match[1], match[2]


def is_key_id(text: str) -> bool:
    """Whether it looks like the id of a key."""
    return _KEY_ID.fullmatch(text) is not None


def check_name(name: str) -> None:
    """Refuse names that look like ids, or would garble a log. Raises InputError."""
    if not name or len(name) > _MAX_NAME or not name.isprintable() or name != name.strip() or is_key_id(name):
        raise InputError(
            f"the name of a key must be 1 to {_MAX_NAME} printable characters, without spaces around them and not"
            f" in the form of an id, got {name[: 2 * _MAX_NAME]!r}"
        )


def principal_of(key: StoredKey) -> Principal:
    """The caller who uses this key."""
    return Principal(f"key:{key.name}", key.grants)


def in_force(key: StoredKey, now_ms: int) -> bool:
    """Whether a key is neither revoked nor expired."""
    return key.revoked_ms is None and (key.expires_ms is None or now_ms < key.expires_ms)


def state_of(key: StoredKey, now_ms: int) -> str:
    """The state of a key in words: in force, expired or revoked."""
    if key.revoked_ms is not None:
        return "revoked"
    return "in force" if in_force(key, now_ms) else "expired"


class KeySource(Protocol):
    """A source of keys, such as the store or a file. Any thread."""

    def keys(self) -> Sequence[StoredKey]:
        """All keys, also those that are revoked. Raises StoreError where they cannot be read."""
        ...


class KeyAuthenticator:
    """Authenticates API keys from memory: an Authenticator.

    The load of the sources does not depend on what requests send. Each is read when its keys are ``REREAD_SECONDS``
    old, in a thread of its own; for an unknown key, at most once in ``UNKNOWN_SECONDS``, and that request waits, so
    that a new key is valid at once. Nothing that a request sends is kept.

    A source that does not answer is read again after ``UNKNOWN_SECONDS``. Its keys are valid for ``OUTAGE_SECONDS``
    after they were last read; for others the answer is StoreUnavailable, because they may be new.

    :meth:`authenticate` may wait, for ``WAIT_SECONDS`` at most, for an unknown key or after a long pause: call it in a
    worker's thread, not in an event loop. :meth:`recall` never waits, and suffices for nearly all requests.

    Parameters
    ----------
    sources
        Where two have the same id, the first counts.
    clock
        For expiry, and the age of the keys in memory.
    """

    def __init__(self, sources: Iterable[KeySource], clock: Clock) -> None:
        self._sources = tuple(_cached(source, clock) for source in sources)
        self._clock = clock

    def authenticate(self, credential: str) -> Principal:
        """The owner of this key.

        Raises
        ------
        Unauthenticated
            It is malformed, unknown, wrong, revoked or expired. Only a client with the right secret learns that it was
            revoked or has expired.
        StoreUnavailable
            It is unknown, and a source does not answer.
        """
        key_id, secret = parse_key(credential)
        digest = digest_of(secret)
        for source in self._sources:
            source.refresh()
        key = self._find(key_id, digest)
        if key is None:
            # It may be new. The same is done whether its id or its secret is wrong.
            for source in self._sources:
                source.start_read()
            current = [source.wait() for source in self._sources]
            key = self._find(key_id, digest)
            if key is None and not all(current):
                raise StoreUnavailable("new API keys cannot be checked at present: try again soon")
        if key is None:
            raise Unauthenticated("the API key is not known: `monitor keys list` shows the ids of those that are")
        if key.revoked_ms is not None:
            raise Unauthenticated("the API key was revoked: use another one")
        if not in_force(key, self._clock.now_ms()):
            expired = "" if key.expires_ms is None else f" at {_time(key.expires_ms)}"
            raise Unauthenticated(f"the API key expired{expired}: `monitor keys create` makes another one")
        return principal_of(key)

    def recall(self, credential: str) -> Principal | None:
        """The owner of this key, if it is in fresh memory and in force; else None. Never waits."""
        try:
            key_id, secret = parse_key(credential)
        except Unauthenticated:
            return None
        # All sources, also after one that is not fresh, so that each starts its read in time.
        fresh = [source.is_fresh() for source in self._sources]
        if not all(fresh):
            return None
        key = self._find(key_id, digest_of(secret))
        return principal_of(key) if key is not None and in_force(key, self._clock.now_ms()) else None

    def _find(self, key_id: str, digest: bytes) -> StoredKey | None:
        """The key of that id, if it has that digest."""
        in_memory = (source.get() for source in self._sources)
        key = next((keys[key_id] for keys in in_memory if keys is not None and key_id in keys), None)
        # Compared in any case, so that an unknown id takes as long as a wrong secret.
        right = hmac.compare_digest(digest, _NO_DIGEST if key is None else key.digest)
        return key if right else None


def _cached(source: KeySource, clock: Clock) -> CachedSource[Mapping[str, StoredKey]]:
    """The keys of one source by id, in memory."""
    return CachedSource(
        lambda: {key.key_id: key for key in source.keys()},  # noqa: SIM118 - not a dict
        CacheTimes(REREAD_SECONDS, STALE_SECONDS, OUTAGE_SECONDS, UNKNOWN_SECONDS, WAIT_SECONDS),
        unavailable=StoreError,
        outage=Outage(
            _log,
            "API keys cannot be read; those in memory stay valid for a quarter of an hour",
            "API keys are read again",
            clock,
        ),
        name="API keys",
        clock=clock,
    )


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
