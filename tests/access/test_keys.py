"""API keys: what one looks like, and who holds one."""

import hmac
import re
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.access import keys
from monitor.access.keys import KeyAuthenticator, check_name, digest_of, make_key, parse_key
from monitor.access.model import Principal
from monitor.clock import ManualClock
from monitor.errors import InputError, Unauthenticated
from tests.access.keys import KEY, NOW_MS, READ, CountingSource, stored

# What a key is.


def test_a_key_has_the_form_that_is_promised() -> None:
    new = make_key()
    assert re.fullmatch(r"cmk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", new.text)
    assert parse_key(new.text) == (new.key_id, new.text[17:])
    assert new.digest == digest_of(new.text[17:])


def test_no_two_keys_are_alike() -> None:
    made = [make_key() for _ in range(1000)]
    assert len({each.key_id for each in made}) == len({each.digest for each in made}) == 1000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cmk_",
        KEY.text[:-1],
        f"{KEY.text}A",
        f"{KEY.text}\n",
        f" {KEY.text}",
        f'"{KEY.text}"',
        KEY.text.upper(),
        KEY.text.replace("cmk_", "cmk-", 1),
        f"cmk_{KEY.key_id.upper()}x_{KEY.text[17:]}",
        "cmk_\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668\u0669\u0660\u0661\u0662_" + KEY.text[17:],
    ],
    ids=lambda text: f"{len(text)} characters",
)
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(Unauthenticated, match="an API key is cmk_, 12 hexadecimal digits") as refused:
        parse_key(text)
    assert KEY.text[17:] not in str(refused.value)


@pytest.mark.parametrize("name", ["prometheus", "nightly refits", "Ada's", "x" * 64, "\u00fcber", "0123456789a"])
def test_names_that_people_give(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", " ", " x", "x ", "a\nb", "a\x1b[31m", "x" * 65, "0123456789ab", "a\u202eb"])
def test_names_that_would_garble_a_log_or_pass_for_an_id(name: str) -> None:
    with pytest.raises(InputError, match=r"the name of a key must be 1 to 64 printable characters"):
        check_name(name)


# Who holds one.


def test_a_key_is_its_owners(access: KeyAuthenticator) -> None:
    assert access.authenticate(KEY.text) == Principal("key:prometheus", READ)


ALPHABET = string.ascii_letters + string.digits + "_-.~ \n\u00e9\0"


@given(at=st.integers(0, len(KEY.text) - 1), other=st.sampled_from(ALPHABET))
def test_a_key_with_any_character_changed_is_nobodys(at: int, other: str) -> None:
    access = KeyAuthenticator([CountingSource(stored(KEY))], ManualClock(NOW_MS))
    changed = f"{KEY.text[:at]}{other}{KEY.text[at + 1 :]}"
    if changed == KEY.text:
        assert access.authenticate(changed).name == "key:prometheus"
        return
    with pytest.raises(Unauthenticated) as refused:
        access.authenticate(changed)
    assert KEY.text[17:] not in str(refused.value)
    assert KEY.key_id not in str(refused.value)


def test_each_last_character_but_the_right_one_is_refused(access: KeyAuthenticator) -> None:
    # 43 characters hold two bits more than 32 bytes: decoded, four last characters would be the same key.
    accepted = []
    for last in string.ascii_letters + string.digits + "_-":
        try:
            access.authenticate(f"{KEY.text[:-1]}{last}")
            accepted.append(last)
        except Unauthenticated:
            continue
    assert accepted == [KEY.text[-1]]


def test_the_secret_of_one_key_does_not_open_another(access: KeyAuthenticator, source: CountingSource) -> None:
    other = make_key()
    source.held.append(stored(other, "grafana"))
    with pytest.raises(Unauthenticated):
        access.authenticate(f"cmk_{other.key_id}_{KEY.text[17:]}")
    assert access.authenticate(other.text).name == "key:grafana"


def test_an_expired_key_is_refused_from_that_millisecond_on(clock: ManualClock) -> None:
    access = KeyAuthenticator([CountingSource(stored(KEY, expires_ms=NOW_MS + 1000))], clock)
    clock.advance(0.999)
    assert access.authenticate(KEY.text).name == "key:prometheus"
    clock.advance(0.001)
    with pytest.raises(Unauthenticated, match=r"the API key expired at 2026-09-21 14:13:21 UTC: `monitor keys create`"):
        access.authenticate(KEY.text)


def test_who_has_not_the_secret_learns_nothing_of_a_key(clock: ManualClock) -> None:
    expired, revoked = make_key(), make_key()
    access = KeyAuthenticator(
        [
            CountingSource(
                stored(KEY),
                stored(expired, "expired", expires_ms=1),
                replace(stored(revoked, "revoked"), revoked_ms=1),
            )
        ],
        clock,
    )
    said = set()
    for key_id in (KEY.key_id, expired.key_id, revoked.key_id, make_key().key_id):
        with pytest.raises(Unauthenticated) as refused:
            access.authenticate(f"cmk_{key_id}_{make_key().text[17:]}")
        said.add(str(refused.value))
    assert said == {"the API key is not known: `monitor keys list` shows the ids of those that are"}
    with pytest.raises(Unauthenticated, match="the API key was revoked: use another one"):
        access.authenticate(revoked.text)


def test_digests_are_compared_in_constant_time_also_of_an_unknown_id(
    access: KeyAuthenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, unknown = make_key().text[17:], make_key().key_id
    compared: list[tuple[bytes, bytes]] = []
    hashed: list[str] = []
    compare, digest = hmac.compare_digest, digest_of

    def counting(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return compare(a, b)

    def hashing(secret: str) -> bytes:
        hashed.append(secret)
        return digest(secret)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    monkeypatch.setattr(keys, "digest_of", hashing)
    access.authenticate(KEY.text)
    for key_id in (KEY.key_id, unknown):
        with pytest.raises(Unauthenticated):
            access.authenticate(f"cmk_{key_id}_{secret}")
    # One hash each; a comparison of 32 bytes where the key is right, and two where it is wrong, or its id is unknown.
    assert hashed == [KEY.text[17:], secret, secret]
    wrong = digest(secret)
    assert compared == [(KEY.digest, KEY.digest), *[(wrong, KEY.digest)] * 2, *[(wrong, bytes(32))] * 2]


def test_of_an_id_in_two_sources_the_first_is_meant(clock: ManualClock) -> None:
    revoked = replace(stored(KEY), revoked_ms=1)
    access = KeyAuthenticator([CountingSource(revoked), CountingSource(stored(KEY, "in the file"))], clock)
    with pytest.raises(Unauthenticated, match="was revoked"):
        access.authenticate(KEY.text)
