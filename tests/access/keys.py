"""Keys, and where they come from, for the tests of access control."""

import threading
from collections.abc import Sequence

from monitor.access.keys import NewKey, make_key
from monitor.access.model import Grant, Role, StoredKey
from monitor.errors import StoreUnavailable
from tests.patience import PATIENCE_SECONDS

READ = (Grant(Role.READ),)
NOW_MS = 1_790_000_000_000
KEY = make_key()


def stored(new: NewKey, name: str = "prometheus", *, expires_ms: int | None = None) -> StoredKey:
    """A key as it is kept."""
    return StoredKey(new.key_id, name, new.digest, READ, created_ms=0, expires_ms=expires_ms)


class CountingSource:
    """A source in memory that counts how often it is read, fails when told to, and may be made to wait."""

    def __init__(self, *keys: StoredKey) -> None:
        self.held = list(keys)
        self.reads = 0
        self.fails = False
        self.open = threading.Event()
        self.open.set()

    def keys(self) -> Sequence[StoredKey]:
        self.reads += 1
        assert self.open.wait(PATIENCE_SECONDS)
        if self.fails:
            raise StoreUnavailable("the store sqlite:///m.db does not answer: disk I/O error")
        return list(self.held)


def wrong_key() -> str:
    """A key in due form that nobody has stored."""
    return make_key().text
