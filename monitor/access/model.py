"""Who may do what: roles, grants, and those who hold them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from monitor.errors import InputError


class Role(StrEnum):
    """What somebody may do. ``write`` and ``promote`` include ``read``, and neither includes the other."""

    READ = "read"
    """Reports, refits, maps, metrics, and computations that leave nothing behind."""
    WRITE = "write"
    """Send events, and ask for refits."""
    PROMOTE = "promote"
    """Decide what serves: promotions, rollbacks, and refits that promote by themselves."""


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """A role, for one model or for all. In text ``read``, or ``promote:churn``.

    Attributes
    ----------
    role
        What may be done.
    model
        With which model; None: with all, and with what concerns no model.
    """

    role: Role
    model: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``ROLE`` or ``ROLE:MODEL``.

        Raises
        ------
        InputError
            It is neither.
        """
        name, colon, model = text.partition(":")
        if name not in set(Role) or (colon and not model):
            raise InputError(
                f"a role must be {', '.join(Role)}, or one of them for one model as in promote:churn, got {text!r}"
            )
        return cls(Role(name), model or None)

    def __str__(self) -> str:
        return self.role.value if self.model is None else f"{self.role.value}:{self.model}"

    def covers(self, role: Role, model: str | None) -> bool:
        """Whether it allows ``role`` with ``model`` (None: with all models)."""
        return (self.role is role or role is Role.READ) and self.model in (None, model)


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who asks, and has shown who they are.

    Attributes
    ----------
    name
        Under which the audit trail keeps what they do: ``key:nightly-refits``, ``oidc:alice@example.org``.
    grants
        What they may do.
    note
        Where they hold nothing: where somebody looked for it, such as ``the token has no claim roles``.
    """

    name: str
    grants: tuple[Grant, ...]
    note: str = field(default="", compare=False)

    def may(self, role: Role, model: str | None = None) -> bool:
        """Whether they hold ``role`` for ``model``; without one, for all models."""
        return any(grant.covers(role, model) for grant in self.grants)

    def may_somewhere(self, role: Role) -> bool:
        """Whether they hold ``role`` for some model at least."""
        return any(grant.covers(role, grant.model) for grant in self.grants)


ANONYMOUS: Final = Principal("anonymous", tuple(Grant(role) for role in Role))
"""Everybody, where access control is switched off."""


def parse_grants(texts: Iterable[str]) -> tuple[Grant, ...]:
    """Grants in order, each once. Raises InputError where one is wrong, or there is none."""
    grants = tuple(sorted({Grant.parse(text) for text in texts}, key=str))
    if not grants:
        raise InputError(f"at least one role must be named: {', '.join(Role)}, or one for a model as in promote:churn")
    return grants
