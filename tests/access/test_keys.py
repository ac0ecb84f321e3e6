"""API keys: what one looks like, who holds one, and what is asked of the store for it."""

import hmac
import re
import string
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from monitor.access import keys
from monitor.access.base import StoredKey
from monitor.access.keys import (
    OUTAGE_SECONDS,
    REREAD_SECONDS,
    REVOKED_WITHIN_SECONDS,
    STALE_SECONDS,
    UNKNOWN_SECONDS,
    KeyAuthenticator,
    check_name,
    digest_of,
    make_key,
    parse_key,
)
from monitor.access.model import Principal
from monitor.clock import ManualClock
from monitor.errors import InputError, StoreUnavailable, Unauthenticated
from tests.access.keys import READ, CountingSource, stored, wrong_key

NOW_MS = 1_790_000_000_000
KEY = make_key()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def source() -> CountingSource:
    return CountingSource(stored(KEY))


@pytest.fixture
def access(source: CountingSource, clock: ManualClock) -> KeyAuthenticator:
    return KeyAuthenticator([source], clock)


def settle(access: KeyAuthenticator) -> None:
    """Wait until all reading that was begun has ended."""
    for held in access._sources:
        if held._reading is not None:
            assert held._reading.ended.wait(10)


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


# What is asked of the store.


def test_right_keys_are_read_once_and_then_every_few_seconds(
    access: KeyAuthenticator, source: CountingSource, clock: ManualClock
) -> None:
    for _ in range(10_000):
        access.authenticate(KEY.text)
        clock.advance(0.001)
    settle(access)
    # 10 s, in which the first reading and those of the fifth and tenth second fall.
    assert source.reads <= 1 + 10 / REREAD_SECONDS


def test_ten_thousand_wrong_keys_are_a_few_reads_of_the_store(
    access: KeyAuthenticator, source: CountingSource, clock: ManualClock
) -> None:
    access.authenticate(KEY.text)
    wrong = [wrong_key() for _ in range(5_000)]
    wrong += [f"{KEY.text[:17]}{each[17:]}" for each in wrong]
    for each in wrong:
        with pytest.raises(Unauthenticated):
            access.authenticate(each)
    assert source.reads == 1
    for each in wrong:
        with pytest.raises(Unauthenticated):
            access.authenticate(each)
        clock.advance(0.001)
    settle(access)
    assert 2 <= source.reads <= 2 + 10 / UNKNOWN_SECONDS
    # Nothing is kept of them.
    assert [set(held._keys) for held in access._sources] == [{KEY.key_id}]


def test_wrong_keys_from_many_threads_are_no_more(access: KeyAuthenticator, source: CountingSource) -> None:
    refused = []

    def try_many() -> None:
        for _ in range(200):
            with pytest.raises(Unauthenticated):
                access.authenticate(wrong_key())
            refused.append(1)

    threads = [threading.Thread(target=try_many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1600
    assert source.reads == 1


def test_malformed_keys_ask_the_store_nothing(access: KeyAuthenticator, source: CountingSource) -> None:
    for text in ("cmk_", "cmk_x", KEY.text[:-1]):
        with pytest.raises(Unauthenticated):
            access.authenticate(text)
    assert source.reads == 0


def test_a_new_key_holds_at_once(access: KeyAuthenticator, source: CountingSource, clock: ManualClock) -> None:
    access.authenticate(KEY.text)
    clock.advance(UNKNOWN_SECONDS)
    new = make_key()
    source.held.append(stored(new, "grafana"))
    assert access.authenticate(new.text).name == "key:grafana"
    assert source.reads == 2


def test_a_new_key_holds_within_a_second_while_wrong_ones_are_tried(
    access: KeyAuthenticator, source: CountingSource, clock: ManualClock
) -> None:
    with pytest.raises(Unauthenticated):
        access.authenticate(wrong_key())
    new = make_key()
    source.held.append(stored(new, "grafana"))
    with pytest.raises(Unauthenticated):
        access.authenticate(new.text)
    clock.advance(UNKNOWN_SECONDS)
    assert access.authenticate(new.text).name == "key:grafana"


def test_a_revoked_key_is_refused_within_the_time_that_is_stated(
    access: KeyAuthenticator, source: CountingSource, clock: ManualClock
) -> None:
    access.authenticate(KEY.text)
    source.held[0] = replace(source.held[0], revoked_ms=NOW_MS)
    # Nobody asked meanwhile: the first request after it is refused already.
    clock.advance(REVOKED_WITHIN_SECONDS)
    with pytest.raises(Unauthenticated, match="was revoked"):
        access.authenticate(KEY.text)


def test_a_revoked_key_in_use_is_read_about_in_the_background(
    access: KeyAuthenticator, source: CountingSource, clock: ManualClock
) -> None:
    access.authenticate(KEY.text)
    source.held.clear()
    source.open.clear()
    clock.advance(REREAD_SECONDS)
    # The request goes on with what is held, and does not wait for the reading that it began.
    assert access.authenticate(KEY.text).name == "key:prometheus"
    source.open.set()
    settle(access)
    with pytest.raises(Unauthenticated, match="not known"):
        access.authenticate(KEY.text)


def test_while_the_store_does_not_answer_known_keys_hold_for_a_bounded_time(
    access: KeyAuthenticator, source: CountingSource, clock: ManualClock
) -> None:
    access.authenticate(KEY.text)
    source.fails = True
    with structlog.testing.capture_logs() as logs:
        began = clock.monotonic()
        while clock.monotonic() - began + 1.5 < OUTAGE_SECONDS:
            clock.advance(1.5)
            assert access.authenticate(KEY.text).name == "key:prometheus"
            settle(access)
        clock.advance(1.5)
        with pytest.raises(StoreUnavailable, match="API keys that are not known yet cannot be checked at present"):
            access.authenticate(KEY.text)
        settle(access)
        source.fails = False
        clock.advance(UNKNOWN_SECONDS)
        with pytest.raises(StoreUnavailable):
            access.authenticate(KEY.text)  # nobody waits for a store that failed; the next request finds it read
        settle(access)
        assert access.authenticate(KEY.text).name == "key:prometheus"
    # Not a line a request.
    assert [(each["log_level"], each["event"].split(";")[0]) for each in logs] == [
        ("warning", "API keys cannot be read"),
        ("info", "API keys are read again"),
    ]


def test_what_is_not_known_while_the_store_fails_is_an_error_of_ours_and_shows_no_address(
    access: KeyAuthenticator, source: CountingSource
) -> None:
    source.fails = True
    said = set()
    for text in (KEY.text, wrong_key(), f"{KEY.text[:17]}{make_key().text[17:]}"):
        with pytest.raises(StoreUnavailable) as refused:
            access.authenticate(text)
        said.add(str(refused.value))
    # To a stranger a wrong secret and an unknown id look alike then too.
    assert said == {"API keys that are not known yet cannot be checked at present: try again soon"}


def test_a_store_that_fails_is_asked_once_a_second(
    access: KeyAuthenticator, source: CountingSource, clock: ManualClock
) -> None:
    source.fails = True
    for _ in range(5_000):
        with pytest.raises(StoreUnavailable):
            access.authenticate(KEY.text)
        settle(access)
        clock.advance(0.001)
    assert source.reads <= 1 + 5 / UNKNOWN_SECONDS


def test_a_store_that_hangs_keeps_only_those_waiting_that_come_at_once(
    access: KeyAuthenticator, source: CountingSource, clock: ManualClock
) -> None:
    access.authenticate(KEY.text)
    source.open.clear()
    clock.advance(STALE_SECONDS - 1)
    access.authenticate(KEY.text)  # begins to read
    clock.advance(3)
    # The reading should have ended by now: neither known nor unknown keys wait for it.
    assert access.authenticate(KEY.text).name == "key:prometheus"
    with pytest.raises(StoreUnavailable):
        access.authenticate(wrong_key())
    assert source.reads == 2
    source.open.set()
    settle(access)


def test_one_source_that_fails_leaves_the_keys_of_the_others(clock: ManualClock) -> None:
    broken, file = CountingSource(), CountingSource(stored(KEY))
    broken.fails = True
    access = KeyAuthenticator([broken, file], clock)
    for _ in range(3):
        assert access.authenticate(KEY.text).name == "key:prometheus"
        clock.advance(OUTAGE_SECONDS)
    settle(access)


class BrokenSource(CountingSource):
    def keys(self) -> Sequence[StoredKey]:
        raise ZeroDivisionError


def test_a_fault_of_ours_is_logged_and_no_request_waits_for_it(clock: ManualClock) -> None:
    access = KeyAuthenticator([BrokenSource()], clock)
    with structlog.testing.capture_logs() as logs, pytest.raises(StoreUnavailable):
        access.authenticate(KEY.text)
    assert [(each["log_level"], each["event"]) for each in logs] == [("error", "API keys cannot be read")]
