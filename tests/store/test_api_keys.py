"""API keys in the store, on both databases: what is kept, what is refused, and what the audit trail says of it."""

import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from monitor.access.keys import UNKNOWN_SECONDS, KeyAuthenticator, make_key
from monitor.access.model import Grant, Role, StoredKey, parse_grants
from monitor.clock import ManualClock, SystemClock
from monitor.errors import Conflict, DamagedStore, InputError, StoreError, StoreUnavailable, Unauthenticated
from monitor.store.api_keys import ApiKeys
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import AuditEntry
from monitor.store.schema import API_KEYS
from monitor.store.sql import SqlStore
from tests.patience import PATIENCE_SECONDS, joined
from tests.real.postgres import PostgresProcess


@pytest.fixture
def keys(store: SqlStore) -> ApiKeys:
    return ApiKeys(store.database)


def a_key(number: int, name: str = "prometheus") -> StoredKey:
    return StoredKey(f"{number:012x}", name, bytes([number]) * 32, (Grant(Role.READ),), created_ms=number)


def audit(store: SqlStore) -> Sequence[AuditEntry]:
    return RecalibrationStore(store.database).audit()


def test_keys_come_back_as_they_were_added_the_oldest_first(keys: ApiKeys) -> None:
    wide = replace(
        a_key(2, "nightly \\refits \u00fc"),
        grants=parse_grants(["write", "promote:ch\0urn", 'read:"\u00e9']),
        created_ms=1,
        expires_ms=2**40,
    )
    first, last = a_key(1), a_key(3, "grafana")
    for key in (last, wide, first):
        keys.add_key(key, actor="cli:ada")
    held = keys.keys()
    assert list(held) == [first, wide, last]
    assert all(isinstance(key.digest, bytes) for key in held)


def test_a_name_is_one_keys_until_it_is_revoked(keys: ApiKeys, store: SqlStore) -> None:
    keys.add_key(a_key(1), actor="cli:ada")
    with pytest.raises(
        Conflict, match=r"an API key is called 'prometheus' already \(000000000001\): take another name"
    ):
        keys.add_key(a_key(2), actor="cli:ada")
    keys.revoke_key("000000000001", at_ms=5, actor="cli:ada")
    keys.add_key(a_key(2), actor="cli:ada")
    first, second = keys.keys()
    assert (first.revoked_ms, second.revoked_ms) == (5, None)
    # Also where another program writes.
    with pytest.raises(StoreError, match=r"api_keys_by_name|api_keys\.name"), store.database.writing() as connection:
        connection.execute(
            sa.insert(API_KEYS).values(key_id="x", name="prometheus", digest=b"", grants="[]", created_ms=0)
        )
    with pytest.raises(Conflict, match="has the id 000000000002 already"):
        keys.add_key(a_key(2, "other"), actor="cli:ada")
    assert [entry.action for entry in audit(store)] == ["key_created", "key_revoked", "key_created"]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_who_made_and_revoked_a_key_is_kept_without_its_digest(keys: ApiKeys, store: SqlStore) -> None:
    key = replace(a_key(7, "nightly"), grants=parse_grants(["write", "promote:churn"]), expires_ms=99)
    keys.add_key(key, actor="cli:ada")
    keys.revoke_key(key.key_id, at_ms=42, actor="cli:bob")
    told = {"name": "nightly", "roles": ["promote:churn", "write"]}
    assert audit(store) == [
        AuditEntry(1, 7, "cli:ada", "key_created", "", "", key.key_id, told | {"expires_ms": 99}),
        AuditEntry(2, 42, "cli:bob", "key_revoked", "", "", key.key_id, told),
    ]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_key_that_is_revoked_stays_as_it_is(keys: ApiKeys, store: SqlStore) -> None:
    keys.add_key(a_key(1), actor="cli:ada")
    assert keys.revoke_key("000000000001", at_ms=5, actor="cli:ada") == replace(a_key(1), revoked_ms=5)
    assert keys.revoke_key("000000000001", at_ms=9, actor="cli:bob") == replace(a_key(1), revoked_ms=5)
    assert [entry.actor for entry in audit(store)] == ["cli:ada", "cli:ada"]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_key_that_is_not_there_is_refused(keys: ApiKeys, store: SqlStore) -> None:
    with pytest.raises(InputError, match="no API key has the id '000000000009'"):
        keys.revoke_key("000000000009", at_ms=1, actor="cli:ada")
    assert audit(store) == []


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_role_of_another_version_allows_nothing_and_leaves_the_other_keys_alone(
    keys: ApiKeys, store: SqlStore
) -> None:
    keys.add_key(a_key(1), actor="cli:ada")
    keys.add_key(a_key(2, "grafana"), actor="cli:ada")
    change = sa.update(API_KEYS).where(API_KEYS.c.key_id == a_key(1).key_id)
    with store.database.writing() as connection:
        connection.execute(change.values(grants='["admin","promote"]'))
    first, second = keys.keys()
    assert (first.grants, second.grants) == ((Grant(Role.PROMOTE),), (Grant(Role.READ),))
    with store.database.writing() as connection:
        connection.execute(change.values(grants="admin"))
    with pytest.raises(DamagedStore, match="the roles of the API key 000000000001 cannot be read: restore a backup"):
        keys.keys()


def test_of_many_that_take_a_name_at_once_one_has_it(store_url: str) -> None:
    SqlStore.open(store_url, clock=SystemClock()).close()
    outcomes: list[str] = []

    def take(number: int) -> None:
        with SqlStore.open(store_url, patience_seconds=PATIENCE_SECONDS, clock=SystemClock()) as own:
            try:
                ApiKeys(own.database).add_key(a_key(number), actor=f"cli:{number}")
                outcomes.append("made")
            except Conflict:
                outcomes.append("refused")

    threads = [threading.Thread(target=take, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert sorted(outcomes) == ["made", "refused", "refused", "refused"]


def test_a_key_made_by_another_process_holds_at_once_and_a_revoked_one_no_more(store_url: str) -> None:
    clock = ManualClock(1_790_000_000_000)
    new = make_key()
    with SqlStore.open(store_url, clock=SystemClock()) as serving, SqlStore.open(store_url, clock=clock) as beside:
        access = KeyAuthenticator([ApiKeys(serving.database)], clock)
        with pytest.raises(Unauthenticated):
            access.authenticate(new.text)
        clock.advance(UNKNOWN_SECONDS)
        others = ApiKeys(beside.database)
        others.add_key(replace(a_key(1), key_id=new.key_id, digest=new.digest), actor="cli:ada")
        assert access.authenticate(new.text).name == "key:prometheus"
        others.revoke_key(new.key_id, at_ms=1, actor="cli:ada")
        clock.advance(10)
        with pytest.raises(Unauthenticated, match="was revoked"):
            access.authenticate(new.text)


def test_keys_may_be_read_and_made_while_another_process_writes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/monitor.db"
    with SqlStore.open(url, patience_seconds=0.2, clock=SystemClock()) as store:
        keys = ApiKeys(store.database)
        blocker = sa.create_engine(url)
        with blocker.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            assert list(keys.keys()) == []
            with pytest.raises(StoreUnavailable, match="database is locked"):
                keys.add_key(a_key(1), actor="cli:ada")
        blocker.dispose()
        keys.add_key(a_key(1), actor="cli:ada")
        assert list(keys.keys()) == [a_key(1)]


@pytest.mark.postgres
def test_a_server_that_is_gone_is_said_and_comes_back(own_postgres: PostgresProcess) -> None:
    clock = ManualClock(1_790_000_000_000)
    new = make_key()
    with SqlStore.open(own_postgres.url(own_postgres.new_database()), clock=SystemClock()) as store:
        keys = ApiKeys(store.database)
        keys.add_key(replace(a_key(1), key_id=new.key_id, digest=new.digest), actor="cli:ada")
        access = KeyAuthenticator([keys], clock)
        assert access.authenticate(new.text).name == "key:prometheus"
        own_postgres.stop(signal.SIGQUIT)
        try:
            clock.advance(60)
            assert access.authenticate(new.text).name == "key:prometheus"
            with pytest.raises(StoreUnavailable):
                access.authenticate(make_key().text)
            with pytest.raises(StoreUnavailable):
                keys.keys()
        finally:
            own_postgres.start()
        (found,) = keys.keys()
        assert found.key_id == new.key_id
