"""What is kept of a source that may be away, whichever it is. Keys and tokens show the rest, each with its own ages."""

import threading

import pytest
import structlog

from monitor.access.cached_source import CachedSource, CacheTimes
from monitor.clock import ManualClock
from monitor.errors import StoreUnavailable
from monitor.outage_log import Outage
from tests.patience import PATIENCE_SECONDS, eventually

TIMES = CacheTimes(refresh=5.0, stale=8.0, expire=900.0, retry=1.0, wait=PATIENCE_SECONDS)


class Source:
    """Counts up with each reading, and raises what it is told to."""

    def __init__(self) -> None:
        self.reads = 0
        self.raises: Exception | None = None
        self.open = threading.Event()
        self.open.set()

    def read(self) -> int:
        self.reads += 1
        assert self.open.wait(PATIENCE_SECONDS)
        if self.raises is not None:
            raise self.raises
        return self.reads


@pytest.fixture
def counter() -> Source:
    return Source()


@pytest.fixture
def last(counter: Source, clock: ManualClock) -> CachedSource[int]:
    outage = Outage(structlog.get_logger("test"), "away", "back", clock)
    return CachedSource(
        counter.read, TIMES, unavailable=StoreUnavailable, outage=outage, name="the counter", clock=clock
    )


def test_nothing_is_read_before_it_is_asked_for(counter: Source, last: CachedSource[int]) -> None:
    assert (last.get(), last.is_fresh(), last.wait(), counter.reads) == (None, False, False, 0)
    last.refresh()
    assert (last.get(), last.is_fresh(), last.wait(), counter.reads) == (1, True, True, 1)


def test_it_is_read_anew_beside_requests_and_waited_for_once_it_is_stale(
    counter: Source, last: CachedSource[int], clock: ManualClock
) -> None:
    last.refresh()
    clock.advance(TIMES.refresh)
    counter.open.clear()
    # Neither waits, and the second begins no other reading.
    assert last.is_fresh()
    last.refresh()
    assert last.get() == 1
    counter.open.set()
    assert last.wait()
    assert (last.get(), counter.reads) == (2, 2)
    clock.advance(TIMES.stale)
    assert not last.is_fresh()
    assert counter.reads == 2
    last.refresh()
    assert (last.get(), counter.reads) == (3, 3)


@pytest.mark.parametrize(
    ("fault", "told"),
    [(StoreUnavailable("no answer"), "away"), (ZeroDivisionError("ours"), "the counter cannot be read")],
)
def test_it_holds_until_it_is_lost_and_is_asked_for_once_in_a_while(
    counter: Source, last: CachedSource[int], clock: ManualClock, fault: Exception, told: str
) -> None:
    last.refresh()
    counter.raises = fault
    clock.advance(TIMES.stale)
    with structlog.testing.capture_logs() as logs:
        last.refresh()
        for _ in range(10):
            last.start_read()
            assert not last.wait()
    assert (last.get(), counter.reads) == (1, 2)
    assert [each["event"] for each in logs] == [told]
    clock.advance(TIMES.expire - TIMES.stale)
    assert last.get() is None
    counter.raises = None
    last.start_read()
    assert eventually(last.wait)
    assert last.get() == 3


def test_where_no_thread_can_be_had_the_next_request_tries_again(
    counter: Source, last: CachedSource[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            last.refresh()
    last.refresh()
    assert (last.get(), counter.reads) == (1, 1)
