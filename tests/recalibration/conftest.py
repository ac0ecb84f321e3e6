"""A new store for each test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.sql import SqlStore


@pytest.fixture
def sql_store(tmp_path: Path) -> Iterator[SqlStore]:
    with SqlStore.open(f"sqlite:///{tmp_path}/monitor.db", clock=SystemClock()) as store:
        yield store


@pytest.fixture
def refits(sql_store: SqlStore) -> RecalibrationStore:
    return RecalibrationStore(sql_store.database)
