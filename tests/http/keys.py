"""Keys by the roles that they have, and the authenticator that the service itself uses."""

from collections.abc import Sequence
from dataclasses import replace

from monitor.access.keys import KeyAuthenticator, make_key
from monitor.access.model import StoredKey, parse_grants
from monitor.clock import Clock, ManualClock


class Keys:
    """A source of keys in memory: ``keys("write:churn")`` is the text of one that has these roles.

    Its name is its roles, and of each choice of roles there is one.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.failing: Exception | None = None
        self._held: list[StoredKey] = []
        self._texts: dict[str, str] = {}

    def __call__(self, *roles: str) -> str:
        name = " ".join(roles)
        if name not in self._texts:
            new = make_key()
            self._held.append(StoredKey(new.key_id, name, new.digest, parse_grants(roles), created_ms=0))
            self._texts[name] = new.text
        return self._texts[name]

    def revoke(self, *roles: str) -> None:
        self._held = [replace(key, revoked_ms=1) if key.name == " ".join(roles) else key for key in self._held]

    def keys(self) -> Sequence[StoredKey]:
        self.reads += 1
        if self.failing is not None:
            raise self.failing
        return list(self._held)

    def authenticator(self, clock: Clock | None = None) -> KeyAuthenticator:
        return KeyAuthenticator([self], clock or ManualClock())
