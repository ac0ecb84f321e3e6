"""The file of hashed keys: what it may say, what is refused in which words, and how changes take effect."""

import os
from pathlib import Path

import pytest
import structlog

from monitor.access.keys import REVOKED_WITHIN_SECONDS, UNKNOWN_SECONDS, KeyAuthenticator, make_key
from monitor.access.keys_file import KeysFile, parse_keys
from monitor.access.model import parse_grants
from monitor.clock import ManualClock
from monitor.errors import SettingsError, Unauthenticated

SHA = "ab" * 32


def entry(**fields: str) -> str:
    """One entry, with some fields otherwise, or left out where they are empty."""
    usual = {"id": "0123456789ab", "name": "prometheus", "sha256": SHA, "roles": "[read]"}
    return "- " + "\n  ".join(f"{name}: {value}" for name, value in (usual | fields).items() if value) + "\n"


def ids(file: KeysFile) -> list[str]:
    held = file.keys()
    return [key.key_id for key in held]


def made(name: str) -> tuple[str, str]:
    """A key, and its entry."""
    new = make_key()
    return new.text, entry(id=f'"{new.key_id}"', name=name, sha256=new.digest.hex())


def test_an_entry_is_read() -> None:
    (key,) = parse_keys(
        entry(name="nightly refits", roles="[write, promote:churn]", expires="2027-06-30T02:00:00+02:00").encode(), "f"
    )
    assert (key.key_id, key.name, key.digest) == ("0123456789ab", "nightly refits", bytes.fromhex(SHA))
    assert key.grants == parse_grants(["write", "promote:churn"])
    assert (key.created_ms, key.expires_ms, key.revoked_ms) == (0, 1_814_313_600_000, None)


@pytest.mark.parametrize("key_id", ["012345678901", "123456789012", "1234567890e5", "0x1234567890"[:12]])
def test_an_id_of_digits_is_text_whatever_yaml_thinks(key_id: str) -> None:
    if "x" in key_id:
        with pytest.raises(SettingsError, match="must be 12 hexadecimal digits"):
            parse_keys(entry(id=key_id).encode(), "f")
        return
    assert parse_keys(entry(id=key_id).encode(), "f")[0].key_id == key_id


def test_a_role_alone_needs_no_list() -> None:
    assert parse_keys(entry(roles="promote:churn").encode(), "f")[0].grants == parse_grants(["promote:churn"])


def test_there_may_be_no_keys() -> None:
    assert parse_keys(b"[]", "f") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f: must be a list of keys, each with id, name, sha256, roles, expires; [] for none"),
        ("keys: []", "f: must be a list of keys, each with id, name, sha256, roles, expires; [] for none"),
        ("- [", "f:1: not valid YAML: expected the node content, but found '<stream end>'"),
        ("- x", "f:1: keys[0] must have id, name, sha256, roles, expires"),
        (entry(id=""), "f:1: keys[0].id must be given"),
        (entry(roles=""), "f:1: keys[0].roles must be given"),
        (entry() + entry(sha256=""), "f:5: keys[1].sha256 must be given"),
        (entry(id="xyz"), "f:1: keys[0].id must be 12 hexadecimal digits, got 'xyz'"),
        (entry(id="[1]"), "f:1: keys[0].id must be text"),
        (
            entry(sha256="abc"),
            "f:3: keys[0].sha256 must be 64 hexadecimal digits, as `monitor keys create NAME --hashed` prints them",
        ),
        (
            entry(roles="[read, admin]"),
            "f:4: keys[0].roles: a role must be read, write, promote, or one of them for one model as in",
        ),
        (entry(roles="[]"), "f:4: keys[0].roles: at least one role must be named: read, write, promote, or one for a"),
        (entry(roles="[[read]]"), "f:4: keys[0].roles must be a list of roles, such as [read, promote:churn]"),
        (entry(roles="{read: 1}"), "f:4: keys[0].roles must be a list of roles, such as [read, promote:churn]"),
        (
            entry(expires="2027-06-30"),
            "f:5: keys[0].expires must be a time with its zone, such as 2027-06-30T00:00:00Z, got '2027-06-30'",
        ),
        (entry(expires="soon"), "f:5: keys[0].expires must be a time with its zone"),
        (entry(name='"a\\nb"'), "f:2: keys[0].name: the name of a key must be 1 to 64 printable characters"),
        (
            entry(revoked="true"),
            "f:5: keys[0].revoked is no field of a key, which has id, name, sha256, roles, expires",
        ),
        (entry() + "  id: 0123456789ac\n", "f:5: keys[0].id is given twice"),
        (entry() + entry(name="other"), "f:5: keys[1].id is given twice: 0123456789ab"),
        (entry() + entry(id="0123456789ac"), "f:5: keys[1].name is given twice: 'prometheus'"),
        ("- &a [*a]", "f: not valid YAML: it is nested too deeply, or holds itself"),
        (f"- {'[' * 5_000}", "f: not valid YAML: it is nested too deeply, or holds itself"),
        (
            "".join(f"- &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]\n" for n in range(10)) + "- {? *a9 : x}",
            "f: not valid YAML: it holds 8,",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_line_and_key(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_keys(text.encode(), "f")
    assert str(refused.value).startswith(message)
    assert len(str(refused.value).splitlines()) == 1


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"f: not UTF-8 \(byte 2\)"):
        parse_keys(b"- \xff", "f")


def test_a_key_in_place_of_its_hash_is_not_shown() -> None:
    new = make_key()
    with pytest.raises(
        SettingsError, match=r"keys\[0\].sha256 must be 64 hexadecimal digits.* got an API key itself"
    ) as no:
        parse_keys(entry(sha256=new.text).encode(), "f")
    assert new.text[17:] not in str(no.value)


def test_a_file_that_is_not_there_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"access.keys_file: cannot read .*/keys.yaml: No such file or directory"):
        KeysFile(tmp_path / "keys.yaml")


def test_a_broken_file_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(entry(id="zz"), encoding="utf-8")
    with pytest.raises(
        SettingsError, match=r"access\.keys_file: .*/keys\.yaml:1: keys\[0\].id must be 12 hexadecimal digits, got 'zz'"
    ):
        KeysFile(path)


def test_a_change_takes_effect_and_a_removed_key_is_refused(tmp_path: Path) -> None:
    path, clock = tmp_path / "keys.yaml", ManualClock(1_790_000_000_000)
    (first, first_entry), (second, second_entry) = made("first"), made("second")
    path.write_text(first_entry, encoding="utf-8")
    access = KeyAuthenticator([KeysFile(path)], clock)
    assert access.authenticate(first).name == "key:first"
    clock.advance(UNKNOWN_SECONDS)
    path.write_text(second_entry, encoding="utf-8")
    assert access.authenticate(second).name == "key:second"
    with pytest.raises(Unauthenticated):
        access.authenticate(first)


def test_a_change_of_equal_size_and_time_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(entry(id="0123456789ab"), encoding="utf-8")
    file, times = KeysFile(path), path.stat()
    path.write_text(entry(id="0123456789ac"), encoding="utf-8")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert ids(file) == ["0123456789ac"]


def test_the_links_of_kubernetes_are_followed_anew(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"..{number}").mkdir()
        (tmp_path / f"..{number}" / "keys.yaml").write_text(entry(id=f"{number:012d}"), encoding="utf-8")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "keys.yaml").symlink_to("..data/keys.yaml")
    file = KeysFile(tmp_path / "keys.yaml")
    assert ids(file) == ["000000000001"]
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert ids(file) == ["000000000002"]


def test_a_file_that_breaks_later_leaves_the_last_good_one_and_is_logged_once(tmp_path: Path) -> None:
    path, clock = tmp_path / "keys.yaml", ManualClock(1_790_000_000_000)
    key, good = made("first")
    path.write_text(good, encoding="utf-8")
    access = KeyAuthenticator([KeysFile(path)], clock)
    with structlog.testing.capture_logs() as logs:
        for broken in ("- {id: 1}", None):
            path.unlink() if broken is None else path.write_text(broken, encoding="utf-8")
            for _ in range(5):
                clock.advance(REVOKED_WITHIN_SECONDS)
                assert access.authenticate(key).name == "key:first"
        path.write_text(good + made("second")[1], encoding="utf-8")
        clock.advance(REVOKED_WITHIN_SECONDS)
        assert access.authenticate(key).name == "key:first"
        path.write_text("- {id: 1}", encoding="utf-8")
        clock.advance(REVOKED_WITHIN_SECONDS)
        assert access.authenticate(key).name == "key:first"
    assert [(each["log_level"], each.get("detail", each.get("keys"))) for each in logs] == [
        ("warning", f"access.keys_file: {path}:1: keys[0].name must be given"),
        ("warning", f"access.keys_file: cannot read {path}: No such file or directory"),
        ("info", 2),
        # Mended, and broken again: that is news.
        ("warning", f"access.keys_file: {path}:1: keys[0].name must be given"),
    ]
