"""Reports as of a past moment are those of then, bit for bit, although a partition was held back; on both databases."""

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest
import sqlalchemy as sa

from monitor.clock import ManualClock
from monitor.events.codec import Decoder
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.model import ALL, ModelPolicy
from monitor.measures import choose_measures
from monitor.reports.evaluation.assess import Minimum
from monitor.reports.evaluation.report import Report
from monitor.store.evaluations import EvaluatedMoment, Evaluation, EvaluationStore, StoredMoment
from monitor.store.housekeeping import sweep
from monitor.store.schema import EVALUATED_MOMENTS
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.windows.panes import ClosedPanes
from monitor.windows.windows import Window
from tests.evaluations import Sharing, save
from tests.long import sqlite_first
from tests.stream.support import START_MS, LogRecord, batch_of

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
STEP_MS: Final = 73_000
POLICY: Final = ModelPolicy(horizon_ms=5 * MINUTE_MS, lateness_ms=MINUTE_MS)
WINDOWS: Final = [
    Window("1h", HOUR_MS),
    Window("10m", 10 * MINUTE_MS),
    Window("last60", HOUR_MS, last=60),
]
KEPT_MS: Final = {5_000: 3 * HOUR_MS, MINUTE_MS: 4 * HOUR_MS}
SETTINGS: Final = PartitionSettings(policy=lambda _: POLICY, kept_ms=KEPT_MS)
Shown = dict[tuple[int, str], Report]
"""(Watermark, window) -> the report that was answered last."""


class Replica(Sharing):
    """A replica that evaluates and answers."""

    def __init__(self, store: SqlStore, name: str, clock: ManualClock) -> None:
        # The time of PostgreSQL cannot be set.
        store.database.now_ms = lambda _: clock.now_ms()  # type: ignore[method-assign, assignment]
        super().__init__(
            store,
            ClosedPanes(KEPT_MS, lambda _: POLICY),
            WINDOWS,
            name,
            clock=clock,
            of_closings=True,
            minimum=Minimum(5, 1, 1),
            draws=19,
            measures=choose_measures({"ece", "brier"}),
        )

    def answer(self) -> Shown:
        """Evaluate, and return what is answered now."""
        at_ms = self.evaluate().models["m"].watermark_ms
        return {(at_ms, window.name): self.report("m", window=window.name) for window in WINDOWS}


class Log:
    """Two partitions, seconds apart, of a model; its next version is in the second of them first."""

    def __init__(self, store: SqlStore) -> None:
        self._store, self._rng, self._step = store, np.random.default_rng(5), 0
        self._partitions = [Partition(number, store.claim(number), SETTINGS) for number in range(2)]
        self._unread: list[list[bytes]] = [[], []]
        self._offsets = [0, 0]

    @property
    def now_ms(self) -> int:
        return START_MS + self._step * STEP_MS

    def step(self, read: Sequence[int] = (0, 1)) -> None:
        """Write events to both partitions, and read and save some of these."""
        for number, unread in enumerate(self._unread):
            version = "1" if self._step < 25 else "2" if self._step >= 50 else str(1 + number)
            for at in range(5):
                name, time_ms = f"{self._step}-{at}", self.now_ms + number * 7_000 + at * 900
                p = float(self._rng.random())
                unread.append(encode_prediction("m", name, time_ms, p, version=version))
                unread.append(encode_outcome("m", name, time_ms + 40_000, bool(self._rng.random() < p)))
        self._step += 1
        for number in read:
            self._read(number)

    def _read(self, number: int) -> None:
        values, partition = self._unread[number], self._partitions[number]
        first, self._unread[number] = self._offsets[number], []
        self._offsets[number] += len(values)
        records = [LogRecord(first + at, self.now_ms, value) for at, value in enumerate(values)]
        partition.apply(batch_of(records), Decoder(), None)
        self._store.save([partition.checkpoint()])


@pytest.fixture
def log(store: SqlStore) -> Log:
    return Log(store)


def as_of(replica: Replica, at_ms: int, window: str) -> Report:
    return replica.report("m", None, ALL, window, at_ms)


@sqlite_first
def test_what_was_answered_then_is_answered_later_by_any_replica(store: SqlStore, log: Log, clock: ManualClock) -> None:
    replica, shown = Replica(store, "a", clock), Shown()
    edges = []
    for step in range(80):
        # One partition is not read for half an hour; from the 30th step on another replica evaluates.
        log.step([0] if 15 <= step < 38 or 58 <= step < 68 else [0, 1])
        if step == 30:
            replica.leases.leave()
            replica = Replica(store, "b", clock)
        shown |= replica.answer()
        edges.append(replica.panes.watermark_ms("m") - replica.panes.edge_ms("m"))
        clock.advance(STEP_MS / 1000)
    assert max(edges[10:]) > 4 * min(edges[10:])
    assert {report.version for report in shown.values()} == {"1", "2"}
    assert sum(report.n > 0 for report in shown.values()) > 180
    fresh = Replica(store, "c", clock)
    fresh.evaluation.read_closings()
    fresh.snapshots.read()
    settled = {key: report for key, report in shown.items() if (report.to_ms or 0) > 0}
    assert len(settled) > 220
    differ = [key for key, report in settled.items() if as_of(fresh, *key) != report]
    assert differ == []
    # Between two events the newest evaluation was answered.
    times_ms = [at_ms for (at_ms, window), report in settled.items() if window == "10m" and report.predictions]
    for before_ms, after_ms in itertools.pairwise(times_ms):
        assert as_of(fresh, (before_ms + after_ms) // 2, "10m") == settled[before_ms, "10m"]


def test_no_more_moments_are_kept_than_panes_are(store: SqlStore, clock: ManualClock) -> None:
    kept_ms = {MINUTE_MS: 10 * MINUTE_MS, 5 * MINUTE_MS: HOUR_MS}
    evaluations, known = EvaluationStore(store.database), {}
    epochs = evaluations.acquire("a", ["m", "n"])
    count = sa.select(sa.func.count()).select_from(EVALUATED_MOMENTS).where(EVALUATED_MOMENTS.c.model == "m")
    counts = []
    for step in range(1, 301):
        # Held back for a quarter of an hour, up to half an hour before the end.
        at_ms, edge_ms = step * MINUTE_MS, (step - 5) * MINUTE_MS if not 255 < step < 270 else 250 * MINUTE_MS
        known[at_ms] = (edge_ms, str(step // 7))
        new = [
            Evaluation(model, 0, b"", b"", {}, (), {}, EvaluatedMoment(at_ms, *known[at_ms], at_ms)) for model in epochs
        ]
        save(evaluations, "a", epochs, new[: 1 + (step == 1)])
        if step % 25 == 0:
            sweep(store.database, None, HOUR_MS, kept_ms)
            with store.database.reading() as connection:
                counts.append(connection.execute(count).scalar_one())
    assert max(counts) <= 2 * (10 + 12)
    for at_ms, (edge_ms, version) in known.items():
        (before, after), age_ms = evaluations.moments("m", at_ms), 295 * MINUTE_MS - edge_ms
        width_ms = next((width_ms for width_ms, kept in kept_ms.items() if age_ms <= kept), None)
        if width_ms is None:
            assert before is None or 295 * MINUTE_MS - before.edge_ms > HOUR_MS
            continue
        assert before is not None
        assert (before.edge_ms // width_ms, before.version) == (edge_ms // width_ms, version)
        assert after is None or before.watermark_ms <= at_ms <= after.before_to_ms
    assert evaluations.moments("n", 0)[1] == StoredMoment(MINUTE_MS, MINUTE_MS - 1, *known[MINUTE_MS])


@sqlite_first
def test_moments_that_nothing_was_evaluated_at_are_taken_as_if_nothing_had_been_held_back(
    store: SqlStore, log: Log, clock: ManualClock
) -> None:
    for _ in range(70):
        log.step()
    first = Replica(store, "a", clock)
    first.evaluate()
    for _ in range(30):
        log.step()
    first.evaluate()
    wait_ms = POLICY.retention_ms
    for steps in (20, 40, 69, 71, 85):
        at_ms = START_MS + steps * STEP_MS
        report = as_of(first, at_ms, "10m")
        assert report.to_ms is not None
        assert 0 <= at_ms - wait_ms - report.to_ms < 2 * STEP_MS
    # The model's end removes it.
    first.leases.remove(["m"])
    with store.database.reading() as connection:
        assert connection.execute(sa.select(EVALUATED_MOMENTS)).all() == []
