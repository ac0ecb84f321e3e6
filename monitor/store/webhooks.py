"""How far the changes of alerts were delivered to each webhook, in SQLite or PostgreSQL.

The changes are the outbox. A webhook has the number of the last one that was delivered, so that it gets them in order,
and a claim, so that one replica delivers at a time. Both outlive the process. A claim that its owner does not end, as
it was killed, ends by itself; then the change is delivered again. Times are those of the database.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from monitor.store.alert import Alert, AlertChange, AlertState
from monitor.store.alerts import newest_change, read_changes
from monitor.store.database import Database
from monitor.store.schema import ALERT_CHANGES, WEBHOOKS

CLAIM_MS: Final = 60_000

_FIRST_PAUSE_MS: Final = 1_000
_LONGEST_PAUSE_MS: Final = 300_000


class WebhookDelivery(NamedTuple):
    """A change that is to be delivered."""

    change: AlertChange
    alert: Alert
    attempts: int
    """Number of earlier attempts, all of which failed."""


class Progress(NamedTuple):
    """How far a webhook is."""

    waiting: int
    """Changes that are not delivered yet."""
    attempts: int
    """How often the next one was tried."""
    error: str | None
    """Why the last attempt failed; None if it did not."""


class WebhookStore:
    """The progress of webhooks. Each method is one transaction; any thread and process may call it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, names: Iterable[str]) -> None:
        """Begin new webhooks with the next change."""
        with self._database.writing() as connection:
            free = {"owner": "", "until_ms": 0, "attempts": 0, "due_ms": 0}
            for name in sorted(names):
                row = {"name": name, "delivered": newest_change(connection), **free}
                connection.execute(self._database.insert(WEBHOOKS).values(row).on_conflict_do_nothing())

    def progress(self, name: str, states: Collection[AlertState]) -> Progress:
        """How far a webhook is with changes to these states."""
        of = ALERT_CHANGES.c
        with self._database.reading() as connection:
            row = connection.execute(sa.select(WEBHOOKS).where(WEBHOOKS.c.name == name)).one_or_none()
            if row is None:
                return Progress(0, 0, None)
            waiting = sa.select(sa.func.count()).where(of.number > row.delivered, of.state.in_(states))
            return Progress(connection.execute(waiting).scalar_one(), row.attempts, row.error)

    def claim(self, name: str, owner: str, states: Collection[AlertState]) -> WebhookDelivery | None:
        """Claim the next change to one of these states; None if there is none, or it is not to be tried now."""
        of = WEBHOOKS.c
        with self._database.writing() as connection:
            now_ms = self._database.now_ms(connection)
            is_free = (of.until_ms <= now_ms) | (of.owner == owner)
            due = sa.select(WEBHOOKS).where(of.name == name, is_free, of.due_ms <= now_ms).with_for_update()
            row = connection.execute(due).one_or_none()
            following = [] if row is None else read_changes(connection, row.delivered, states=states, limit=1)
            if row is None or not following:
                return None
            claimed = {"owner": owner, "until_ms": now_ms + CLAIM_MS}
            connection.execute(sa.update(WEBHOOKS).where(of.name == name).values(**claimed))
            return WebhookDelivery(*following[0], row.attempts)

    def delivered(self, name: str, owner: str, number: int, error: str | None = None) -> None:
        """Go on to the change after this one; ``error`` says why this one was refused."""
        self._end(name, owner, 0, {"delivered": number, "attempts": 0, "error": error})

    def failed(self, name: str, owner: str, attempts: int, error: str) -> None:
        """Try the change again after a pause, which is twice as long after each attempt."""
        pause_ms = min(_FIRST_PAUSE_MS << min(attempts, 20), _LONGEST_PAUSE_MS)
        self._end(name, owner, pause_ms, {"attempts": attempts + 1, "error": error})

    def _end(self, name: str, owner: str, pause_ms: int, values: dict[str, Any]) -> None:
        of = WEBHOOKS.c
        with self._database.writing() as connection:
            due_ms = self._database.now_ms(connection) + pause_ms
            # Unless another replica has claimed it meanwhile: it says itself what becomes of it.
            mine = sa.update(WEBHOOKS).where(of.name == name, of.owner == owner)
            connection.execute(mine.values(until_ms=0, owner="", due_ms=due_ms, **values))
