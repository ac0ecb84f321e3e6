"""Refits that nobody asks for in person: by the clock, and by a verdict.

By the clock, a slot of a model's schedule is dealt with once, however many replicas run. Slots that passed while no
replica ran, or while another refit of the model did, are made up for by one refit.

By a verdict, a refit is asked for when the model's current version is found to be miscalibrated in its shape, unless

- another refit of the model is under way,
- a candidate waits for its promotion,
- less than a quarter of the longest window has passed since the last refit of the version was asked for, or the newest
  event is less than that newer than the events of the last refit: it would be made of the same events again.

The verdict is of what is served: of the predictions as the model makes them as long as no map serves, and else of what
the map makes of live events (monitor/recalibration/live.py). So a promotion that repairs a model ends its refits.
"""

import threading
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final, NamedTuple

import structlog

from monitor.clock import Clock, SystemClock
from monitor.errors import Conflict, InputError, StoreUnavailable, UnknownSeries
from monitor.recalibration.plan import RefitPlan, last_slot_ms
from monitor.recalibration.service import Recalibrations
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import UNDER_WAY, Job, JobState

SCHEDULE: Final = "schedule"
VERDICT: Final = "verdict"

_LOOK_SECONDS: Final = 5.0
_LATEST_JOBS: Final = 20

_log = structlog.get_logger(__name__)


class Finding(NamedTuple):
    """What is found about what a model's current version serves."""

    version: str
    miscalibrated: bool
    """Whether its shape is: a shift of the prior alone asks for no refit."""
    newest_ms: int
    """Time of the newest event that a refit could be made of, milliseconds since the epoch."""


class Scheduler:
    """Asks for the refits of all schedules and verdicts. One thread runs it: ``run``, ``stop``.

    Parameters
    ----------
    lifecycle, store
        Where refits are asked for, and what is known of those before.
    models
        Names of the models that are known now.
    plan
        Model -> what its settings say of refits.
    finding
        Model -> what is found about what is served, or None where there is nothing to say.
    cool_down_ms
        Between two refits by verdict: a quarter of the longest window.
    clock
        The one clock.
    """

    def __init__(
        self,
        lifecycle: Recalibrations,
        store: RecalibrationStore,
        *,
        models: Callable[[], Collection[str]],
        plan: Callable[[str], RefitPlan],
        finding: Callable[[str], Finding | None],
        cool_down_ms: int,
        clock: Clock | None = None,
    ) -> None:
        self._lifecycle = lifecycle
        self._store = store
        self._models = models
        self._plan = plan
        self._finding = finding
        self._cool_down_ms = cool_down_ms
        self._clock = clock or SystemClock()
        self._stopping = threading.Event()
        self._said: dict[tuple[str, str], str] = {}
        """(model, trigger) -> what was last said to be in the way, so that it is said once."""
        self._cool_from_ms: dict[tuple[str, str], int] = {}
        """(model, version) -> before when a verdict asks for nothing, so that the store is not asked in between."""
        self._handled_ms: dict[str, int] = {}
        """Model -> until when its slots are known to be dealt with, so that the store is not asked in between."""

    def run(self) -> None:
        """Look every few seconds until :meth:`stop`."""
        while not self._stopping.is_set():
            self.look()
            self._stopping.wait(_LOOK_SECONDS)

    def stop(self) -> None:
        """Let :meth:`run` return. Any thread."""
        self._stopping.set()

    def look(self) -> None:
        """Ask for all refits that are due now."""
        for model in sorted(self._models()):
            plan = self._plan(model)
            if plan.schedule is not None:
                self._guarded(model, SCHEDULE, lambda: self._by_clock(model, plan))  # noqa: B023 - called at once
            if plan.on_verdict:
                self._guarded(model, VERDICT, lambda: self._by_verdict(model))  # noqa: B023

    def _guarded(self, model: str, trigger: str, ask: Callable[[], None]) -> None:
        """One model's trouble is not the next one's; what is in the way now is looked at again."""
        try:
            ask()
        except (Conflict, UnknownSeries, StoreUnavailable) as error:
            self._say(model, trigger, _log.info, "a refit has to wait", str(error))
        except InputError as error:
            self._say(model, trigger, _log.error, "a refit cannot be asked for", str(error))
        except Exception as error:  # noqa: BLE001 - other models' refits go on; the log says what happened
            self._say(model, trigger, _log.exception, "a refit could not be asked for", repr(error))
        else:
            self._said.pop((model, trigger), None)

    def _say(self, model: str, trigger: str, write: Callable[..., Any], event: str, detail: str) -> None:
        """Once, and not every few seconds."""
        if self._said.get((model, trigger)) != detail:
            self._said[model, trigger] = detail
            write(event, model=model, trigger=trigger, detail=detail)

    def _by_clock(self, model: str, plan: RefitPlan) -> None:
        if plan.schedule is None:
            return
        now_ms = self._clock.now_ms()
        slot_ms = last_slot_ms(plan.schedule, now_ms)
        if self._handled_ms.get(model, -1) >= slot_ms:
            return
        self._handled_ms[model] = self._store.handled_slot(model, plan.schedule, now_ms=now_ms)
        if self._handled_ms[model] >= slot_ms:
            return
        job, made = self._lifecycle.request_once(
            self._lifecycle.order(model, trigger=SCHEDULE), actor=SCHEDULE, occasion=str(slot_ms)
        )
        self._store.note_slot(model, plan.schedule, slot_ms)
        if made:
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
        of_version = [job for job in jobs if job.order.version == finding.version]
        serving = self._lifecycle.champion(model, finding.version).map_id
        if any(job.state is JobState.CANDIDATE and job.baseline == serving for job in of_version):
            return
        last = of_version[0] if of_version else None
        if last is not None and not self._is_cool(last, finding):
            return
        job, made = self._lifecycle.request_once(
            self._lifecycle.order(model, finding.version, trigger=VERDICT),
            actor=VERDICT,
            # One refit can be the next to the last one, whichever replica asks for it.
            occasion=f"{finding.version} after {'none' if last is None else last.id}",
        )
        if made:
            _log.info("refit by verdict", model=model, version=finding.version, refit=job.id)

    def _is_cool(self, last: Job, finding: Finding) -> bool:
        """Whether there can be news since the last refit."""
        cool_from_ms = last.requested_ms + self._cool_down_ms
        if self._clock.now_ms() < cool_from_ms:
            self._cool_from_ms[last.order.model, finding.version] = cool_from_ms
            return False
        until_ms = _events_until_ms(self._store.job(last.id).comparison)
        return until_ms is None or finding.newest_ms - until_ms >= self._cool_down_ms


def _events_until_ms(comparison: Any) -> int | None:
    """Time of the newest event of a comparison; None where there is no comparison."""
    if comparison is None:
        return None
    return round(datetime.fromisoformat(comparison["held_out"]["to"]).timestamp() * 1000)
