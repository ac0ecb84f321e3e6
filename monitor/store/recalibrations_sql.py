"""Refits, maps, what serves and the audit trail, in SQLite or PostgreSQL."""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import sqlalchemy as sa

from monitor.errors import Conflict, CorruptMap, UnknownRecalibration
from monitor.store import audit, overview, refits, servings, slots
from monitor.store import recalibrations_promotion as promotion
from monitor.store.database import Database
from monitor.store.recalibrations import UNDER_WAY, AuditEntry, Champion, Job, JobState, Overview, StoredMap
from monitor.store.schema import RECALIBRATION_MAPS, REFIT_FIGURES, REFITS

_ENDS: Final = (JobState.FAILED, JobState.REJECTED, JobState.CANDIDATE)


class SqlRecalibrations:
    """Refits in an SQL database: a RecalibrationStore. Any number of processes may use one database.

    What is durable changes in few and short transactions, one at a time, so that each sees what those before it left
    and audit entries are numbered in the order in which they became visible.

    Parameters
    ----------
    database
        With the tables of the newest revision, such as ``SqlStore.open(url).database``. Its clock tells when what
        nobody gives a time for took place.
    keep
        Newest maps of each model, of all its versions together, whose artifacts and figures are kept; at least 1.
        Those that serve, and those that a rollback would restore, are kept beyond them.
    """

    def __init__(self, database: Database, keep: int = 20) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, got {keep}")
        self._database = database
        self._keep = keep

    def add_job(self, job: Job, *, idempotency_key: str | None = None, fingerprint: str = "") -> tuple[Job, bool]:
        """Add a queued job; returns it and True, or the one that was made under this key before, and False.

        Raises
        ------
        Conflict
            Another refit of the model is under way (names it), or the key was used for another order (``fingerprint``
            differs).
        """
        model = job.order.model
        with self._changing() as connection:
            if idempotency_key is not None:
                earlier = connection.execute(
                    sa.select(REFITS).where(REFITS.c.idempotency_key == idempotency_key)
                ).one_or_none()
                if earlier is not None:
                    if earlier.fingerprint != fingerprint:
                        raise Conflict(
                            f"the idempotency key was used for another order, which made the refit {earlier.id}:"
                            " use a new key for a new order"
                        )
                    return refits.from_row(earlier), False
            other = refits.under_way(connection, model)
            if other is not None:
                raise Conflict(f"the refit {other} of model {model!r} is under way: wait until it has ended")
            # The index over refits under way refuses a second one too, whoever writes it.
            connection.execute(
                sa.insert(REFITS).values(**refits.to_row(job), idempotency_key=idempotency_key, fingerprint=fingerprint)
            )
            detail = {
                "method": job.order.method,
                "options": job.order.options,
                "window_ms": job.order.window_ms,
                "promote": job.order.promote,
                "trigger": job.order.trigger,
            }
            audit.append(connection, [refits.entry(job, job.requested_ms, job.actor, "requested", detail)])
        return job, True

    def claim_job(self, owner: str, *, now_ms: int, lease_ms: int) -> Job | None:
        """Take the oldest queued job, or one whose owner's lease ran out; it is ``running`` and owned from now on."""
        with self._database.reading() as connection:
            if refits.claimable(connection, now_ms) is None:
                # Nearly always: workers ask every few seconds, and who writes nothing keeps nobody waiting.
                return None
        with self._changing() as connection:
            while (row := refits.claimable(connection, now_ms)) is not None:
                job = refits.from_row(row)
                if job.attempts >= refits.MOST_ATTEMPTS:
                    _give_up(connection, job, now_ms, "nothing was heard of it any more")
                    continue
                claimed = replace(
                    job,
                    state=JobState.RUNNING,
                    started_ms=now_ms,
                    progress=0.0,
                    step="starting",
                    attempts=job.attempts + 1,
                )
                taken = connection.execute(
                    sa.update(REFITS)
                    # Unless its owner, who needs no lock for that, has just lengthened the lease.
                    .where(
                        REFITS.c.id == job.id,
                        REFITS.c.state == row.state,
                        REFITS.c.lease_until_ms.is_not_distinct_from(row.lease_until_ms),
                    )
                    .values(**refits.to_row(claimed), owner=owner, lease_until_ms=now_ms + lease_ms)
                )
                if taken.rowcount:
                    audit.append(
                        connection, [refits.entry(job, now_ms, owner, "started", {"attempt": claimed.attempts})]
                    )
                    return claimed
        return None

    def keep_job(self, job_id: str, owner: str, *, now_ms: int, lease_ms: int, progress: float, step: str) -> bool:
        """Lengthen the lease and note progress; False if the job is not the owner's any more."""
        with self._database.writing() as connection:
            kept = connection.execute(
                sa.update(REFITS)
                .where(REFITS.c.id == job_id, REFITS.c.owner == owner, REFITS.c.state == JobState.RUNNING)
                .values(lease_until_ms=now_ms + lease_ms, progress=progress, step=step)
            )
        return kept.rowcount == 1

    def finish_job(
        self, job: Job, owner: str, artifact: StoredMap | None, figures: Mapping[str, bytes], *, promote: bool
    ) -> Job:
        """Write a job's end, its map and its figures, and promote it if asked: all, or nothing.

        Of ``job``, ``state`` (failed, rejected or candidate), ``reason``, ``comparison``, ``baseline`` and
        ``finished_ms`` are taken. A candidate whose baseline serves no more, or that nobody asked for since the last
        change was a rollback, is not promoted; its ``reason`` says so.
        May be repeated after StoreUnavailable: what took place is not done twice.

        Raises
        ------
        Conflict
            The job is not the owner's any more.
        """
        if job.state not in _ENDS or (artifact is None) != (job.state is JobState.FAILED):
            raise ValueError(f"a refit ends failed without a map, or rejected or candidate with one, got {job.state}")
        with self._changing() as connection:
            row = refits.find(connection, job.id)
            if row.owner == owner and row.state not in UNDER_WAY:
                return refits.from_row(row)
            if row.owner != owner or row.state != JobState.RUNNING:
                raise Conflict(f"the refit {job.id} is another worker's now")
            if artifact is not None:
                connection.execute(sa.insert(RECALIBRATION_MAPS).values(**artifact._asdict()))
            if figures:
                connection.execute(
                    sa.insert(REFIT_FIGURES),
                    [{"refit": job.id, "name": name, "svg": svg} for name, svg in figures.items()],
                )
            now_ms = self._now_ms() if job.finished_ms is None else job.finished_ms
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
                try:
                    promotion.promote_by_itself(connection, ended, now_ms=now_ms)
                except Conflict as refused:
                    refits.update(connection, job.id, reason=f"not promoted: {refused}")
                    detail = {"reason": str(refused)}
                    audit.append(connection, [refits.entry(ended, now_ms, ended.actor, "refused", detail)])
            going = refits.prune(connection, row.model, self._keep, servings.needed(connection, row.model))
            if going:
                audit.append(connection, [refits.entry(ended, now_ms, owner, "pruned", {"maps": going})])
            return refits.from_row(refits.find(connection, job.id))

    def release_job(self, job_id: str, owner: str, *, lost: str | None = None) -> None:
        """Put a running job back into the queue: its worker was lost, or the service ends.

        Without ``lost`` the attempt does not count. With it, in words how the worker was lost, it does, and the last
        of three ends the job as failed. Nothing happens where the job is not the owner's any more.
        """
        with self._changing() as connection:
            row = refits.find(connection, job_id)
            if row.owner != owner or row.state != JobState.RUNNING:
                return
            job, now_ms = refits.from_row(row), self._now_ms()
            if lost is not None and job.attempts >= refits.MOST_ATTEMPTS:
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
        """One job. Raises UnknownRecalibration."""
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
        """Jobs of a model, of several, or of all, the newest first; those older than ``before``.

        Without ``comparisons``, ``comparison`` is None of all. Raises UnknownRecalibration if ``before`` is none.
        """
        with self._database.reading() as connection:
            return refits.page(connection, models, before, limit, comparisons=comparisons)

    def promotable(self, job_ids: Collection[str]) -> set[str]:
        """Those of some jobs that :meth:`promote` would let serve as things stand."""
        with self._database.reading() as connection:
            return promotion.promotable(connection, job_ids)

    def kept(self, job_ids: Collection[str]) -> set[str]:
        """Those of some jobs whose map :meth:`artifact` has. Reads no map."""
        with self._database.reading() as connection:
            found = sa.select(RECALIBRATION_MAPS.c.id).where(RECALIBRATION_MAPS.c.id.in_(job_ids))
            return set(connection.execute(found).scalars())

    def artifact(self, map_id: str) -> StoredMap:
        """One map.

        Raises
        ------
        UnknownRecalibration
            No refit is called that, or it has no map, or it is not kept any more.
        CorruptMap
            Its bytes are not those that were stored.
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
        """One picture, SVG. Raises UnknownRecalibration, naming those that there are."""
        with self._database.reading() as connection:
            svg: bytes | None = connection.execute(
                sa.select(REFIT_FIGURES.c.svg).where(REFIT_FIGURES.c.refit == job_id, REFIT_FIGURES.c.name == name)
            ).scalar_one_or_none()
            if svg is None:
                known = ", ".join(refits.from_row(refits.find(connection, job_id)).figures) or "none"
                raise UnknownRecalibration(f"the refit {job_id} has no figure {name!r}; it has {known}")
        return svg

    def champions(self) -> Sequence[Champion]:
        """What serves, of every model and version that ever had a map."""
        with self._database.reading() as connection:
            return servings.all_now(connection)

    def overview(self) -> Overview:
        """What serves, what could, and how many refits there were. Reads no comparison, and no map."""
        with self._database.reading() as connection:
            return overview.read(connection)

    def promote(self, job_id: str, *, actor: str, now_ms: int, note: str) -> Champion:
        """Let a candidate's map serve.

        Raises
        ------
        UnknownRecalibration
            There is none of that id.
        Conflict
            It is no candidate (says what it is), what it was compared with serves no more, or its map is not kept.
        """
        with self._changing() as connection:
            job = refits.from_row(refits.find(connection, job_id))
            return promotion.promote(connection, job, actor=actor, now_ms=now_ms, note=note)

    def roll_back(self, model: str, version: str, *, actor: str, now_ms: int, note: str) -> Champion:
        """Let serve what served before, back to none. What is not kept any more is passed over.

        Raises
        ------
        Conflict
            Nothing serves that could be taken back.
        """
        with self._changing() as connection:
            serving = servings.now(connection, model, version)
            if serving is None or serving.map_id is None:
                others = ", ".join(
                    repr(each.version) for each in servings.all_now(connection) if each.model == model and each.map_id
                )
                hint = f"; maps serve the versions {others}" if others else ""
                raise Conflict(
                    f"no map serves model {model!r} version {version!r}: there is nothing to roll back{hint}"
                )
            restored, goes_back_to, passed = servings.target_of_rollback(connection, serving)
            champion = servings.serve(
                connection, model, version, restored, since_ms=now_ms, before=serving, goes_back_to=goes_back_to
            )
            refits.update(connection, serving.map_id, state=JobState.ROLLED_BACK)
            if restored is not None:
                refits.update(connection, restored, state=JobState.CHAMPION)
            detail = {"note": note, "restored": restored, "passed_over": passed, "revision": champion.revision}
            entry = AuditEntry(0, now_ms, actor, "rolled_back", model, version, serving.map_id, detail)
            audit.append(connection, [entry])
            return champion

    def audit(self, *, after: int = 0, limit: int = 100, model: str | None = None) -> Sequence[AuditEntry]:
        """Entries with a number greater than ``after``, ascending."""
        with self._database.reading() as connection:
            return audit.page(connection, after, limit, model)

    def add_audit(self, entry: AuditEntry) -> None:
        """Note what needed no other change, such as a refusal. Its ``number`` is given by the store."""
        with self._changing() as connection:
            audit.append(connection, [entry])

    def handled_slot(self, model: str, expression: str, *, now_ms: int) -> int:
        """Time of the last slot of a schedule that was dealt with; ``now_ms`` where the schedule is new or another."""
        with self._database.reading() as connection:
            found_ms = slots.handled_ms(connection, model, expression)
        if found_ms is not None:
            return found_ms
        with self._database.writing() as connection:
            return slots.begin(self._database, connection, model, expression, now_ms)

    def note_slot(self, model: str, expression: str, slot_ms: int) -> None:
        """Note that the slots of a schedule up to this one are dealt with. A later one that is noted stays."""
        with self._database.writing() as connection:
            slots.note(connection, model, expression, slot_ms)

    @contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        """A transaction that sees all that those before it did."""
        with self._database.writing() as connection:
            audit.take_turn(self._database, connection)
            yield connection

    def _now_ms(self) -> int:
        return self._database.clock.now_ms()


def _give_up(connection: sa.Connection, job: Job, now_ms: int, how: str) -> None:
    reason = f"the worker was lost three times; the last time, {how}"
    refits.update(
        connection, job.id, state=JobState.FAILED, reason=reason, finished_ms=now_ms, step="", lease_until_ms=None
    )
    audit.append(
        connection, [refits.entry(job, now_ms, "service", "finished", {"state": JobState.FAILED, "reason": reason})]
    )
