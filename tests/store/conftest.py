"""A store, in a test that runs on both databases."""

from collections.abc import Iterator

import pytest

from monitor.clock import ManualClock
from monitor.store.sql import SqlStore
from tests.patience import PATIENCE_SECONDS


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def store(store_url: str, clock: ManualClock) -> Iterator[SqlStore]:
    # Threads of a test that write at once wait for each other as long as it takes.
    with SqlStore.open(store_url, clock=clock, patience_seconds=PATIENCE_SECONDS) as store:
        yield store
