"""Refits, maps, champions and the audit trail of recalibration, in SQLite or PostgreSQL."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import sqlalchemy as sa

from monitor.errors import Conflict, CorruptMap, UnknownRecalibration
from monitor.store import alerts, audit, refits, servings
from monitor.store.alert import Resolution
from monitor.store.database import Database
from monitor.store.recalibrations import UNDER_WAY, AuditEntry, Champion, Job, JobState, Overview, StoredMap
from monitor.store.schema import RECALIBRATION_MAPS, REFIT_FIGURES, REFIT_SCHEDULES, REFITS

_ENDS: Final = (JobState.FAILED, JobState.REJECTED, JobState.CANDIDATE)


_REQUESTED: Final = ("method", "options", "window_ms", "since_ms", "promote", "trigger")


class RecalibrationStore:
    """Store refits, maps, champions and audit entries. Any number of threads and processes may use one database.

    Each method is one transaction, with its audit entry. Changes run one after the other, so that audit entries are
    numbered in the order in which they become visible.

    Parameters
    ----------
    database
        With the tables of the newest revision, such as ``SqlStore.open(url).database``.
    keep
        How many of the newest maps of a model (all versions together) are kept with their figures; at least 1. Maps
        that serve, and maps that a rollback would restore, are kept beyond them.
    """

    def __init__(self, database: Database, keep: int = 20) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self._database = database
        self._keep = keep

    def add_job(self, job: Job, *, idempotency_key: str | None = None, fingerprint: str = "") -> tuple[Job, bool]:
        """Add a queued job; return it and True, or the job that was added under this key before and False.

        Raises
        ------
        Conflict
            Another refit of the model is under way, or the key was used with another ``fingerprint``.
        """
        model = job.model
        with audit.changing(self._database) as connection:
            if idempotency_key is not None:
                earlier = connection.execute(
                    refits.select().where(REFITS.c.idempotency_key == idempotency_key)
                ).one_or_none()
                if earlier is not None:
                    if earlier.fingerprint != fingerprint:
                        raise Conflict(
                            f"the idempotency key was used for another request, which made the refit {earlier.id}:"
                            " use a new key for a new request"
                        )
                    return refits.from_row(earlier), False
            other = connection.execute(
                sa.select(REFITS.c.id).where(REFITS.c.model == model, REFITS.c.state.in_(UNDER_WAY))
            ).scalar_one_or_none()
            if other is not None:
                raise Conflict(f"the refit {other} of model {model!r} is under way: wait until it has ended")
            # A unique index over refits under way refuses a second one too.
            connection.execute(
                sa.insert(REFITS).values(**refits.to_row(job), idempotency_key=idempotency_key, fingerprint=fingerprint)
            )
            detail = {name: getattr(job, name) for name in _REQUESTED}
            audit.append(connection, [refits.entry(job, job.requested_ms, job.actor, "requested", detail)])
        return job, True

    def claim_job(self, owner: str, *, lease_ms: int) -> Job | None:
        """Claim the oldest job that is queued or whose lease expired: it is running and belongs to the owner."""
        with self._database.reading() as connection:
            if refits.claimable(connection, self._database.now_ms(connection)) is None:
                # The usual case: without a write transaction, nobody else has to wait.
                return None
        with audit.changing(self._database) as connection:
            now_ms = self._database.now_ms(connection)
            while (row := refits.claimable(connection, now_ms)) is not None:
                job = refits.from_row(row)
                if job.attempts >= refits.MAX_ATTEMPTS:
                    _give_up(connection, job, now_ms, "it did not report any more")
                    continue
                claimed = replace(
                    job,
                    state=JobState.RUNNING,
                    started_ms=now_ms,
                    progress=0.0,
                    step="starting",
                    attempts=job.attempts + 1,
                )
                update = connection.execute(
                    sa.update(REFITS)
                    # Unless its owner has just extended the lease, which takes no lock.
                    .where(
                        REFITS.c.id == job.id,
                        REFITS.c.state == row.state,
                        REFITS.c.lease_until_ms.is_not_distinct_from(row.lease_until_ms),
                    )
                    .values(**refits.to_row(claimed), owner=owner, lease_until_ms=now_ms + lease_ms)
                )
                if update.rowcount:
                    audit.append(
                        connection, [refits.entry(job, now_ms, owner, "started", {"attempt": claimed.attempts})]
                    )
                    return claimed
        return None

    def keep_job(self, job_id: str, owner: str, *, lease_ms: int, progress: float, step: str) -> bool:
        """Extend the lease and store the progress; False if the job does not belong to the owner any more."""
        with self._database.writing() as connection:
            update = connection.execute(
                sa.update(REFITS)
                .where(REFITS.c.id == job_id, REFITS.c.owner == owner, REFITS.c.state == JobState.RUNNING)
                .values(lease_until_ms=self._database.now_ms(connection) + lease_ms, progress=progress, step=step)
            )
        return update.rowcount == 1

    def finish_job(
        self, job: Job, owner: str, artifact: StoredMap | None, figures: Mapping[str, bytes], *, promote: bool
    ) -> Job:
        """Store the end of a job with its map and figures, and promote it if requested, in one transaction.

        Of ``job``, ``state`` (failed, rejected or candidate), ``reason``, ``comparison`` and ``baseline`` are used. If
        the automatic promotion is refused, ``reason`` says why. May be repeated after StoreUnavailable.

        Raises
        ------
        Conflict
            The job does not belong to the owner any more.
        """
        if job.state not in _ENDS or (artifact is None) != (job.state is JobState.FAILED):
            raise ValueError(f"a refit ends failed without a map, or rejected or candidate with one, got {job.state}")
        with audit.changing(self._database) as connection:
            row = refits.find(connection, job.id)
            if row.owner == owner and row.state not in UNDER_WAY:
                return refits.from_row(row)
            if row.owner != owner or row.state != JobState.RUNNING:
                raise Conflict(f"the refit {job.id} belongs to another worker now")
            if artifact is not None:
                connection.execute(sa.insert(RECALIBRATION_MAPS).values(**artifact._asdict()))
            if figures:
                connection.execute(
                    sa.insert(REFIT_FIGURES),
                    [{"refit": job.id, "name": name, "document": document} for name, document in figures.items()],
                )
            now_ms = self._database.now_ms(connection)
            ended = replace(
                refits.from_row(row),
                state=job.state,
                reason=job.reason,
                comparison=job.comparison,
                baseline=job.baseline,
                finished_ms=now_ms,
                progress=1.0,
                step="",
                figures=tuple(figures),
            )
            refits.update(connection, job.id, **refits.to_row(ended), lease_until_ms=None)
            audit.append(
                connection, [refits.entry(ended, now_ms, owner, "finished", {"state": job.state, "reason": job.reason})]
            )
            if promote and job.state is JobState.CANDIDATE:
                ended = refits.from_row(refits.find(connection, job.id))
                try:
                    champion = servings.promote_automatically(connection, ended, now_ms=now_ms)
                    self._resolve_alerts(connection, champion, actor=ended.actor, promoted=ended.id)
                except Conflict as error:
                    refits.update(connection, job.id, reason=f"not promoted: {error}")
                    detail = {"reason": str(error)}
                    audit.append(connection, [refits.entry(ended, now_ms, ended.actor, "refused", detail)])
            removed = refits.prune(connection, row.model, self._keep, servings.needed_maps(connection, row.model))
            if removed:
                audit.append(connection, [refits.entry(ended, now_ms, owner, "pruned", {"maps": removed})])
            return refits.from_row(refits.find(connection, job.id))

    def release_job(self, job_id: str, owner: str, *, lost: str | None = None) -> None:
        """Put a running job back into the queue, if it still belongs to the owner.

        With ``lost``, which says how the worker was lost, the attempt counts, and the last of three ends the job as
        failed. Without it, because the service stops, the attempt does not count.
        """
        with audit.changing(self._database) as connection:
            row = refits.find(connection, job_id)
            if row.owner != owner or row.state != JobState.RUNNING:
                return
            job, now_ms = refits.from_row(row), self._database.now_ms(connection)
            if lost is not None and job.attempts >= refits.MAX_ATTEMPTS:
                _give_up(connection, job, now_ms, lost)
                return
            refits.update(
                connection,
                job_id,
                state=JobState.QUEUED,
                attempts=job.attempts if lost is not None else job.attempts - 1,
                started_ms=None,
                progress=0.0,
                step="",
                owner=None,
                lease_until_ms=None,
            )
            audit.append(
                connection, [refits.entry(job, now_ms, owner, "released", {} if lost is None else {"lost": lost})]
            )

    def job(self, job_id: str) -> Job:
        """Return one job. Raises UnknownRecalibration."""
        with self._database.reading() as connection:
            return refits.from_row(refits.find(connection, job_id))

    def jobs(
        self,
        models: str | Collection[str] | None = None,
        *,
        before: str | None = None,
        limit: int = 100,
        comparisons: bool = True,
    ) -> Sequence[Job]:
        """Return jobs of a model, of several or of all, newest first; only those older than the job ``before``.

        Without ``comparisons``, which are large, ``comparison`` of every job is None.
        """
        statement = refits.select(comparisons=comparisons).order_by(REFITS.c.number.desc()).limit(limit)
        if models is not None:
            statement = statement.where(REFITS.c.model.in_((models,) if isinstance(models, str) else sorted(models)))
        with self._database.reading() as connection:
            if before is not None:
                statement = statement.where(REFITS.c.number < refits.find(connection, before).number)
            return [refits.from_row(row) for row in connection.execute(statement)]

    def artifact(self, map_id: str) -> StoredMap:
        """Return one map.

        Raises
        ------
        UnknownRecalibration
            There is no such refit, it has no map, or the map is not kept any more.
        CorruptMap
            The stored bytes do not have their SHA-256.
        """
        with self._database.reading() as connection:
            columns = [RECALIBRATION_MAPS.c[name] for name in StoredMap._fields]
            row = connection.execute(sa.select(*columns).where(RECALIBRATION_MAPS.c.id == map_id)).one_or_none()
            if row is None:
                job = refits.from_row(refits.find(connection, map_id))
                ended_with_one = job.finished_ms is not None and job.state is not JobState.FAILED
                kept = " any more: only the newest maps of a model are kept" if ended_with_one else ""
                raise UnknownRecalibration(f"the refit {map_id} has no map{kept}")
        stored = StoredMap(*row)
        if hashlib.sha256(stored.artifact).hexdigest() != stored.sha256:
            raise CorruptMap(f"the map {map_id} is damaged in the store: its bytes do not have the hash they had")
        return stored

    def figure(self, job_id: str, name: str) -> bytes:
        """Return the JSON of one figure. Raises UnknownRecalibration, which names the figures of the refit."""
        with self._database.reading() as connection:
            figure = REFIT_FIGURES.c
            document: bytes | None = connection.execute(
                sa.select(figure.document).where(figure.refit == job_id, figure.name == name)
            ).scalar_one_or_none()
            if document is None:
                names = ", ".join(refits.from_row(refits.find(connection, job_id)).figures) or "none"
                raise UnknownRecalibration(f"the refit {job_id} has no figure {name!r}; it has {names}")
        return document

    def servings(self, model: str, version: str) -> Sequence[servings.Serving]:
        """Return what served a version and what serves it, the first first."""
        with self._database.reading() as connection:
            return servings.of_version(connection, model, version)

    def champions(self) -> Sequence[Champion]:
        """Return the champion of every model and version that ever had a map."""
        with self._database.reading() as connection:
            return servings.champions(connection)

    def methods(self, map_ids: Collection[str]) -> Mapping[str, str]:
        """Return the method by which each of these maps was made, by its id."""
        return dict(self._database.rows(sa.select(REFITS.c.id, REFITS.c.method).where(REFITS.c.id.in_(map_ids))))

    def overview(self) -> Overview:
        """Return champions, candidates and counts of refits. Reads no comparison and no map."""
        with self._database.reading() as connection:
            return Overview(
                servings.champions(connection), servings.newest_promotable(connection), refits.tallies(connection)
            )

    def promote(self, job_id: str, *, actor: str, now_ms: int, note: str) -> Champion:
        """Let the map of a candidate serve.

        Raises
        ------
        UnknownRecalibration
            There is no such refit.
        Conflict
            It is no candidate, its baseline does not serve any more, or its map is not kept.
        """
        with audit.changing(self._database) as connection:
            job = refits.from_row(refits.find(connection, job_id))
            champion = servings.promote(connection, job, actor=actor, now_ms=now_ms, note=note)
            self._resolve_alerts(connection, champion, actor=actor, promoted=job_id)
            return champion

    def roll_back(self, model: str, version: str, *, actor: str, now_ms: int, note: str) -> Champion:
        """Let the map serve that served before, or none. Raises Conflict if no map serves."""
        with audit.changing(self._database) as connection:
            champion = servings.roll_back(connection, model, version, actor=actor, now_ms=now_ms, note=note)
            self._resolve_alerts(connection, champion, actor=actor)
            return champion

    def audit(self, *, after: int = 0, limit: int = 100, model: str | None = None) -> Sequence[AuditEntry]:
        """Return entries with a number greater than ``after``, ascending."""
        with self._database.reading() as connection:
            return audit.page(connection, after, limit, model)

    def add_audit(self, entry: AuditEntry) -> None:
        """Append an entry for something that changed nothing else, such as a refusal; the store numbers it."""
        with audit.changing(self._database) as connection:
            audit.append(connection, [entry])

    def handled_slot(self, model: str, expression: str, *, now_ms: int) -> int:
        """Return the last handled slot of a schedule; a schedule that is new or has changed starts at ``now_ms``."""
        schedule = REFIT_SCHEDULES.c
        handled = sa.select(schedule.handled_ms).where(schedule.model == model)
        with self._database.reading() as connection:
            handled_ms: int | None = connection.execute(
                handled.where(schedule.expression == expression)
            ).scalar_one_or_none()
        if handled_ms is None:
            values = {"expression": expression, "handled_ms": now_ms}
            with self._database.writing() as connection:
                # Another replica may have started it in between.
                connection.execute(
                    self._database.insert(REFIT_SCHEDULES)
                    .values(model=model, **values)
                    .on_conflict_do_update(
                        index_elements=["model"], set_=values, where=schedule.expression != expression
                    )
                )
                handled_ms = connection.execute(handled).scalar_one()
        return handled_ms

    def note_slot(self, model: str, expression: str, slot_ms: int) -> None:
        """Mark the slots of a schedule up to this one as handled, unless a later one already is."""
        schedule = REFIT_SCHEDULES.c
        with self._database.writing() as connection:
            connection.execute(
                sa.update(REFIT_SCHEDULES)
                .where(schedule.model == model, schedule.expression == expression, schedule.handled_ms < slot_ms)
                .values(handled_ms=slot_ms)
            )

    def _resolve_alerts(
        self, connection: sa.Connection, champion: Champion, *, actor: str, promoted: str | None = None
    ) -> None:
        """Resolve the alerts of a version: what they were raised for does not serve any more."""
        reason = Resolution.ROLLED_BACK if promoted is None else Resolution.PROMOTED
        alerts.resolve(
            self._database,
            connection,
            [champion.model],
            reason,
            version=champion.version,
            actor=actor,
            note="the map was rolled back" if promoted is None else f"the map {promoted} was promoted",
            now_ms=champion.since_ms,
        )


def _give_up(connection: sa.Connection, job: Job, now_ms: int, how: str) -> None:
    reason = f"the worker was lost three times; the last time, {how}"
    refits.update(
        connection, job.id, state=JobState.FAILED, reason=reason, finished_ms=now_ms, step="", lease_until_ms=None
    )
    audit.append(
        connection, [refits.entry(job, now_ms, "service", "finished", {"state": JobState.FAILED, "reason": reason})]
    )
