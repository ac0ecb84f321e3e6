"""API keys in the database. Rows are never removed, as the audit trail refers to them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from monitor.access.model import Grant, StoredKey
from monitor.errors import Conflict, DamagedStore, InputError
from monitor.store import audit
from monitor.store.database import Database
from monitor.store.recalibrations import AuditEntry
from monitor.store.schema import API_KEYS

_grants_from_json: Final = msgspec.json.Decoder(tuple[str, ...])


class ApiKeys:
    """The digests of API keys in an SQL database. Thread-safe; several processes may use one database.

    Parameters
    ----------
    database
        With the tables of the newest revision, such as ``SqlStore.open(url).database``.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def keys(self) -> Sequence[StoredKey]:
        """All keys with the revoked ones, the oldest first. Raises StoreUnavailable, or DamagedStore."""
        rows = self._database.rows(sa.select(API_KEYS).order_by(API_KEYS.c.created_ms, API_KEYS.c.key_id))
        return [_from_row(row) for row in rows]

    def add_key(self, key: StoredKey, *, actor: str) -> None:
        """Store a key, with an audit entry. Raises Conflict if a valid key has its name, or any key its id."""
        with audit.changing(self._database) as connection:
            taken = connection.execute(
                sa.select(API_KEYS.c.key_id).where(API_KEYS.c.name == key.name, API_KEYS.c.revoked_ms.is_(None))
            ).scalar_one_or_none()
            if taken is not None:
                raise Conflict(
                    f"an API key is called {key.name!r} already ({taken}): take another name, or revoke that one first"
                )
            if connection.execute(sa.select(API_KEYS.c.key_id).where(API_KEYS.c.key_id == key.key_id)).first():
                raise Conflict(f"an API key has the id {key.key_id} already: create another one")
            grants = msgspec.json.encode([str(grant) for grant in key.grants]).decode()
            connection.execute(sa.insert(API_KEYS).values(asdict(key) | {"grants": grants}))
            audit.append(
                connection, [_entry(key, key.created_ms, actor, "key_created", {"expires_ms": key.expires_ms})]
            )

    def revoke_key(self, key_id: str, *, at_ms: int, actor: str) -> StoredKey:
        """Revoke a key, with an audit entry, unless it is revoked. Raises InputError if there is no such key."""
        with audit.changing(self._database) as connection:
            row = connection.execute(sa.select(API_KEYS).where(API_KEYS.c.key_id == key_id)).one_or_none()
            if row is None:
                raise InputError(f"no API key has the id {key_id!r}")
            key = _from_row(row)
            if key.revoked_ms is not None:
                return key
            connection.execute(sa.update(API_KEYS).where(API_KEYS.c.key_id == key_id).values(revoked_ms=at_ms))
            audit.append(connection, [_entry(key, at_ms, actor, "key_revoked", {})])
        return replace(key, revoked_ms=at_ms)


def _from_row(row: Any) -> StoredKey:
    try:
        texts = _grants_from_json.decode(row.grants)
    except msgspec.DecodeError as error:
        raise DamagedStore(f"the roles of the API key {row.key_id} cannot be read: restore a backup") from error
    grants = tuple(grant for text in texts if (grant := _grant(text)) is not None)
    return StoredKey(row.key_id, row.name, bytes(row.digest), grants, row.created_ms, row.expires_ms, row.revoked_ms)


def _grant(text: str) -> Grant | None:
    """A grant; None for a role that only another version of the service has, which grants nothing here."""
    try:
        return Grant.parse(text)
    except InputError:
        return None


def _entry(key: StoredKey, at_ms: int, actor: str, action: str, more: Mapping[str, Any]) -> AuditEntry:
    # Without the digest, as the audit trail is read by people who may not see it.
    detail = {"name": key.name, "roles": [str(grant) for grant in key.grants], **more}
    return AuditEntry(0, at_ms, actor, action, "", "", key.key_id, detail)
