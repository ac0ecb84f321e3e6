"""What is asked of the store for API keys, when changes take effect, and what holds while it does not answer."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
import structlog

from monitor.access import keys
from monitor.access.keys import (
    OUTAGE_SECONDS,
    REREAD_SECONDS,
    REVOKED_WITHIN_SECONDS,
    STALE_SECONDS,
    UNKNOWN_SECONDS,
    KeyAuthenticator,
    make_key,
)
from monitor.access.model import StoredKey
from monitor.clock import ManualClock
from monitor.errors import StoreUnavailable, Unauthenticated
from tests.access.keys import KEY, NOW_MS, CountingSource, stored, wrong_key
from tests.patience import PATIENCE_SECONDS, joined


def settle(access: KeyAuthenticator) -> None:
    """Wait until all reading that was begun has ended."""
    for held in access._sources:
        if held._last_read is not None:
            assert held._last_read.ended.wait(PATIENCE_SECONDS)


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
    assert [list(held.get() or ()) for held in access._sources] == [[KEY.key_id]]


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
    joined(*threads)
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
        with pytest.raises(StoreUnavailable, match="new API keys cannot be checked at present"):
            access.authenticate(KEY.text)
        settle(access)
        source.fails = False
        source.open.clear()
        clock.advance(UNKNOWN_SECONDS)
        with pytest.raises(StoreUnavailable):
            access.authenticate(KEY.text)  # nobody waits for a store that failed; the next request finds it read
        source.open.set()
        settle(access)
        assert access.authenticate(KEY.text).name == "key:prometheus"
    # Not a line a request: at once, after 10 s, 20 s, 40 s and so on, and when it is over.
    assert [(each["log_level"], each["event"].split(";")[0]) for each in logs] == [
        *[("warning", "API keys cannot be read")] * 7,
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
    assert said == {"new API keys cannot be checked at present: try again soon"}


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
    clock.advance(keys.WAIT_SECONDS)
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


def test_memory_tells_without_a_wait_and_only_while_it_is_fresh(
    access: KeyAuthenticator, source: CountingSource, clock: ManualClock
) -> None:
    # Nothing was read yet, and nothing is waited for.
    assert access.recall(KEY.text) is None
    owner = access.authenticate(KEY.text)
    assert access.recall(KEY.text) == owner
    for wrong in (wrong_key(), f"{KEY.text[:17]}{wrong_key()[17:]}", "nonsense", ""):
        assert access.recall(wrong) is None
    assert source.reads == 1
    clock.advance(REREAD_SECONDS)
    # It grows old: it is read anew meanwhile.
    assert access.recall(KEY.text) == owner
    settle(access)
    assert source.reads == 2
    clock.advance(STALE_SECONDS)
    assert access.recall(KEY.text) is None


def test_memory_does_not_tell_of_a_key_that_is_not_in_force(source: CountingSource, clock: ManualClock) -> None:
    source.held = [stored(KEY, expires_ms=NOW_MS + 1)]
    access = KeyAuthenticator([source], clock)
    access.authenticate(KEY.text)
    assert access.recall(KEY.text) is not None
    clock.advance(0.001)
    assert access.recall(KEY.text) is None
    source.held = [replace(stored(KEY), revoked_ms=NOW_MS)]
    clock.advance(STALE_SECONDS)
    with pytest.raises(Unauthenticated, match="was revoked"):
        access.authenticate(KEY.text)
    assert access.recall(KEY.text) is None


def test_all_sources_are_read_anew_though_one_does_not_answer(clock: ManualClock) -> None:
    away, there = CountingSource(), CountingSource(stored(KEY))
    access = KeyAuthenticator([away, there], clock)
    access.authenticate(KEY.text)
    away.fails = True
    clock.advance(STALE_SECONDS)
    access.authenticate(KEY.text)
    settle(access)
    before = there.reads
    clock.advance(REREAD_SECONDS)
    # What the one that is away would say now is not known: whoever may wait is to ask.
    assert access.recall(KEY.text) is None
    settle(access)
    assert there.reads == before + 1
