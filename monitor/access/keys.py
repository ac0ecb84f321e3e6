"""API keys: how one is made and read, and who holds the one that came with a request."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

import structlog

from monitor.access.base import StoredKey
from monitor.access.last_read import Ages, LastRead
from monitor.access.model import Principal
from monitor.clock import Clock
from monitor.errors import InputError, StoreError, StoreUnavailable, Unauthenticated
from monitor.outage_log import Outage

PREFIX: Final = "cmk_"
"""Begins every API key, so that it is told from a token, and found by scanners of secrets."""

REREAD_SECONDS: Final = 5.0
"""Keys in memory that are older are read anew, while requests go on with them."""
STALE_SECONDS: Final = 8.0
"""Keys in memory that are older wait for those that are being read: nobody may have asked for hours."""
WAIT_SECONDS: Final = 2.0
"""How long a request waits for keys that are being read."""
REVOKED_WITHIN_SECONDS: Final = STALE_SECONDS + WAIT_SECONDS
"""After so long every replica whose store answers refuses a key that was revoked."""
UNKNOWN_SECONDS: Final = 1.0
"""Keys are read anew for a key that is not known, and after a failure, at most this often."""
OUTAGE_SECONDS: Final = 900.0
"""How long the keys known so far hold while their store does not answer."""

_SECRET_BYTES: Final = 32
_KEY_ID: Final = re.compile(r"[0-9a-f]{12}")
_FORM: Final = re.compile(rf"{PREFIX}({_KEY_ID.pattern})_([A-Za-z0-9_-]{{43}})")
_LONGEST_NAME: Final = 64

_NOBODYS: Final = bytes(hashlib.sha256().digest_size)
"""Stands in for the digest of a key that is not known: no text is known to have it."""

_log = structlog.get_logger(__name__)


class NewKey(NamedTuple):
    """A key that was just made. Its text is nowhere else, and cannot be had again."""

    key_id: str
    text: str
    """What its owner sends: ``cmk_<key id>_<secret>``."""
    digest: bytes
    """What is kept of the secret."""


def make_key() -> NewKey:
    """Make a key of 256 random bits, under a random id."""
    key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(_SECRET_BYTES)
    return NewKey(key_id, f"{PREFIX}{key_id}_{secret}", digest_of(secret))


def digest_of(secret: str) -> bytes:
    """SHA-256 of a secret as it is written: of its bytes, its last character could be any of four."""
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
    """Refuse names that could not be told from ids, or would garble a log. Raises InputError."""
    if not name or len(name) > _LONGEST_NAME or not name.isprintable() or name != name.strip() or is_key_id(name):
        raise InputError(
            f"the name of a key must be 1 to {_LONGEST_NAME} printable characters, without spaces around them and not"
            f" in the form of an id, got {name[: 2 * _LONGEST_NAME]!r}"
        )


def principal_of(key: StoredKey) -> Principal:
    """Who asks with this key."""
    return Principal(f"key:{key.name}", key.grants)


def in_force(key: StoredKey, now_ms: int) -> bool:
    """Whether a key is neither revoked nor expired."""
    return key.revoked_ms is None and (key.expires_ms is None or now_ms < key.expires_ms)


def state_of(key: StoredKey, now_ms: int) -> str:
    """How a key stands, in words: in force, expired or revoked."""
    if key.revoked_ms is not None:
        return "revoked"
    return "in force" if in_force(key, now_ms) else "expired"


class KeySource(Protocol):
    """Where keys come from, such as a KeyStore or a file. Any thread."""

    def keys(self) -> Sequence[StoredKey]:
        """All keys, also those that are revoked. Raises StoreError where they cannot be read."""
        ...


class KeyAuthenticator:
    """Says who holds an API key, from memory: an Authenticator.

    What is asked of the sources does not depend on what requests send. Each is read when its keys are
    ``REREAD_SECONDS`` old, by a thread of its own; for a key that is not known, at most once in ``UNKNOWN_SECONDS``,
    and that request waits for it, so that a new key holds at once. Nothing is kept of what a request sends.

    A source that does not answer is asked again each ``UNKNOWN_SECONDS``. Its keys hold for ``OUTAGE_SECONDS`` after
    they were last read; what is not among them is answered with StoreUnavailable, as nobody knows whose it is.

    A request may wait in :meth:`authenticate`, for ``WAIT_SECONDS`` at most, where its key is not known or nobody asked
    for a while: call it from a worker's thread, not from an event loop. :meth:`recall` never waits, and does for nearly
    all.

    Parameters
    ----------
    sources
        An id that several have is the first's.
    clock
        Tells the time for expiry, and the age of what is held.
    """

    def __init__(self, sources: Iterable[KeySource], clock: Clock) -> None:
        self._sources = tuple(_last_read(source, clock) for source in sources)
        self._clock = clock

    def authenticate(self, credential: str) -> Principal:
        """Say who holds this key.

        Raises
        ------
        Unauthenticated
            Nobody: it is malformed, unknown, wrong, revoked or expired. Only who sends a right secret learns which of
            the last two.
        StoreUnavailable
            It is not known, and a source that may know it does not answer.
        """
        key_id, secret = parse_key(credential)
        digest = digest_of(secret)
        for source in self._sources:
            source.freshen()
        found = self._held(key_id, digest)
        if found is None:
            # It may be new. The same is done whether its id or its secret is wrong.
            for source in self._sources:
                source.look_again()
            known = [source.wait() for source in self._sources]
            found = self._held(key_id, digest)
            if found is None and not all(known):
                raise StoreUnavailable("API keys that are not known yet cannot be checked at present: try again soon")
        if found is None:
            raise Unauthenticated("the API key is not known: `monitor keys list` shows the ids of those that are")
        if found.revoked_ms is not None:
            raise Unauthenticated("the API key was revoked: use another one")
        if not in_force(found, self._clock.now_ms()):
            expired = "" if found.expires_ms is None else f" at {_time(found.expires_ms)}"
            raise Unauthenticated(f"the API key expired{expired}: `monitor keys create` makes another one")
        return principal_of(found)

    def recall(self, credential: str) -> Principal | None:
        """Say who holds this key, if it is known, in force, and what is held is fresh; else None. Never waits."""
        try:
            key_id, secret = parse_key(credential)
        except Unauthenticated:
            return None
        # Each is asked, also behind one that is not: all are to be read anew in time.
        fresh = [source.is_fresh() for source in self._sources]
        if not all(fresh):
            return None
        found = self._held(key_id, digest_of(secret))
        return principal_of(found) if found is not None and in_force(found, self._clock.now_ms()) else None

    def _held(self, key_id: str, digest: bytes) -> StoredKey | None:
        """The key of that id, if it has that digest."""
        held = (source.get() for source in self._sources)
        found = next((keys[key_id] for keys in held if keys is not None and key_id in keys), None)
        # As long for an unknown id as for a wrong secret: the comparison stands first, so that it is always made.
        right = hmac.compare_digest(digest, _NOBODYS if found is None else found.digest)
        return found if right else None


def _last_read(source: KeySource, clock: Clock) -> LastRead[Mapping[str, StoredKey]]:
    """The keys of one source by id, in memory."""

    def read() -> Mapping[str, StoredKey]:
        known = source.keys()
        return {key.key_id: key for key in known}

    return LastRead(
        read,
        Ages(REREAD_SECONDS, STALE_SECONDS, OUTAGE_SECONDS, UNKNOWN_SECONDS, WAIT_SECONDS),
        away=StoreError,
        outage=Outage(
            _log,
            "API keys cannot be read; those known so far hold for a quarter of an hour",
            "API keys are read again",
            clock,
        ),
        name="API keys",
        clock=clock,
    )


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
