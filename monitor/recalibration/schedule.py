"""Request refits by schedule and by verdict.

By schedule, each slot of a model's schedule is handled once, however many replicas run. Slots that passed while no
replica ran, or while another refit of the model was under way, are made up for by one refit.

By verdict, a refit is requested when the shape of the model's current version is miscalibrated: sequential evidence
says so or, where there is none, the verdict of the longest window. Not if

- another refit of the model is under way,
- a candidate waits for its promotion,
- less than a quarter of the longest window has passed since the last refit of the version was requested, or the newest
  event is less than that newer than the events of the last refit, which would be used again.

Both are about what is served: the original predictions if no map serves, otherwise the map's, and the verdict then on
live events (monitor/recalibration/live.py). So a promotion that recalibrates a model ends its refits. By evidence, a
refit uses the events since the change.
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from monitor.clock import Clock
from monitor.errors import Conflict, InputError, StoreUnavailable, UnknownSeries
from monitor.outage_log import LastingProblems
from monitor.recalibration.comparison import Comparison
from monitor.recalibration.plan import last_slot_ms
from monitor.recalibration.service import Recalibrations
from monitor.store.recalibrations import UNDER_WAY, Job, JobState

SCHEDULE: Final = "schedule"
VERDICT: Final = "verdict"

POLL_SECONDS: Final = 5.0
"""How often refits that are due should be requested."""
_LATEST_JOBS: Final = 20

_log = structlog.get_logger(__name__)


class ShapeVerdict(NamedTuple):
    """The verdict on what the current version of a model serves."""

    version: str
    miscalibrated: bool
    """Whether its shape is miscalibrated: a shift of the prior alone triggers no refit."""
    newest_ms: int
    """Time of the newest event that a refit could use, milliseconds since the epoch."""
    since_ms: int | None = None
    """Since when its shape is miscalibrated, as far as evidence says so: a refit uses the events since then."""


class Scheduler:
    """Requests the refits of all schedules and verdicts, each time that one thread calls ``request_due``.

    Parameters
    ----------
    service
        Where refits are requested, and earlier ones and plans are read.
    models
        Returns the names of all models.
    finding
        Model -> verdict on what is served, or None.
    cool_down_ms
        Minimum time between two refits by verdict.
    clock
        The clock.
    """

    def __init__(
        self,
        service: Recalibrations,
        *,
        models: Callable[[], Collection[str]],
        finding: Callable[[str], ShapeVerdict | None],
        cool_down_ms: int,
        clock: Clock,
    ) -> None:
        self._service = service
        self._store = service.store
        self._models = models
        self._finding = finding
        self._cool_down_ms = cool_down_ms
        self._clock = clock
        self._problems = LastingProblems()
        """Problems by (model, trigger)."""
        self._cool_from_ms: dict[tuple[str, str], int] = {}
        """(model, version) -> time before which a verdict is ignored, without a query of the store."""
        self._handled_ms: dict[str, int] = {}
        """Model -> last slot known to be handled, without a query of the store."""

    def request_due(self) -> None:
        """Request all refits that are due now."""
        for model in sorted(self._models()):
            plan = self._service.plan(model)
            if plan.cron is not None:
                self._guarded(model, SCHEDULE, partial(self._by_schedule, model, plan.cron))
            if plan.on_verdict:
                self._guarded(model, VERDICT, partial(self._by_verdict, model))

    def _guarded(self, model: str, trigger: str, request: Callable[[], None]) -> None:
        """Log a problem of one model and go on with the next; the next round tries again."""
        try:
            request()
        except (Conflict, UnknownSeries, StoreUnavailable) as error:
            self._log_problem(model, trigger, _log.info, "a refit has to wait", str(error))
        except InputError as error:
            self._log_problem(model, trigger, _log.error, "a refit cannot be requested", str(error))
        except Exception as error:  # noqa: BLE001 - other models' refits go on
            self._log_problem(model, trigger, _log.exception, "a refit could not be requested", repr(error))
        else:
            self._problems.over((model, trigger))

    def _log_problem(self, model: str, trigger: str, write: Callable[..., Any], event: str, detail: str) -> None:
        """Log a problem once, not every few seconds."""
        if self._problems.is_new(detail, (model, trigger)):
            write(event, model=model, trigger=trigger, detail=detail)

    def _by_schedule(self, model: str, schedule: str) -> None:
        now_ms = self._clock.now_ms()
        slot_ms = last_slot_ms(schedule, now_ms)
        if self._handled_ms.get(model, -1) >= slot_ms:
            return
        self._handled_ms[model] = self._store.handled_slot(model, schedule, now_ms=now_ms)
        if self._handled_ms[model] >= slot_ms:
            return
        job, is_new = self._service.request_once(
            self._service.make_request(model, trigger=SCHEDULE), actor=SCHEDULE, occasion=str(slot_ms)
        )
        self._store.note_slot(model, schedule, slot_ms)
        if is_new:
            _log.info("refit by schedule", model=model, refit=job.id)

    def _by_verdict(self, model: str) -> None:
        finding = self._finding(model)
        if finding is None or not finding.miscalibrated:
            return
        if self._clock.now_ms() < self._cool_from_ms.get((model, finding.version), 0):
            return
        jobs = self._store.jobs(model, limit=_LATEST_JOBS, comparisons=False)
        if any(job.state in UNDER_WAY for job in jobs):
            return
        of_version = [job for job in jobs if job.version == finding.version]
        serving = self._service.serving.champion(model, finding.version).map_id
        if any(job.state is JobState.CANDIDATE and job.baseline == serving for job in of_version):
            return
        last = of_version[0] if of_version else None
        if last is not None and not self._is_cool(last, finding):
            return
        job, is_new = self._service.request_once(
            self._service.make_request(model, finding.version, trigger=VERDICT, since_ms=finding.since_ms),
            actor=VERDICT,
            # Only one refit can follow the last one, whichever replica requests it.
            occasion=f"{finding.version} after {'none' if last is None else last.id}",
        )
        if is_new:
            _log.info("refit by verdict", model=model, version=finding.version, refit=job.id)

    def _is_cool(self, last: Job, finding: ShapeVerdict) -> bool:
        """Whether enough time has passed, and enough new events arrived, since the last refit."""
        cool_from_ms = last.requested_ms + self._cool_down_ms
        if self._clock.now_ms() < cool_from_ms:
            self._cool_from_ms[last.model, finding.version] = cool_from_ms
            return False
        document = self._store.job(last.id).comparison
        used_until_ms = None if document is None else Comparison.of(document).used_until_ms
        return used_until_ms is None or finding.newest_ms - used_until_ms >= self._cool_down_ms
