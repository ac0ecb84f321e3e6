"""What the others need of access control. Nothing here knows of HTTP, of settings or of a database."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from monitor.access.model import Grant, Principal


class Authenticator(Protocol):
    """Says who holds a credential. Any thread; quick, also where the credential is wrong."""

    def authenticate(self, credential: str) -> Principal:
        """Say who it is, of what follows ``Bearer`` in the header Authorization.

        Raises
        ------
        Unauthenticated
            It is nobody's: unknown, revoked, expired, forged. The message helps its owner and tells a stranger nothing:
            not whether a key or a name exists, and never the credential itself.
        """
        ...

    def recall(self, credential: str) -> Principal | None:
        """Say who it is where memory alone knows: microseconds, no wait, so that an event loop may call it.

        None says nothing of the credential, not even that it is wrong: ask :meth:`authenticate`.
        """
        ...


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An API key as it is kept: whoever reads it cannot ask with it.

    Attributes
    ----------
    key_id
        The public part of the key, by which it is found and revoked.
    name
        What it is for, in its owner's words; unique among the keys that are not revoked.
    digest
        SHA-256 of the secret part. The secret is 256 random bits, which no dictionary holds: a slow hash would slow
        the service alone.
    grants
        What it allows.
    created_ms, expires_ms, revoked_ms
        Milliseconds since the epoch; None: never.
    """

    key_id: str
    name: str
    digest: bytes
    grants: tuple[Grant, ...]
    created_ms: int
    expires_ms: int | None = None
    revoked_ms: int | None = None


class KeyStore(Protocol):
    """Where API keys are kept. Raises StoreUnavailable where it does not answer."""

    def keys(self) -> Sequence[StoredKey]:
        """All keys, also those that are revoked, the oldest first."""
        ...

    def add_key(self, key: StoredKey, *, actor: str) -> None:
        """Keep a key, with an entry in the audit trail. Raises Conflict if a key in force has its name."""
        ...

    def revoke_key(self, key_id: str, *, at_ms: int, actor: str) -> StoredKey:
        """Revoke a key, with an entry in the audit trail; one that is revoked stays as it is. Raises InputError."""
        ...
