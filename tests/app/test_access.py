"""Who may ask, as the settings say it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from monitor.access.keys import NewKey, make_key
from monitor.access.model import Grant, Principal, Role, StoredKey
from monitor.app.access import Credentials, make_authenticator, warn_of_no_access
from monitor.app.settings import Settings
from monitor.clock import ManualClock
from monitor.errors import SettingsError, Unauthenticated
from monitor.store.api_keys import ApiKeys
from monitor.store.sql import SqlStore
from tests.access.provider import AUDIENCE, ec_pair, running

NOW_MS = 1_790_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SqlStore]:
    with SqlStore.open(f"sqlite:///{tmp_path}/monitor.db", clock=clock) as store:
        yield store


def settings(**access: Any) -> Settings:
    return Settings.model_validate({"access": access})


def keep(store: SqlStore, new: NewKey, name: str = "ada", expires_ms: int | None = None) -> None:
    key = StoredKey(new.key_id, name, new.digest, (Grant(Role.READ),), NOW_MS, expires_ms)
    ApiKeys(store.database).add_key(key, actor="cli:test")


def file_of(tmp_path: Path, new: NewKey, name: str = "bob") -> str:
    path = tmp_path / "keys.yaml"
    path.write_text(
        f"- {{id: '{new.key_id}', name: {name}, sha256: {new.digest.hex()}, roles: [read]}}", encoding="utf-8"
    )
    return str(path)


def test_keys_of_the_store_and_of_the_file_are_accepted(tmp_path: Path, store: SqlStore, clock: ManualClock) -> None:
    stored, filed = make_key(), make_key()
    keep(store, stored)
    access = make_authenticator(settings(keys_file=file_of(tmp_path, filed)), store, clock)
    assert access is not None
    assert access.authenticate(stored.text).name == "key:ada"
    assert access.authenticate(filed.text).name == "key:bob"
    with pytest.raises(Unauthenticated, match="the API key is not known"):
        access.authenticate(make_key().text)


def test_what_is_revoked_in_the_store_is_revoked_whatever_the_file_says(
    tmp_path: Path, store: SqlStore, clock: ManualClock
) -> None:
    new = make_key()
    keep(store, new)
    ApiKeys(store.database).revoke_key(new.key_id, at_ms=NOW_MS, actor="cli:test")
    access = make_authenticator(settings(keys_file=file_of(tmp_path, new)), store, clock)
    assert access is not None
    with pytest.raises(Unauthenticated, match="was revoked"):
        access.authenticate(new.text)


def test_switched_off_there_is_none(store: SqlStore, clock: ManualClock) -> None:
    assert make_authenticator(settings(mode="off", keys_file="/no/such/file"), store, clock) is None


def test_a_file_that_is_not_there_stops_the_start(store: SqlStore, clock: ManualClock) -> None:
    with pytest.raises(SettingsError, match=r"access\.keys_file: cannot read /no/such/file: No such"):
        make_authenticator(settings(keys_file="/no/such/file"), store, clock)


class Everybody:
    """Accepts every credential, and says which it was."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def authenticate(self, credential: str) -> Principal:
        return Principal(f"{self.kind}:{credential}", ())

    def recall(self, credential: str) -> Principal | None:
        return self.authenticate(credential)


def test_what_begins_as_a_key_is_one_and_all_else_a_token() -> None:
    both = Credentials(Everybody("key"), Everybody("oidc"))
    assert both.authenticate("cmk_x").name == "key:cmk_x"
    assert both.authenticate("eyJ.a.b").name == "oidc:eyJ.a.b"
    assert both.authenticate("CMK_x").name == "oidc:CMK_x"
    assert both.recall("cmk_x") == both.authenticate("cmk_x")
    assert both.recall("eyJ.a.b") == both.authenticate("eyJ.a.b")
    assert Credentials(Everybody("key")).recall("eyJ.a.b") is None


def test_without_an_issuer_a_token_is_refused_and_not_shown(store: SqlStore, clock: ManualClock) -> None:
    access = make_authenticator(settings(), store, clock)
    assert access is not None
    for credential in ("eyJ.secret.b", "secret", ""):
        with pytest.raises(Unauthenticated, match="no API key, which begins with cmk_") as refused:
            access.authenticate(credential)
        assert "secret" not in str(refused.value)


def test_with_an_issuer_its_tokens_are_accepted_beside_keys(store: SqlStore, clock: ManualClock) -> None:
    pair, stored = ec_pair(), make_key()
    keep(store, stored)
    with running(pair) as provider:
        access = make_authenticator(
            settings(oidc={"issuer": provider.issuer, "audience": AUDIENCE, "roles": {"ml": ["read:churn"]}}),
            store,
            clock,
        )
        assert access is not None
        now = NOW_MS // 1000
        claims = {"iss": provider.issuer, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 60, "roles": ["ml"]}
        assert access.authenticate(pair.sign(claims)) == Principal("oidc:ada", (Grant(Role.READ, "churn"),))
        assert access.authenticate(stored.text).name == "key:ada"
        with pytest.raises(Unauthenticated, match="for another service"):
            access.authenticate(pair.sign(claims | {"aud": "billing"}))


def test_an_authority_of_ones_own_that_cannot_be_read_stops_the_start(store: SqlStore, clock: ManualClock) -> None:
    oidc = {"issuer": "https://login.example.org", "audience": AUDIENCE, "cafile": "/no/such/file"}
    with pytest.raises(
        SettingsError, match=r"access\.oidc\.cafile: cannot read certificates \(PEM\) from /no/such/file: No"
    ):
        make_authenticator(settings(oidc=oidc), store, clock)


def warnings(settings: Settings, store: SqlStore, clock: ManualClock) -> list[str]:
    with structlog.testing.capture_logs() as logs:
        warn_of_no_access(settings, store, clock)
    assert {each["log_level"] for each in logs} <= {"warning"}
    return [each["event"] for each in logs]


def test_where_nobody_could_ask_the_log_names_the_command_that_makes_a_key(
    tmp_path: Path, store: SqlStore, clock: ManualClock
) -> None:
    (warning,) = warnings(settings(), store, clock)
    assert "`monitor keys create NAME --role read --role write --role promote`" in warning
    old, new = make_key(), make_key()
    keep(store, old, "old", NOW_MS)
    revoked = make_key()
    keep(store, revoked, "revoked")
    ApiKeys(store.database).revoke_key(revoked.key_id, at_ms=NOW_MS, actor="cli:test")
    # Expired and revoked ones are of no use.
    assert warnings(settings(), store, clock) == [warning]
    assert warnings(settings(keys_file=file_of(tmp_path, new)), store, clock) == []
    assert warnings(settings(mode="off"), store, clock) == []
    oidc = {"issuer": "https://login.example.org", "audience": "calibration"}
    assert warnings(settings(oidc=oidc), store, clock) == []
    keep(store, new)
    assert warnings(settings(), store, clock) == []


def test_a_store_that_does_not_answer_then_is_said(tmp_path: Path, clock: ManualClock) -> None:
    path = tmp_path / "monitor.db"
    with SqlStore.open(f"sqlite:///{path}", clock=clock) as store:
        with store.database.writing() as connection:
            connection.exec_driver_sql("DROP TABLE api_keys")
        assert warnings(settings(), store, clock) == ["whether there is any API key cannot be told"]
