"""The batches of a streaming query that the store holds: each is saved once."""

import json
from typing import Final

import sqlalchemy as sa

from monitor.errors import Conflict
from monitor.store.database import Database
from monitor.store.schema import META, OFFSETS

_KEY: Final = "query"
"""Under it: id of the query, and number of its last batch."""


def query(database: Database) -> str | None:
    """Id of the streaming query whose batches the store holds; None if there are none. Raises StoreUnavailable."""
    with database.reading() as connection:
        stored = connection.execute(sa.select(META.c.value).where(META.c.key == _KEY)).scalar_one_or_none()
    return None if stored is None else str(json.loads(stored)[0])


def note(connection: sa.Connection, database: Database, query: str, number: int) -> bool:
    """Note a batch as the last one of a query; False if it had been noted before. Raises as ``SqlStore.save_batch``."""
    stored = connection.execute(sa.select(META.c.value).where(META.c.key == _KEY)).scalar_one_or_none()
    if stored is None:
        if connection.execute(sa.select(OFFSETS.c.topic).limit(1)).first() is not None:
            raise Conflict(
                "the store holds what the service itself has read: let the query write to a store of its own, or let "
                "the service go on reading (roles with consume)"
            )
        if number > 0:
            raise Conflict(
                f"the store holds no batch of the query, and its checkpoint folder is at batch {number}: restore the "
                "store's backup that belongs to it, or begin with an empty folder"
            )
    else:
        of_query, last = json.loads(stored)
        if of_query != query:
            raise Conflict(
                f"the store holds {last + 1} batches of the query {of_query}, and this is {query}: run it with the "
                "checkpoint folder of the former, or with an empty store"
            )
        if number <= last:
            return False
        if number > last + 1:
            raise Conflict(
                f"the store holds the batches of the query up to {last}, and its checkpoint folder is at {number}: "
                "restore the folder and the store as of one moment, or begin with both empty"
            )
    connection.execute(database.upsert(META), [{"key": _KEY, "value": json.dumps([query, number])}])
    return True
