"""The history of evidence: how much there was on each version, up to which settled time; one row per version and day.

A point is keyed by the time up to which predictions were settled, so one that is saved twice is one point. Old days are
thinned out. Age is counted behind the newest day of the model, in the time of its predictions. Beside its points a row
has the peaks of the day, which a request about the whole fleet reads instead of them.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from monitor.errors import DamagedStore
from monitor.store.database import Database, chunks
from monitor.store.history import DAY_MS, HOUR_MS, MINUTE_MS, day_of, newest_days
from monitor.store.schema import EVIDENCE_HISTORY as HISTORY

DETECTORS: Final = ("calibration", "prevalence", "change", "serving_map", "calibration_even", "calibration_odd")
"""In the order of a point's columns, which is stored: append new ones, with a migration."""

POINT: Final = np.dtype(
    [
        ("to_ms", "<i8"),
        ("log10_evidence", "<f4", len(DETECTORS)),
        ("log10_line", "<f4", len(DETECTORS)),
        ("firing", "?", len(DETECTORS)),
    ]
)
"""Predictions before ``to_ms`` were in it. nan: the detector had no evidence, or there was none on the version."""

STEP_MS: Final = 10 * MINUTE_MS
"""The shortest time between two points."""
PEAK_MS: Final = 3 * HOUR_MS
"""Peaks are of the steps (k * PEAK_MS, (k + 1) * PEAK_MS]."""
_PEAKS: Final = DAY_MS // PEAK_MS

_LEVELS: Final = ((DAY_MS, STEP_MS), (14 * DAY_MS, HOUR_MS))
"""Age up to which days keep a point per step."""
_OLDEST_STEP_MS: Final = 6 * HOUR_MS

Points = NDArray[Any]
"""Of the type POINT, shape (n,)."""
NO_POINTS: Final[Points] = np.zeros(0, POINT)
Version = tuple[str, str]
"""Model and version."""


class Peaks(NamedTuple):
    """How far evidence was above its line at most, in steps of PEAK_MS."""

    versions: Sequence[Version]
    above_line: NDArray[np.float32]
    """Decimal logarithm of evidence over line, of the strongest detector; at least 0 while an alarm fires, and nan
    where there is no point; shape (versions, steps)."""


def thinned(points: Points, step_ms: int) -> Points:
    """The last point of each step (k * step, (k + 1) * step], ascending; of equal times the last one."""
    points = points[np.argsort(points["to_ms"], kind="stable")]
    step = (points["to_ms"] - 1) // step_ms
    last: Points = points[np.append(step[1:] != step[:-1], np.ones(min(step.size, 1), np.bool_))]
    return last


def append(connection: sa.Connection, database: Database, points: Mapping[Version, Points]) -> None:
    """Save points, within a transaction that holds the leases of their models. Saving them again changes nothing."""
    added: dict[tuple[str, str, int], Points] = {}
    for (model, version), of_version in points.items():
        day_ms = day_of(of_version["to_ms"])
        for day in np.unique(day_ms).tolist():
            added[model, version, day] = of_version[day_ms == day]
    if not added:
        return
    of, models = HISTORY.c, sorted({model for model, _, _ in added})
    stored: dict[tuple[str, str, int], tuple[Points, NDArray[np.float32]]] = {}
    for some in chunks(models):
        days = sorted({day for _, _, day in added})
        rows = connection.execute(
            sa.select(of.model, of.version, of.day_ms, of.points, of.peaks)
            .where(of.model.in_(some), of.day_ms.in_(days))
            .order_by(of.model, of.version, of.day_ms)
            .with_for_update()
        )
        stored |= {(row.model, row.version, row.day_ms): (_read(row.points), _read_peaks(row.peaks)) for row in rows}
    values = []
    for key, new in added.items():
        model, version, day = key
        before, peaks_before = stored.get(key, (NO_POINTS, _peaks(NO_POINTS)))
        points_now, peaks_now = thinned(np.concatenate([before, new]), 1), np.fmax(peaks_before, _peaks(new))
        row = {"points": points_now.tobytes(), "peaks": peaks_now.tobytes()}
        values.append({"model": model, "version": version, "day_ms": day, "step_ms": 0, **row})
    # With RETURNING the rows are in one statement, which does not outlive the lease.
    connection.execute(database.upsert(HISTORY).returning(HISTORY.c.day_ms), values)


def read(connection: sa.Connection, model: str, *, from_ms: int, to_ms: int) -> dict[str, Points]:
    """Version -> the points of a model in [from, to], ascending.

    Raises
    ------
    DamagedStore
        They cannot be read.
    """
    of = HISTORY.c
    rows = connection.execute(
        sa.select(of.version, of.points)
        # A point at the very start of a day is of the day before.
        .where(of.model == model, of.day_ms > from_ms - 1 - DAY_MS, of.day_ms < to_ms)
        .order_by(of.version, of.day_ms)
    )
    days: dict[str, list[Points]] = {}
    for row in rows:
        days.setdefault(row.version, []).append(_read(row.points))
    result = {}
    for version, parts in days.items():
        points = np.concatenate(parts)
        result[version] = points[(points["to_ms"] >= from_ms) & (points["to_ms"] <= to_ms)]
    return result


def read_peaks(connection: sa.Connection, models: Collection[str] | None = None, *, from_ms: int, to_ms: int) -> Peaks:
    """The peaks of all versions of these models, or of all, in the steps from that of ``from_ms`` to that of ``to_ms``.

    Raises
    ------
    DamagedStore
        They cannot be read.
    """
    of = HISTORY.c
    statement = sa.select(of.model, of.version, of.day_ms, of.peaks)
    statement = statement.where(of.day_ms > from_ms - 1 - DAY_MS, of.day_ms < to_ms)
    if models is not None:
        statement = statement.where(of.model.in_(models))
    rows = connection.execute(statement).all()
    first_day, last_day = (from_ms - 1) // DAY_MS, (to_ms - 1) // DAY_MS
    place: dict[Version, int] = {}
    version = [place.setdefault((row[0], row[1]), len(place)) for row in rows]
    day = np.array([row[2] for row in rows], np.int64) // DAY_MS - first_day
    days = last_day - first_day + 1
    above = np.full((len(place), days, _PEAKS), np.nan, np.float32)
    above[version, day] = _read_peaks(b"".join([row[3] for row in rows])).reshape(-1, _PEAKS)
    steps = slice((from_ms - 1) // PEAK_MS - first_day * _PEAKS, (to_ms - 1) // PEAK_MS - first_day * _PEAKS + 1)
    return Peaks(list(place), above.reshape(len(place), days * _PEAKS)[:, steps])


def compact(database: Database, retention_ms: int) -> int:
    """Thin old days out, and remove those older than the retention; returns how many were removed.

    Several processes may do so at once.

    Raises
    ------
    StoreUnavailable
        The database does not answer.
    DamagedStore
        Points cannot be read.
    """
    of = HISTORY.c
    newest = newest_days(HISTORY)
    age_ms = newest.c.newest_ms - of.day_ms
    wanted_ms = sa.case(*((age_ms <= longest_ms, step_ms) for longest_ms, step_ms in _LEVELS), else_=_OLDEST_STEP_MS)
    work = (
        sa.select(of.model, of.version, of.day_ms, age_ms.label("age_ms"), wanted_ms.label("wanted_ms"))
        .join_from(HISTORY, newest, of.model == newest.c.model)
        .where((age_ms > retention_ms) | ((age_ms > 0) & (of.step_ms < wanted_ms)))
        .order_by(of.model, of.version, of.day_ms)
    )
    with database.reading() as connection:
        rows = connection.execute(work).all()
    removed = 0
    for row in rows:
        is_row = (of.model == row.model, of.version == row.version, of.day_ms == row.day_ms)
        with database.writing() as connection:
            if row.age_ms > retention_ms:
                removed += connection.execute(sa.delete(HISTORY).where(*is_row)).rowcount
                continue
            # Locked, as a late point may be added to it.
            stored = connection.execute(sa.select(of.points).where(*is_row).with_for_update()).scalar_one_or_none()
            if stored is not None:
                points = thinned(_read(stored), row.wanted_ms).tobytes()
                connection.execute(sa.update(HISTORY).where(*is_row).values(points=points, step_ms=row.wanted_ms))
    return removed


def _peaks(points: Points) -> NDArray[np.float32]:
    """The peaks of points of one day."""
    above = np.fmax.reduce(points["log10_evidence"] - points["log10_line"], axis=1)
    above = np.where(points["firing"].any(axis=1), np.fmax(above, 0.0), above)
    peaks = np.full(_PEAKS, np.nan, np.float32)
    np.fmax.at(peaks, (points["to_ms"] - 1) % DAY_MS // PEAK_MS, above)
    return peaks


def _read(data: bytes) -> Points:
    _check(data, POINT.itemsize)
    return np.frombuffer(data, POINT)


def _read_peaks(data: bytes) -> NDArray[np.float32]:
    _check(data, 4 * _PEAKS)
    return np.frombuffer(data, "<f4")


def _check(data: bytes, size: int) -> None:
    if len(data) % size:
        raise DamagedStore(f"the history of evidence cannot be read ({len(data)} bytes); restore a backup of the store")
