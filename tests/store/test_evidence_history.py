"""The history of evidence depends on the points alone: not on how often and in which parts they were saved."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
import sqlalchemy as sa

from monitor.clock import SystemClock
from monitor.errors import DamagedStore
from monitor.store import evidence_history
from monitor.store.evidence_history import POINT, STEP_MS, Points, Version, compact, thinned
from monitor.store.schema import EVIDENCE_HISTORY, MODELS
from monitor.store.sql import SqlStore

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
SEVEN = ("ch\0urn", "7")


@pytest.fixture
def store(store_url: str) -> Iterator[SqlStore]:
    with SqlStore.open(store_url, clock=SystemClock()) as store:
        yield store


def points(*times_ms: int, value: float = 0.0) -> Points:
    """Points whose evidence follows from their time."""
    made = np.zeros(len(times_ms), POINT)
    made["to_ms"] = times_ms
    made["log10_evidence"][:, 0] = [at // MINUTE_MS % 1000 + value for at in times_ms]
    made["log10_evidence"][:, 1:] = np.nan
    return made


def append(store: SqlStore, of: Mapping[Version, Points]) -> None:
    with store.database.writing() as connection:
        evidence_history.append(connection, of)


def read(store: SqlStore, model: str = SEVEN[0], from_ms: int = 0, to_ms: int = 1 << 50) -> dict[str, list[int]]:
    with store.database.reading() as connection:
        found = evidence_history.read(connection, model, from_ms=from_ms, to_ms=to_ms)
    return {version: of["to_ms"].tolist() for version, of in found.items()}


def peaks(store: SqlStore, *models: str, from_ms: int, to_ms: int) -> dict[Version, list[float | None]]:
    with store.database.reading() as connection:
        found = evidence_history.read_peaks(connection, models or None, from_ms=from_ms, to_ms=to_ms)
    shown = [[None if np.isnan(value) else value for value in of.tolist()] for of in found.above_line]
    return dict(zip(found.versions, shown, strict=True))


@pytest.mark.parametrize("seed", range(5))
def test_points_are_kept_once_in_whatever_parts_they_are_saved(store: SqlStore, seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = (NOON_MS + 10 * MINUTE_MS * rng.integers(1, 400, 60)).tolist()
    left = times
    while left:
        count = int(rng.integers(1, 20))
        append(store, {SEVEN: points(*left[:count]), ("fraud", "1"): points(left[0])})
        left = left[count:]
    assert read(store) == {"7": sorted(set(times))}
    assert read(store, "fraud")["1"]
    # Small parts of the newest day are merged without a trace.
    span = {"from_ms": min(times), "to_ms": max(times)}
    highest = peaks(store, **span)
    newest = points(*range(max(times) + STEP_MS, max(times) + 30 * STEP_MS, STEP_MS))
    for at in range(newest.size):
        append(store, {("ch\0urn", "8"): newest[at : at + 1]})
    assert compact(store.database, retention_ms=90 * DAY_MS) == 0
    assert read(store)["8"] == newest["to_ms"].tolist()
    assert peaks(store, **span)[SEVEN] == highest[SEVEN]
    with store.database.reading() as connection:
        parts = connection.execute(sa.select(sa.func.count()).select_from(EVIDENCE_HISTORY)).scalar_one()
    assert parts < newest.size + 10


def test_of_equal_times_the_last_is_kept(store: SqlStore) -> None:
    append(store, {SEVEN: points(NOON_MS)})
    append(store, {SEVEN: points(NOON_MS, value=0.5)})
    with store.database.reading() as connection:
        found = evidence_history.read(connection, SEVEN[0], from_ms=NOON_MS, to_ms=NOON_MS)
    assert found["7"].tobytes() == points(NOON_MS, value=0.5).tobytes()


def test_a_span_holds_both_of_its_ends_and_no_more(store: SqlStore) -> None:
    midnight = NOON_MS + DAY_MS // 2
    times = [midnight + at * HOUR_MS for at in (-2, -1, 0, 1, 2)]
    append(store, {SEVEN: points(*times), ("fraud", "1"): points(midnight)})
    assert read(store, from_ms=times[1], to_ms=times[3]) == {"7": times[1:4]}
    assert read(store, from_ms=midnight, to_ms=midnight) == {"7": [midnight]}
    assert read(store, "nobody") == {}


def test_of_each_step_the_last_point_stays() -> None:
    times = [NOON_MS + at * MINUTE_MS for at in (0, 10, 60, 61, 120, 130)]
    assert thinned(points(*reversed(times)), HOUR_MS)["to_ms"].tolist() == [times[0], times[2], times[4], times[5]]
    assert thinned(points(), HOUR_MS).size == 0


def test_old_days_are_thinned_out_and_removed_at_last(store: SqlStore) -> None:
    begin_ms = NOON_MS - DAY_MS // 2
    times = [begin_ms + at * STEP_MS for at in range(1, 40 * 144 + 1)]
    append(store, {SEVEN: points(*times), ("fraud", "1"): points(times[0]), ("churn", "1"): points(times[0])})
    store.register([0])
    with store.database.writing() as connection:
        row = {column.name: 0 for column in MODELS.columns} | {"name": "fraud"}
        connection.execute(sa.insert(MODELS).values(row))
    assert compact(store.database, retention_ms=30 * DAY_MS) == 10
    # Another model is as old as its own newest day; one that has ended is as old as the newest day of all.
    assert read(store, "fraud") == {"1": [times[0]]}
    assert read(store, "churn") == {}
    end_ms = begin_ms + 40 * DAY_MS
    ages = {DAY_MS: STEP_MS, 14 * DAY_MS: HOUR_MS, 30 * DAY_MS: 6 * HOUR_MS}
    newest_ms = end_ms - DAY_MS

    def step_of(at: int) -> int | None:
        age_ms = newest_ms - (at - 1) // DAY_MS * DAY_MS
        return next((step for longest, step in ages.items() if age_ms <= longest), None)

    expected = [at for at in times if (step := step_of(at)) is not None and at % step == 0]
    assert read(store) == {"7": expected}
    assert compact(store.database, retention_ms=30 * DAY_MS) == 0
    # A point that comes late is thinned as well.
    append(store, {SEVEN: points(expected[0] + STEP_MS)})
    assert read(store)["7"][:2] == [expected[0], expected[0] + STEP_MS]
    compact(store.database, retention_ms=30 * DAY_MS)
    assert read(store) == {"7": expected}
    # What was thinned out had its peak.
    first_ms = begin_ms + 20 * DAY_MS
    span = {"from_ms": first_ms + 1, "to_ms": first_ms + DAY_MS}
    of_day = points(*[at for at in times if first_ms < at <= first_ms + DAY_MS])
    highest = of_day["log10_evidence"][:, 0].reshape(8, -1).max(axis=1).tolist()
    assert peaks(store, **span) == {SEVEN: highest}


def test_peaks_are_of_the_strongest_detector_and_at_least_0_while_an_alarm_fires(store: SqlStore) -> None:
    made = points(NOON_MS, NOON_MS + 1, NOON_MS + 2, NOON_MS + 3 * HOUR_MS + 1)
    made["log10_line"][:] = 4.0
    made["log10_evidence"][:, 0] = [1.0, 2.5, 2.0, -2.0]
    made["log10_evidence"][1, 2] = 3.5
    made["firing"][3, 0] = True
    append(store, {SEVEN: made[:1], ("fraud", "1"): made[:1]})
    append(store, {SEVEN: made[1:]})
    span = {"from_ms": NOON_MS - 3 * HOUR_MS, "to_ms": NOON_MS + 7 * HOUR_MS}
    assert peaks(store, **span) == {
        SEVEN: [None, -3.0, -0.5, 0.0, None],
        ("fraud", "1"): [None, -3.0, None, None, None],
    }
    assert peaks(store, "fraud", **span).keys() == {("fraud", "1")}
    assert peaks(store, from_ms=0, to_ms=DAY_MS) == {}


def test_damaged_points_are_refused(store: SqlStore) -> None:
    append(store, {SEVEN: points(NOON_MS)})
    with store.database.writing() as connection:
        connection.execute(EVIDENCE_HISTORY.update().values(points=b"\x01nothing"))
    with pytest.raises(DamagedStore, match="cannot be read"):
        read(store)


def test_damaged_peaks_are_refused(store: SqlStore) -> None:
    append(store, {SEVEN: points(NOON_MS)})
    with store.database.writing() as connection:
        connection.execute(EVIDENCE_HISTORY.update().values(peaks=b"\x01nothing"))
    with pytest.raises(DamagedStore, match="restore a backup"):
        peaks(store, from_ms=0, to_ms=10 * NOON_MS)
