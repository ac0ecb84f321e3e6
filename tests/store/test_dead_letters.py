"""Messages that were no events, kept to be looked at and replayed."""

import threading

import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.events.model import Reason
from monitor.store.sql import SqlStore
from tests.store.samples import checkpoint, letter, pruned_dead_letters


def test_a_letter_comes_back_whole(store: SqlStore, clock: ManualClock) -> None:
    bare = letter(2)._replace(key=None, value=None, headers=(), reason=Reason.EMPTY, detail="\0 is no text\\")
    clock.advance(5)
    store.save([checkpoint(store.claim(0), 1, dead_letters=[letter(1), bare])])
    first, second = store.dead_letters()
    assert (first.letter, second.letter) == (letter(1), bare)
    assert first.number < second.number
    assert first.stored_ms == second.stored_ms == clock.now_ms()


def test_a_letter_is_stored_once(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save([checkpoint(epoch, 1, dead_letters=[letter(1), letter(1)])])
    store.save([checkpoint(epoch, 2, dead_letters=[letter(1)._replace(detail="read again"), letter(2)])])
    assert [item.letter for item in store.dead_letters()] == [letter(1), letter(2)]


def test_letters_are_read_page_by_page_and_by_reason(store: SqlStore) -> None:
    letters = [letter(i, reason=Reason.NOT_JSON if i % 3 else Reason.INVALID_TIME) for i in range(25)]
    store.save([checkpoint(store.claim(0), 1, dead_letters=letters)])
    found, after = [], 0
    while page := store.dead_letters(after=after, limit=10):
        assert len(page) <= 10
        found += [item.letter for item in page]
        after = page[-1].number
    assert found == letters
    timely = store.dead_letters(reason="invalid_time", limit=4)
    assert [item.letter.offset for item in timely] == [0, 3, 6, 9]
    assert store.dead_letters(reason="invalid_time", after=timely[-1].number, limit=1)[0].letter.offset == 12
    assert store.dead_letters(reason="no such reason") == []
    assert store.count_dead_letters() == {"not_json": 16, "invalid_time": 9}


def test_removed_letters_are_gone_and_their_numbers_with_them(store: SqlStore) -> None:
    epoch = store.claim(0)
    store.save([checkpoint(epoch, 1, dead_letters=[letter(i) for i in range(3)])])
    numbers = [item.number for item in store.dead_letters()]
    store.remove_dead_letters([])
    store.remove_dead_letters([*numbers[1:], 10**9])
    assert [item.letter for item in store.dead_letters()] == [letter(0)]
    store.save([checkpoint(epoch, 2, dead_letters=[letter(9)])])
    assert store.dead_letters()[-1].number > max(numbers)


def test_beyond_the_limit_the_oldest_go_and_are_counted(store_url: str) -> None:
    with SqlStore.open(store_url, dead_letter_limit=5, clock=SystemClock()) as store:
        epochs = [store.claim(0), store.claim(1)]
        store.save([checkpoint(epochs[0], 1, dead_letters=[letter(i) for i in range(5)])])
        assert pruned_dead_letters(store) == 0
        store.save([checkpoint(epochs[1], 2, partition=1, dead_letters=[letter(i, partition=1) for i in range(3)])])
        assert pruned_dead_letters(store) == 3
        store.save([checkpoint(epochs[0], 3, dead_letters=[letter(7)])])
        assert pruned_dead_letters(store) == 4
        kept = [(item.letter.partition, item.letter.offset) for item in store.dead_letters()]
    assert kept == [(0, 4), (1, 0), (1, 1), (1, 2), (0, 7)]


@pytest.mark.parametrize("readers", [3])
def test_any_thread_may_read_while_the_pipeline_saves(store: SqlStore, readers: int) -> None:
    epoch = store.claim(0)
    done = threading.Event()
    problems: list[BaseException] = []

    def read() -> None:
        try:
            while not done.is_set():
                page = store.dead_letters(limit=1000)
                # A checkpoint's letters come all at once.
                assert len(page) % 5 == 0
                assert sum(store.count_dead_letters().values()) % 5 == 0
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            problems.append(error)

    threads = [threading.Thread(target=read) for _ in range(readers)]
    for thread in threads:
        thread.start()
    for i in range(40):
        store.save([checkpoint(epoch, i, dead_letters=[letter(5 * i + j) for j in range(5)])])
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert store.count_dead_letters() == {"not_json": 200}
