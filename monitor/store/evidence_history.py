"""The history of evidence: how much there was on each version, up to which settled time.

Beside its points a row has the peaks of the day, which a request about the whole fleet reads instead of them.
"""

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from monitor.store.schema import EVIDENCE_HISTORY as HISTORY
from monitor.store.series import DAY_MS, HOUR_MS, MINUTE_MS, Columns, SeriesStore, decode_peaks

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

_MAX_PARTS: Final = 12
"""A request about the fleet reads the peaks of each part of the newest day."""

Points = NDArray[Any]
"""Points of the type POINT, shape (n,)."""
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


def append(connection: sa.Connection, points: Mapping[Version, Points]) -> None:
    """Save points. Saving them again changes nothing."""
    _STORE.append(connection, {version: _columns(of_version) for version, of_version in points.items()})


def read(connection: sa.Connection, model: str, *, from_ms: int, to_ms: int) -> dict[str, Points]:
    """Version -> the points of a model in [from, to], ascending.

    Raises
    ------
    DamagedStore, IncompatibleStore
        They cannot be read.
    """
    points = _STORE.read(connection, {"model": model}, from_ms, to_ms)
    return {version: _points(of_version) for (_, version), of_version in sorted(points.items(), key=itemgetter(0))}


def read_peaks(connection: sa.Connection, models: Collection[str] | None = None, *, from_ms: int, to_ms: int) -> Peaks:
    """The peaks of all versions of these models, or of all, in the steps that hold [from, to]."""
    of = HISTORY.c
    statement = _STORE.between(sa.select(of.model, of.version, of.day_ms, of.peaks), from_ms, to_ms)
    if models is not None:
        statement = statement.where(of.model.in_(models))
    rows = connection.execute(statement).all()
    first_day, last_day = (from_ms - 1) // DAY_MS, (to_ms - 1) // DAY_MS
    place: dict[Version, int] = {}
    version = np.array([place.setdefault((row[0], row[1]), len(place)) for row in rows], np.int64)
    day = np.array([row[2] for row in rows], np.int64) // DAY_MS - first_day
    days = last_day - first_day + 1
    above = np.full((len(place), days, _PEAKS), np.nan, np.float32)
    np.fmax.at(above, (version, day), decode_peaks([row[3] for row in rows], _PEAKS))
    steps = slice((from_ms - 1) // PEAK_MS - first_day * _PEAKS, (to_ms - 1) // PEAK_MS - first_day * _PEAKS + 1)
    return Peaks(list(place), above.reshape(len(place), days * _PEAKS)[:, steps])


def _peaks(columns: Columns) -> NDArray[np.float32]:
    """The peaks of points of one day."""
    above = np.fmax.reduce(columns["log10_evidence"] - columns["log10_line"], axis=1)
    above = np.where(columns["firing"].any(axis=1), np.fmax(above, 0.0), above)
    peaks = np.full(_PEAKS, np.nan, np.float32)
    np.fmax.at(peaks, (columns["to_ms"] - 1) % DAY_MS // PEAK_MS, above)
    return peaks


def _columns(points: Points) -> Columns:
    return {name: points[name] for name in POINT.names or ()}


def _points(columns: Columns) -> Points:
    points = np.zeros(columns["to_ms"].size, POINT)
    for name, column in columns.items():
        points[name] = column
    return points


_STORE: Final = SeriesStore(
    HISTORY,
    _columns(NO_POINTS),
    lambda columns, step_ms: _columns(thinned(_points(columns), step_ms)),
    ((0, 1), (DAY_MS, STEP_MS), (14 * DAY_MS, HOUR_MS)),
    max_parts=_MAX_PARTS,
    peaks=_peaks,
)
compact: Final = _STORE.compact
