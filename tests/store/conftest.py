"""Each test that asks for a store runs on both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.store.sql import SqlStore
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty database is, or a SQLite file may come to be."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/monitor.db"
    server = request.getfixturevalue("postgres_server")
    return str(server.url(server.new_database()))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def store(store_url: str, clock: ManualClock) -> Iterator[SqlStore]:
    # Threads of a test that write at once wait for each other as long as it takes.
    with SqlStore.open(store_url, clock=clock, patience_seconds=PATIENCE_SECONDS) as store:
        yield store
