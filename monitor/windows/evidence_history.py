"""The history of evidence: what is saved of each evaluation, and read again as figures over time."""

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.store import evidence_history
from monitor.store.database import Database
from monitor.store.evidence_history import DETECTORS, PEAK_MS, POINT, STEP_MS, Points
from monitor.store.model_evidence import NO_EVIDENCE, ModelEvidence, VersionEvidence
from monitor.windows.history import STEPS_MS

_PLACE: Final = {name: at for at, name in enumerate(DETECTORS)}


def evidence_points(evidence: ModelEvidence, saved: ModelEvidence) -> dict[str, Points]:
    """Version -> a point, of versions that are in another step than what was saved last, or whose alarms changed."""
    return {
        version: _point(found)
        for version, found in evidence.versions.items()
        if (before := saved.versions.get(version)) is None
        or (before.to_ms - 1) // STEP_MS != (found.to_ms - 1) // STEP_MS
        or _firing(before) != _firing(found)
    }


def _firing(evidence: VersionEvidence) -> list[str]:
    return [name for name, level in evidence.levels.items() if level.raised is not None]


def _point(evidence: VersionEvidence) -> Points:
    point = np.zeros(1, POINT)
    point["to_ms"], point["log10_evidence"], point["log10_line"] = evidence.to_ms, np.nan, np.nan
    for name, level in evidence.levels.items():
        at = _PLACE[name]
        if level.log10_evidence > NO_EVIDENCE:
            point["log10_evidence"][0, at] = level.log10_evidence
        point["log10_line"][0, at] = level.log10_line
        point["firing"][0, at] = level.raised is not None
    return point


class EvidenceHistory:
    """Reads the history of evidence of a store. Any thread.

    Parameters
    ----------
    database
        The database of the store.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, model: str, *, from_ms: int, to_ms: int) -> Mapping[str, Points]:
        """Version -> the points of a model in [from, to], ascending.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        with self._database.reading() as connection:
            return evidence_history.read(connection, model, from_ms=from_ms, to_ms=to_ms)

    def read_peaks(
        self, models: Collection[str] | None, step_ms: int, *, from_ms: int, to_ms: int
    ) -> Mapping[tuple[str, str], NDArray[np.float32]]:
        """How far the evidence of each version of these models, or of all, was above its line in each step at most.

        Parameters
        ----------
        step_ms
            A multiple of PEAK_MS. Steps are (k * step, (k + 1) * step], from that of ``from_ms`` to that of ``to_ms``.

        Returns
        -------
        (model, version) -> decimal logarithm of evidence over line, of the strongest detector; at least 0 while an
        alarm fires, and nan where there is no point; shape (steps,).

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        from_ms, to_ms = from_ms - (from_ms - 1) % step_ms, to_ms + -to_ms % step_ms
        with self._database.reading() as connection:
            peaks = evidence_history.read_peaks(connection, models, from_ms=from_ms, to_ms=to_ms)
        shape = len(peaks.versions), (to_ms - from_ms) // step_ms + 1, step_ms // PEAK_MS
        above = np.fmax.reduce(peaks.above_line.reshape(shape), axis=2)
        return dict(zip(peaks.versions, above, strict=True))


def fitting_step(from_ms: int, to_ms: int, max_points: int, least_ms: int = STEP_MS) -> int:
    """The shortest of STEPS_MS of at least so long of which at most so many fit into [from, to]."""
    steps = [step for step in STEPS_MS if step >= least_ms]
    return next((step for step in steps if (to_ms - from_ms) // step + 2 <= max_points), steps[-1])
