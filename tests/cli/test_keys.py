"""`monitor keys create|list|revoke`."""

import json
import os
import re
import stat
from pathlib import Path

import pytest

from monitor.access.keys import KeyAuthenticator, make_key
from monitor.access.keys_file import KeysFile
from monitor.clock import SystemClock
from monitor.errors import Unauthenticated
from monitor.store.api_keys import ApiKeys
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import AuditEntry
from monitor.store.sql import SqlStore
from tests.cli.command import inside, one_error_line

SETTINGS = """
store: {url: "sqlite:///state.db"}
"""
KEY = re.compile(r"cmk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "monitor.yaml").write_text(SETTINGS, encoding="utf-8")
    return tmp_path


def in_file(folder: Path, content: str) -> None:
    """Let the settings name a file of keys."""
    (folder / "keys.yaml").write_text(content, encoding="utf-8")
    (folder / "monitor.yaml").write_text(SETTINGS + "access: {keys_file: keys.yaml}\n", encoding="utf-8")


def who(folder: Path, text: str) -> str:
    """Who holds a key, as a service on this store sees it."""
    with SqlStore.open(f"sqlite:///{folder / 'state.db'}", clock=SystemClock()) as store:
        return KeyAuthenticator([ApiKeys(store.database)], SystemClock()).authenticate(text).name


def audit(folder: Path) -> list[AuditEntry]:
    with SqlStore.open(f"sqlite:///{folder / 'state.db'}", clock=SystemClock()) as store:
        return list(RecalibrationStore(store.database).audit())


def create(folder: Path, *arguments: str) -> str:
    """The key that was made."""
    done = inside("keys", "create", *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_settings_file_elsewhere_leads_to_its_own_store(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "where the command is run"
    elsewhere.mkdir()
    done = inside("keys", "create", "laptop", "--role", "read", "-c", str(folder / "monitor.yaml"), cwd=elsewhere)
    assert f"its hash is kept in sqlite:///{folder}/state.db" in done.stderr
    assert who(folder, done.stdout.strip()) == "key:laptop"
    assert not list(elsewhere.iterdir())


def test_the_key_alone_goes_to_standard_output_and_is_its_owners(folder: Path) -> None:
    done = inside("keys", "create", "prometheus", "--role", "read", "--expires", "90d", cwd=folder)
    key = done.stdout.removesuffix("\n")
    assert KEY.fullmatch(key)
    assert who(folder, key) == "key:prometheus"
    about, once, how = done.stderr.splitlines()
    assert about.startswith(f"made the API key prometheus ({key[4:16]}): read, until 20")
    assert about.endswith(f"its hash is kept in sqlite:///{folder}/state.db")
    assert once == "This is the only time that it is shown: keep it where secrets are kept."
    assert "Authorization: Bearer" in how
    assert "MONITOR_API_KEY" in how
    # Nowhere else, not even its secret.
    assert not [path for path in folder.iterdir() if key[17:].encode() in path.read_bytes()]


def test_a_new_store_is_said_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text('store: {url: "sqlite:///new/state.db"}', encoding="utf-8")
    done = inside("keys", "create", "prometheus", "--role", "read", cwd=tmp_path)
    assert KEY.fullmatch(done.stdout.removesuffix("\n"))
    assert "the store's folder is created" in done.stderr


def test_the_audit_trail_keeps_who_made_and_revoked_it(folder: Path) -> None:
    key = create(folder, "nightly", "--role", "write", "--role", "promote:churn", "--role", "write")
    assert inside("keys", "revoke", "nightly", cwd=folder).returncode == 0
    created, revoked = audit(folder)
    assert (created.action, created.subject) == ("key_created", key[4:16])
    assert created.detail == {"name": "nightly", "roles": ["promote:churn", "write"], "expires_ms": None}
    assert (revoked.action, revoked.subject) == ("key_revoked", key[4:16])
    # As the system knows the user, whatever the environment says.
    assert {created.actor, revoked.actor} == {f"cli:{Path('/proc/self').owner()}"}


def test_a_key_in_a_file_is_for_its_owner_alone(folder: Path) -> None:
    mask = os.umask(0)
    try:
        done = inside("keys", "create", "prometheus", "--role", "read", "--write-key", "key", cwd=folder)
    finally:
        os.umask(mask)
    assert (done.stdout, done.returncode) == ("", 0)
    assert done.stderr.splitlines()[-1] == "wrote it to key, which is the only copy: move it to where secrets are kept"
    path = folder / "key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert who(folder, path.read_text(encoding="ascii").removesuffix("\n")) == "key:prometheus"
    again = inside("keys", "create", "other", "--role", "read", "--write-key", "key", cwd=folder)
    assert one_error_line(again) == "--write-key: key is there already: name a new file, or remove that one"
    assert [entry.detail["name"] for entry in audit(folder)] == ["prometheus"]


def test_a_key_that_could_not_be_kept_leaves_no_file(folder: Path) -> None:
    create(folder, "prometheus", "--role", "read")
    done = inside("keys", "create", "prometheus", "--role", "read", "--write-key", "key", cwd=folder)
    assert re.fullmatch(
        r"an API key is called 'prometheus' already \([0-9a-f]{12}\): take another name, or revoke that one first",
        one_error_line(done),
    )
    assert done.returncode == 2
    assert not (folder / "key").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x"], "Missing option '--role'; see `monitor keys create --help`"),
        (
            ["x", "--role", "admin"],
            "a role must be read, write, promote, or one of them for one model as in promote:churn",
        ),
        (["x", "--role", "read:"], "a role must be read, write, promote"),
        (["a\nb", "--role", "read"], "the name of a key must be 1 to 64 printable characters"),
        (["x", "--role", "read", "--expires", "soon"], "--expires must be a duration such as 90s, 15m, 24h or 7d"),
        (["x", "--role", "read", "--expires", "0s"], "--expires must be a duration such as 90s, 15m, 24h or 7d"),
        (["x", "--role", "read", "--expires", "-5"], "--expires must be a duration such as 90s, 15m, 24h or 7d"),
        (["x", "--role", "read", "--write-key", "no/key"], "--write-key: there is no directory no; make it first"),
    ],
)
def test_bad_use_is_one_line_and_makes_no_key(folder: Path, arguments: list[str], message: str) -> None:
    done = inside("keys", "create", *arguments, cwd=folder)
    assert one_error_line(done).startswith(message)
    assert (done.returncode, done.stdout) == (2, "")
    assert audit(folder) == []


def test_the_list_says_what_each_may_and_how_it_stands(folder: Path) -> None:
    SqlStore.open(f"sqlite:///{folder / 'state.db'}", clock=SystemClock()).close()
    assert inside("keys", "list", cwd=folder).stdout == (
        "no API keys; `monitor keys create NAME --role read` makes one\n"
    )
    prometheus = create(folder, "prometheus", "--role", "read", "--expires", "90d")
    create(folder, "nightly", "--role", "promote:churn")
    inside("keys", "revoke", "nightly", cwd=folder)
    held = make_key()
    in_file(
        folder,
        f"- {{id: '{held.key_id}', name: old, sha256: {held.digest.hex()}, roles: [read],"
        " expires: 2020-01-01T00:00:00Z}",
    )
    shown = inside("keys", "list", cwd=folder).stdout
    assert prometheus[17:] not in shown
    found = [json.loads(line) for line in inside("keys", "list", "--json", cwd=folder).stdout.splitlines()]
    assert [(each["name"], each["state"], each["kept_in"], each["roles"]) for each in found] == [
        ("prometheus", "in_force", "store", ["read"]),
        ("nightly", "revoked", "store", ["promote:churn"]),
        ("old", "expired", "file", ["read"]),
    ]
    assert found[0]["id"] == prometheus[4:16]
    (today, until, revoked) = (found[0]["created"][:10], found[0]["expires"][:10], found[1]["revoked"][:10])
    rows = [re.split(r" {2,}", line.strip()) for line in shown.splitlines() if re.match(r" [0-9a-f]{12} ", line)]
    assert rows == [
        [found[0]["id"], "prometheus", "read", today, f"until {until}"],
        [found[1]["id"], "nightly", "promote:churn", today, f"revoked {revoked}"],
        [held.key_id, "old", "read", "in the file", "expired 2020-01-01"],
    ]


def test_a_name_cannot_command_the_terminal(folder: Path) -> None:
    # It could not be made by the command; another program may have put it there.
    with (
        SqlStore.open(f"sqlite:///{folder / 'state.db'}", clock=SystemClock()) as store,
        store.database.writing() as connection,
    ):
        connection.exec_driver_sql(
            "INSERT INTO api_keys (key_id, name, digest, grants, created_ms)"
            " VALUES ('0123456789ab', 'a\x1b[31m', x'00', '[\"read\"]', 0)"
        )
    shown = inside("keys", "list", cwd=folder).stdout
    assert "\x1b[31m" not in shown
    assert "\\x1b[31m" in shown
    assert "\x1b[31m" not in inside("keys", "revoke", "0123456789ab", cwd=folder).stdout


def test_a_key_is_revoked_by_name_by_id_or_by_itself(folder: Path) -> None:
    by_name, by_id, by_itself = (create(folder, name, "--role", "read") for name in ("a", "b", "c"))
    for named, key in (("a", by_name), (by_id[4:16], by_id), (by_itself, by_itself)):
        done = inside("keys", "revoke", named, cwd=folder)
        assert re.fullmatch(
            rf"revoked [abc] \({key[4:16]}\): every replica refuses it within 10 seconds\n", done.stdout
        )
        with pytest.raises(Unauthenticated, match="was revoked"):
            who(folder, key)
    again = inside("keys", "revoke", "a", cwd=folder)
    assert re.fullmatch(rf"a \({by_name[4:16]}\) was revoked already, 20.* UTC\n", again.stdout)
    assert again.returncode == 0
    assert len(audit(folder)) == 6


def test_of_a_name_that_was_used_again_the_key_in_force_is_revoked(folder: Path) -> None:
    create(folder, "a", "--role", "read")
    inside("keys", "revoke", "a", cwd=folder)
    second = create(folder, "a", "--role", "read")
    assert who(folder, second) == "key:a"
    assert second[4:16] in inside("keys", "revoke", "a", cwd=folder).stdout


def test_an_unknown_key_is_answered_with_those_there_are(folder: Path) -> None:
    SqlStore.open(f"sqlite:///{folder / 'state.db'}", clock=SystemClock()).close()
    none = inside("keys", "revoke", "x", cwd=folder)
    assert one_error_line(none) == "no API key has the name or the id 'x'; there are none"
    key = create(folder, "prometheus", "--role", "read")
    done = inside("keys", "revoke", "Prometheus", cwd=folder)
    assert one_error_line(done) == (
        f"no API key has the name or the id 'Prometheus'; there are prometheus ({key[4:16]})"
    )
    assert done.returncode == 2
    unknown = make_key().text
    done = inside("keys", "revoke", unknown, cwd=folder)
    assert one_error_line(done).startswith("no API key has the name or the id this; there are prometheus")
    cut = inside("keys", "revoke", unknown[:-1], cwd=folder)
    assert one_error_line(cut).startswith("an API key is cmk_, 12 hexadecimal digits")
    assert unknown[17:-1] not in done.stderr + cut.stderr


def test_a_hashed_entry_is_what_the_file_of_keys_takes(folder: Path) -> None:
    first = inside("keys", "create", "prometheus", "--role", "read", "--hashed", cwd=folder)
    second = inside(
        *("keys", "create", 'a "b" \u00fc: # \U0001f4c8', "--role", "write", "--role", "promote:ch urn: #"),
        *("--expires", "90d", "--hashed"),
        cwd=folder,
    )
    # Nothing is stored, and no settings are needed.
    assert not (folder / "state.db").exists()
    (key,) = KEY.findall(first.stderr)
    assert key[17:] not in first.stdout
    in_file(folder, first.stdout + second.stdout)
    file = KeysFile(folder / "keys.yaml")
    access = KeyAuthenticator([file], SystemClock())
    assert access.authenticate(key).name == "key:prometheus"
    other = access.authenticate(KEY.findall(second.stderr)[0])
    assert other.name == 'key:a "b" \u00fc: # \U0001f4c8'
    assert list(map(str, other.grants)) == ["promote:ch urn: #", "write"]
    assert [key.expires_ms is None for key in list(file.keys())] == [True, False]


def test_a_hashed_key_may_go_to_a_file_too(folder: Path) -> None:
    done = inside("keys", "create", "prometheus", "--role", "read", "--hashed", "--write-key", "key", cwd=folder)
    key = (folder / "key").read_text(encoding="ascii").strip()
    assert key not in done.stderr + done.stdout
    (folder / "keys.yaml").write_text(done.stdout, encoding="utf-8")
    assert KeyAuthenticator([KeysFile(folder / "keys.yaml")], SystemClock()).authenticate(key).name == "key:prometheus"


def test_a_name_in_the_file_of_keys_is_taken_and_its_key_is_revoked_there(folder: Path) -> None:
    in_file(folder, inside("keys", "create", "prometheus", "--role", "read", "--hashed", cwd=folder).stdout)
    taken = inside("keys", "create", "prometheus", "--role", "read", cwd=folder)
    assert one_error_line(taken).startswith(
        f"a key of access.keys_file ({folder}/keys.yaml) is called 'prometheus' already"
    )
    SqlStore.open(f"sqlite:///{folder / 'state.db'}", clock=SystemClock()).close()
    done = inside("keys", "revoke", "prometheus", cwd=folder)
    assert one_error_line(done) == f"'prometheus' is in access.keys_file ({folder}/keys.yaml): remove its entry there"


def test_a_broken_file_of_keys_does_not_keep_a_key_from_being_revoked(folder: Path) -> None:
    create(folder, "prometheus", "--role", "read")
    in_file(folder, "- {id: 1}")
    assert inside("keys", "revoke", "prometheus", cwd=folder).returncode == 0
    unknown = inside("keys", "revoke", "x", cwd=folder)
    assert one_error_line(unknown) == (
        "no API key in the store has the name or the id 'x'; those of the file are unknown: access.keys_file:"
        f" {folder}/keys.yaml:1: keys[0].name must be given"
    )


def test_where_no_key_is_asked_for_that_is_said(folder: Path) -> None:
    (folder / "monitor.yaml").write_text(SETTINGS + "access: {mode: off}\napi: {host: 127.0.0.1}\n", encoding="utf-8")
    done = inside("keys", "create", "prometheus", "--role", "read", cwd=folder)
    assert done.stderr.splitlines()[-1] == "note: access.mode is off in these settings: no key is needed"
