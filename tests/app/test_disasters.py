"""What docs/operations.md says of a full disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
import structlog

from monitor.app.parts import make_log, make_pipeline, make_writer, open_store
from monitor.app.settings import Settings
from monitor.clock import ManualClock, SystemClock
from monitor.events.encode import encode_labelled
from monitor.events.model import Message
from monitor.store.sql import SqlStore
from monitor.stream.status import Phase

EVENTS = 5_000
START_MS = 1_790_000_000_000


@pytest.fixture
def chosen(tmp_path: Path) -> Settings:
    return Settings.model_validate(
        {
            "source": {"embedded": {"directory": str(tmp_path / "log"), "partitions": 1}},
            "store": {"url": f"sqlite:///{tmp_path}/state.db"},
            "pipeline": {"max_poll_records": 500, "checkpoint_interval": "10ms"},
        }
    )


class Disk:
    """Room for so many pages of SQLite, which then says "database or disk is full" as it does on a full disk."""

    def __init__(self, store: SqlStore) -> None:
        self.pages = 1 << 30
        sa.event.listen(store.database.engine, "checkout", self._limit)

    def _limit(self, connection: sa.PoolProxiedConnection, *_: object) -> None:
        connection.cursor().execute(f"PRAGMA max_page_count = {self.pages}").close()


@pytest.fixture
def store(chosen: Settings) -> Iterator[SqlStore]:
    with open_store(chosen, ManualClock(START_MS)) as store:
        yield store


def test_a_disk_that_is_full_is_waited_for_and_nothing_is_lost(chosen: Settings, store: SqlStore) -> None:
    clock = ManualClock(START_MS)
    writer = make_writer(chosen, clock)
    values = [
        encode_labelled("churn", str(number), START_MS - EVENTS + number, 0.5, number % 2) for number in range(EVENTS)
    ]
    writer.write([Message("calibration-events", value, b"k") for value in values])
    disk = Disk(store)
    log = make_log(chosen, SystemClock())
    pipeline = make_pipeline(chosen, log, store, clock)
    pipeline._poll_seconds = 0.0

    def turn(times: int) -> None:
        for _ in range(times):
            pipeline.step()
            clock.advance(1)

    turn(3)
    with store.database.reading() as connection:
        disk.pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    with structlog.testing.capture_logs() as told:
        turn(20)
    assert pipeline.status.phase == Phase.STORE_UNAVAILABLE.value
    assert "database or disk is full" in pipeline.status.detail
    lines = [line for line in told if line["event"].startswith("the checkpoint could not be saved")]
    assert len(lines) == 2  # At once, and after ten seconds.
    read_meanwhile = pipeline.status.records_read
    assert read_meanwhile < EVENTS  # Nothing is read that cannot be saved.
    disk.pages = 1 << 30
    turn(60)
    assert pipeline.status.phase == Phase.RUNNING.value
    assert pipeline.status.counters["labelled", "accepted"] == EVENTS
    log.source.close()
    again = make_log(chosen, SystemClock())
    restored = make_pipeline(chosen, again, store, clock)
    restored.step()
    assert restored.status.counters["labelled", "accepted"] == EVENTS
    again.source.close()
