"""Access control: roles, grants, callers, and the API keys that are stored. Knows nothing of HTTP or a database."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, Self

from monitor.errors import InputError


class Role(StrEnum):
    """What a caller may do. ``write`` and ``promote`` include ``read``; neither includes the other."""

    READ = "read"
    """Reports, refits, maps, metrics, and computations that leave nothing behind."""
    WRITE = "write"
    """Send events, and request refits."""
    PROMOTE = "promote"
    """Decide which map serves: promotions, rollbacks, and refits that promote themselves."""


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """A role, for one model or for all. As text ``read``, or ``promote:churn``.

    Attributes
    ----------
    model
        None: all models, and what concerns no model.
    """

    role: Role
    model: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``ROLE`` or ``ROLE:MODEL``. Raises InputError."""
        name, colon, model = text.partition(":")
        if name not in set(Role) or (colon and not model):
            raise InputError(
                f"a role must be {', '.join(Role)}, or one of them for one model as in promote:churn, got {text!r}"
            )
        return cls(Role(name), model or None)

    def __str__(self) -> str:
        return self.role.value if self.model is None else f"{self.role.value}:{self.model}"

    def covers(self, role: Role, model: str | None) -> bool:
        """Whether it allows ``role`` for ``model`` (None: for all models)."""
        return (self.role is role or role is Role.READ) and self.model in (None, model)


@dataclass(frozen=True, slots=True)
class Principal:
    """An identified caller.

    Attributes
    ----------
    name
        As in the audit trail: ``key:nightly-refits``, ``oidc:alice@example.org``.
    grants
        What they may do.
    note
        Why there are no grants, such as ``the token has no claim roles``.
    """

    name: str
    grants: tuple[Grant, ...]
    note: str = field(default="", compare=False)

    def may(self, role: Role, model: str | None = None) -> bool:
        """Whether they hold ``role`` for ``model``; without one, for all models."""
        return any(grant.covers(role, model) for grant in self.grants)

    def may_somewhere(self, role: Role) -> bool:
        """Whether they hold ``role`` for at least one model."""
        return any(grant.covers(role, grant.model) for grant in self.grants)


ANONYMOUS: Final = Principal("anonymous", tuple(Grant(role) for role in Role))
"""Every caller, where access control is off."""


def parse_grants(texts: Iterable[str]) -> tuple[Grant, ...]:
    """Grants in order, without duplicates. Raises InputError if one is wrong, or if there is none."""
    grants = tuple(sorted({Grant.parse(text) for text in texts}, key=str))
    if not grants:
        raise InputError(f"at least one role must be named: {', '.join(Role)}, or one for a model as in promote:churn")
    return grants


class Authenticator(Protocol):
    """Identifies the owners of credentials. Any thread; quick for wrong credentials, too."""

    def authenticate(self, credential: str) -> Principal:
        """Return the owner of a credential: the text after ``Bearer`` in the header Authorization.

        Raises
        ------
        Unauthenticated
            It is unknown, revoked, expired or forged. The message helps its owner and tells a stranger nothing: not
            whether a key or a name exists, and never the credential itself.
        """
        ...

    def recall(self, credential: str) -> Principal | None:
        """The owner of a credential that is in memory. It takes microseconds, so that an event loop may call it.

        None says nothing of the credential, not even that it is wrong: call :meth:`authenticate`.
        """
        ...


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An API key as it is stored: the secret is not in it.

    Attributes
    ----------
    key_id
        The public part of the key, by which it is looked up and revoked.
    name
        What it is for, in its owner's words; unique among the keys that are not revoked.
    digest
        SHA-256 of the secret part. The secret is 256 random bits, which cannot be guessed: a slow hash would only
        slow the service.
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
