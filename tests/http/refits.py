"""Refits in a real store, with a worker that ends them as a test says."""

import atexit
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from monitor.clock import ManualClock, SystemClock
from monitor.errors import UnknownSeries
from monitor.http.recalibration_schemas import RefitBody
from monitor.maps import RecalibrationMap
from monitor.maps.artifact import to_bytes
from monitor.maps.identity import Identity
from monitor.recalibration.comparison import LiveComparison
from monitor.recalibration.plan import RefitPlan
from monitor.recalibration.service import Recalibrations
from monitor.recalibration.serving import ServingMaps
from monitor.reports.page import reliability
from monitor.scores import ScoreTable
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Job, JobState
from monitor.store.schema import RECALIBRATION_MAPS
from monitor.store.sql import SqlStore
from tests.snapshots import NOW_MS
from tests.store.refits import stored_map

COMPARISON: Final[dict[str, Any]] = RefitBody.example()["comparison"]
FIGURE: Final = msgspec.json.encode(
    reliability("Later events, before and after", [("no map", ScoreTable.from_events([0.2, 0.7], [0, 1]))])[0]
)
VERSIONS: Final = {"churn": ["7", "8"], "org/model": ["1"]}
"""Of models that are known; the last is the current one."""

_LEASE_MS: Final = 60_000


class Refits(Recalibrations):
    """The lifecycle on a SQLite file of a folder."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(NOW_MS)
        shutil.copy(_new_store(), folder / "state.db")
        self.database = SqlStore.open(f"sqlite:///{folder / 'state.db'}", clock=self.clock)
        self.kept = RecalibrationStore(self.database.database)
        self.measured: LiveComparison | None = None
        super().__init__(
            self.kept,
            versions=version_of,
            plan=lambda _: RefitPlan(schedule="0 3 * * *", on_verdict=True),
            # What was just changed is seen by the next request, however slow the machine is.
            serving=ServingMaps(self.kept, clock=self.clock),
            live=lambda *_: self.measured,
            wake=lambda: None,
            clock=self.clock,
        )

    def end(
        self, job_id: str, state: JobState = JobState.CANDIDATE, chosen: RecalibrationMap | None = None, **told: Any
    ) -> Job:
        """Do what a worker does with the refit that is queued."""
        self.clock.advance(1.0)
        claimed = self.kept.claim_job("worker", lease_ms=_LEASE_MS)
        assert claimed is not None
        assert claimed.id == job_id
        baseline = self.serving.champion(claimed.model, claimed.version).map_id
        ended = replace(claimed, state=state, progress=1.0, baseline=baseline, **told)
        if state is JobState.FAILED:
            return self.kept.finish_job(ended, "worker", None, {}, promote=False)
        about = {"id": job_id, "model": claimed.model, "version": claimed.version}
        artifact = stored_map(job_id, to_bytes(chosen or Identity(), about))
        ended = replace(ended, comparison=told.get("comparison", COMPARISON))
        return self.kept.finish_job(ended, "worker", artifact, {"reliability": FIGURE}, promote=False)

    def damage(self, map_id: str) -> None:
        """Let the bytes of a map rot."""
        with self.database.database.writing() as connection:
            # The database itself refuses to change a map.
            connection.execute(sa.delete(RECALIBRATION_MAPS).where(RECALIBRATION_MAPS.c.id == map_id))
            connection.execute(sa.insert(RECALIBRATION_MAPS).values(id=map_id, artifact=b"garbage", sha256="0" * 64))

    def close(self) -> None:
        self.database.close()


def version_of(model: str, version: str | None) -> str:
    """As the service finds it."""
    if model not in VERSIONS:
        raise UnknownSeries(f"no model {model!r}; models are {', '.join(map(repr, VERSIONS))}")
    if version is not None and version not in VERSIONS[model]:
        raise UnknownSeries(f"no version {version!r} of model {model!r}")
    return version or VERSIONS[model][-1]


def of_this_process() -> Refits:
    """Refits in a folder that goes when the process ends."""
    made = Refits(_folder())
    atexit.register(made.close)
    return made


@cache
def nobodys() -> Refits:
    """Refits of a store in which there are none, for whoever asks for other things."""
    return of_this_process()


@cache
def _new_store() -> Path:
    """A store in which there is nothing, to be copied: to make one takes longer than most tests."""
    file = _folder() / "new.db"
    SqlStore.open(f"sqlite:///{file}", clock=SystemClock()).close()
    return file


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="monitor-refits-"))
    atexit.register(shutil.rmtree, folder)
    return folder
