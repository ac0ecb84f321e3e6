"""Replicas, the leases of models, and the latest evaluation of each model, in SQLite or PostgreSQL.

An evaluation, what it adds to the history, the evidence on the model and what becomes of its alerts are saved
in one transaction, under the lease: see :meth:`EvaluationStore.saving`.

A model is evaluated by the replica that has its lease. A lease ends unless it is renewed, and every new one has a
higher epoch: what a replica saves under an earlier one is refused. Times are those of the database.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from monitor.events.model import SeriesKey
from monitor.store import alerts, evidence, evidence_history, history
from monitor.store.alert import Resolution
from monitor.store.database import Database, chunks
from monitor.store.evidence import StoredEvidence
from monitor.store.evidence_history import Points as EvidencePoints
from monitor.store.history import Points
from monitor.store.schema import EVALUATED_MOMENTS, EVALUATED_REPORTS, EVALUATIONS, REPLICAS

LEASE_MS: Final = 9_000
"""Duration of a lease, and how long a replica counts as live after it was last seen."""

_FORGOTTEN_MS: Final = 3_600_000
"""Replicas that were not seen for so long are removed."""
_FREE: Final = {"owner": "", "until_ms": 0}


class Replica(NamedTuple):
    """A process that shares the store."""

    id: str
    started_ms: int
    seen_ms: int
    roles: tuple[str, ...]


class Beat(NamedTuple):
    """What a heartbeat found."""

    replicas: Sequence[Replica]
    """The live ones, by id."""
    epochs: Mapping[str, int]
    """Model -> epoch of its lease, of the leases that were renewed: all that the replica has."""
    expired: Sequence[str]
    """Models without a lease."""


class EvaluatedMoment(NamedTuple):
    """The moment of an evaluation of a model."""

    watermark_ms: int
    edge_ms: int
    version: str
    """The current one."""
    since_ms: int
    """Wall-clock time of the first evaluation at this watermark."""


NO_MOMENT: Final = EvaluatedMoment(-1, -1, "", 0)
"""Moment of a model before its first evaluation."""


class Held(NamedTuple):
    """What is stored of a model whose lease is held, when a transaction begins."""

    number: int
    """Number of the stored evaluation; 0 if there is none."""
    moment: EvaluatedMoment


class StoredMoment(NamedTuple):
    """The first of successive evaluations of a model with one settled edge and current version."""

    watermark_ms: int
    before_to_ms: int
    """Up to this watermark the evaluation before it was shown: its own, and as far beyond as time passed since."""
    edge_ms: int
    version: str


class Evaluation(NamedTuple):
    """The latest evaluation of a model."""

    model: str
    evaluated_ms: int
    summary: bytes
    reports: bytes | None
    """None where they are the same as those that are stored."""
    points: Mapping[SeriesKey, Points] = MappingProxyType({})
    """Series -> what is added to its history."""
    evidence: Sequence[StoredEvidence] = ()
    """What the detectors of its versions continue from, of those where that changed."""
    evidence_points: Mapping[str, EvidencePoints] = MappingProxyType({})
    """Version -> what is added to the history of its evidence."""
    moment: EvaluatedMoment = NO_MOMENT


class EvaluationState(NamedTuple):
    """The lease of a model, and which evaluation of it is stored."""

    owner: str
    """Id of a replica; of the last one where the lease has expired, and empty where it was released."""
    epoch: int
    number: int
    """Number of the stored evaluation; 0 if there is none."""
    evaluated_ms: int


class EvaluationStore:
    """Heartbeats, leases and evaluations. Any number of threads and processes may use one database.

    Each method is one transaction, and raises StoreUnavailable where the database does not answer.

    Parameters
    ----------
    database
        With the tables of the newest revision, such as ``SqlStore.open(url).database``.
    lease_ms
        Duration of a lease, and how long a replica counts as live after it was last seen.
    """

    def __init__(self, database: Database, *, lease_ms: int = LEASE_MS) -> None:
        self._database = database
        self.lease_ms = lease_ms

    def beat(self, replica: str, roles: Collection[str]) -> Beat:
        """Note that a replica lives, and renew all of its leases."""
        of, leases = REPLICAS.c, EVALUATIONS.c
        with self._writing() as connection:
            now_ms = self._database.now_ms(connection)
            row = {"id": replica, "started_ms": now_ms, "seen_ms": now_ms, "roles": ",".join(sorted(roles))}
            connection.execute(self._database.upsert(REPLICAS, "seen_ms"), row)
            connection.execute(sa.delete(REPLICAS).where(of.seen_ms < now_ms - _FORGOTTEN_MS))
            renew = (
                sa.update(EVALUATIONS)
                # Locked in one order, so that no two transactions wait for each other.
                .where(leases.model.in_(_locked(replica)))
                .values(until_ms=now_ms + self.lease_ms)
                .returning(leases.model, leases.epoch)
            )
            epochs = {row.model: row.epoch for row in connection.execute(renew)}
            expired = connection.execute(sa.select(leases.model).where(leases.until_ms <= now_ms)).scalars().all()
            return Beat(self._live(connection, now_ms), epochs, expired)

    def acquire(self, replica: str, models: Iterable[str]) -> Mapping[str, int]:
        """Take the leases of these models that no other replica has; returns model -> epoch of the leases taken."""
        leases, taken = EVALUATIONS.c, {}
        with self._writing() as connection:
            now_ms = self._database.now_ms(connection)
            for part in chunks(sorted(models)):
                insert = self._database.insert(EVALUATIONS).values(
                    [
                        {
                            "model": model,
                            "owner": replica,
                            "epoch": 1,
                            "until_ms": now_ms + self.lease_ms,
                            "number": 0,
                            "evaluated_ms": 0,
                            "summary": b"",
                            **NO_MOMENT._asdict(),
                        }
                        for model in part
                    ]
                )
                new = {"owner": replica, "epoch": leases.epoch + 1, "until_ms": now_ms + self.lease_ms}
                acquire = insert.on_conflict_do_update(
                    index_elements=["model"],
                    set_=new,
                    where=sa.or_(leases.until_ms <= now_ms, leases.owner == replica),
                ).returning(leases.model, leases.epoch)
                taken.update({row.model: row.epoch for row in connection.execute(acquire)})
        return taken

    def release(self, replica: str, models: Iterable[str]) -> None:
        """End the leases of these models, as far as the replica has them."""
        leases = EVALUATIONS.c
        with self._writing() as connection:
            for part in chunks(sorted(models)):
                connection.execute(
                    sa.update(EVALUATIONS).where(leases.owner == replica, leases.model.in_(part)).values(**_FREE)
                )

    def remove(self, replica: str, models: Iterable[str]) -> None:
        """Remove leases, evaluations and evidence of models, unless another replica has the lease."""
        of = EVALUATIONS.c
        with self._database.writing() as connection:
            is_free = sa.or_(of.owner == replica, of.until_ms <= self._database.now_ms(connection))
            for part in chunks(sorted(models)):
                remove = sa.delete(EVALUATIONS).where(of.model.in_(part), is_free).returning(of.model)
                removed = connection.execute(remove).scalars().all()
                for table in (EVALUATED_REPORTS, EVALUATED_MOMENTS):
                    connection.execute(sa.delete(table).where(table.c.model.in_(removed)))
                evidence.remove_models(connection, removed)
                stopped, now_ms = Resolution.STOPPED, self._database.clock.now_ms()
                alerts.resolve(self._database, connection, removed, stopped, now_ms=now_ms)

    def leave(self, replica: str) -> None:
        """End all leases of a replica, and remove it."""
        leases = EVALUATIONS.c
        with self._writing() as connection:
            connection.execute(sa.update(EVALUATIONS).where(leases.model.in_(_locked(replica))).values(**_FREE))
            connection.execute(sa.delete(REPLICAS).where(REPLICAS.c.id == replica))

    @contextmanager
    def saving(self, replica: str, epochs: Mapping[str, int]) -> Iterator[tuple[sa.Connection, Mapping[str, Held]]]:
        """A transaction in which no other replica takes the lease of a model, and the models whose lease is held.

        Parameters
        ----------
        epochs
            Model -> epoch of the lease under which it was evaluated.
        """
        of = EVALUATIONS.c
        with self._writing() as connection:
            # These rows stay locked: no lease can be taken before this transaction ends.
            locked = sa.select(*(of[name] for name in ("model", "epoch", "number", *EvaluatedMoment._fields)))
            rows = connection.execute(locked.where(of.owner == replica).order_by(of.model).with_for_update())
            yield (
                connection,
                {
                    model: Held(number, EvaluatedMoment(*moment))
                    for model, epoch, number, *moment in rows
                    if epochs.get(model) == epoch
                },
            )

    def save(
        self,
        connection: sa.Connection,
        held: Mapping[str, Held],
        evaluations: Sequence[Evaluation],
        same: Mapping[str, int],
    ) -> None:
        """Save evaluations in a transaction of :meth:`saving`; not of models whose lease is not held.

        Parameters
        ----------
        evaluations
            Those whose content has changed, with what they add to the history and with the evidence.
        same
            Model -> time of its evaluation, milliseconds since the epoch, where nothing else has changed.
        """
        of = EVALUATIONS.c
        evaluations = [one for one in evaluations if one.model in held]
        saved: list[Mapping[str, Any]] = []
        moved: list[Mapping[str, Any]] = []
        for one in evaluations:
            number, before = held[one.model]
            moment = one.moment
            if (moment.edge_ms, moment.version) != (before.edge_ms, before.version):
                to_ms = min(before.watermark_ms + moment.since_ms - before.since_ms, moment.watermark_ms)
                moved.append({"model": one.model, "before_to_ms": to_ms, **moment._asdict()})
            if moment.watermark_ms == before.watermark_ms:
                moment = moment._replace(since_ms=before.since_ms)
            row = {
                "model": one.model,
                "number": number + 1,
                "evaluated_ms": one.evaluated_ms,
                "summary": one.summary,
                "reports": one.reports,
                **moment._asdict(),
                **_FREE,
                "epoch": 0,
            }
            saved.append(row)
        self._update(connection, EVALUATIONS, ("number", "evaluated_ms", "summary", *EvaluatedMoment._fields), saved)
        self._update(connection, EVALUATED_MOMENTS, ("edge_ms", "version"), moved)
        reports = [row for row in saved if row["reports"] is not None]
        self._update(connection, EVALUATED_REPORTS, ("number", "reports"), reports)
        history.append(connection, {series: new for one in evaluations for series, new in one.points.items()})
        evidence.save(connection, self._database, [state for one in evaluations for state in one.evidence])
        of_evidence = {(one.model, version): new for one in evaluations for version, new in one.evidence_points.items()}
        evidence_history.append(connection, of_evidence)
        for at_ms in sorted(set(same.values())):
            for part in chunks(sorted(model for model in same if same[model] == at_ms and model in held)):
                connection.execute(sa.update(EVALUATIONS).where(of.model.in_(part)).values(evaluated_ms=at_ms))

    def _update(
        self, connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Write columns of models that have a row, or insert it."""
        if rows:
            upsert = self._database.upsert(table, *columns)
            values = [{name: row[name] for name in table.c.keys()} for row in rows]  # noqa: SIM118 - of columns
            # With RETURNING the rows are in one statement: see `_writing`.
            connection.execute(upsert.returning(table.c.model), values)

    def _writing(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that ends before the lease does, even if this process is paused within it.

        Its locks would keep other replicas from taking the leases. PostgreSQL ends it between two statements, but not
        within a pipeline of them, as which psycopg sends a statement with many rows of parameters.
        """
        return self._database.writing(idle_seconds=self.lease_ms / 2000)

    def states(self) -> Mapping[str, EvaluationState]:
        """Model -> its lease and the evaluation of it that is stored."""
        of = EVALUATIONS.c
        columns = [of[name] for name in ("model", *EvaluationState._fields)]
        return {model: EvaluationState(*state) for model, *state in self._database.rows(sa.select(*columns))}

    def read(self, numbers: Mapping[str, int]) -> Iterator[tuple[Evaluation, int, int]]:
        """Yield evaluations of models, with their number and the number of their reports.

        Parameters
        ----------
        numbers
            Model -> number of its reports that are known; these are not read again.
        """
        of, stored = EVALUATIONS.c, EVALUATED_REPORTS.c
        columns = (of.model, of.number, of.evaluated_ms, of.summary, stored.number.label("reports_number"))
        for part in chunks(sorted(numbers)):
            with self._database.reading() as connection:
                rows = connection.execute(
                    sa.select(*columns)
                    .join_from(EVALUATIONS, EVALUATED_REPORTS, of.model == stored.model)
                    .where(of.model.in_(part))
                ).all()
                changed = [row.model for row in rows if row.reports_number != numbers[row.model]]
                reports = {
                    row.model: row.reports
                    for row in connection.execute(
                        sa.select(stored.model, stored.reports).where(stored.model.in_(changed))
                    )
                }
            for row in rows:
                content = reports.get(row.model)
                yield Evaluation(row.model, row.evaluated_ms, row.summary, content), row.number, row.reports_number

    def moments(self, model: str, at_ms: int) -> tuple[StoredMoment | None, StoredMoment | None]:
        """The last moment of a model up to a watermark, and the first after it; None where there is none."""
        of = EVALUATED_MOMENTS.c
        moments = sa.select(*(of[name] for name in StoredMoment._fields)).where(of.model == model)
        with self._database.reading() as connection:
            before, after = (
                next((StoredMoment(*row) for row in connection.execute(one.limit(1))), None)
                for one in (
                    moments.where(of.watermark_ms <= at_ms).order_by(of.watermark_ms.desc()),
                    moments.where(of.watermark_ms > at_ms).order_by(of.watermark_ms),
                )
            )
        return before, after

    def replicas(self) -> Mapping[Replica, Sequence[str]]:
        """Live replica -> the models that it evaluates, both ascending."""
        leases = EVALUATIONS.c
        with self._database.reading() as connection:
            now_ms = self._database.now_ms(connection)
            live = self._live(connection, now_ms)
            rows = connection.execute(sa.select(leases.owner, leases.model).where(leases.until_ms > now_ms)).all()
        models: dict[str, list[str]] = {replica.id: [] for replica in live}
        for row in rows:
            models.setdefault(row.owner, []).append(row.model)
        return {replica: sorted(models[replica.id]) for replica in live}

    def _live(self, connection: sa.Connection, now_ms: int) -> Sequence[Replica]:
        of = REPLICAS.c
        rows = connection.execute(sa.select(REPLICAS).where(of.seen_ms > now_ms - self.lease_ms).order_by(of.id))
        return [Replica(row.id, row.started_ms, row.seen_ms, tuple(row.roles.split(","))) for row in rows]


def thin_moments(database: Database, kept_ms: Mapping[int, int]) -> None:
    """Remove moments that no kept pane needs, of models that have twice as many as there may be panes.

    Behind the panes of one width, a moment tells nothing if one before it has the same version and its edge lies in the
    same pane of the next width. Behind all panes the last moment stays: it says that they are gone.

    Parameters
    ----------
    kept_ms
        Width of panes -> how long they are kept behind the settled edge.
    """
    of, ages = EVALUATED_MOMENTS.c, sorted((kept, width) for width, kept in kept_ms.items())
    limit = 2 * sum(kept // width for kept, width in ages)
    with database.reading() as connection:
        crowded = sa.select(of.model).group_by(of.model).having(sa.func.count() > limit)
        models = connection.execute(crowded).scalars().all()
    for model in models:
        with database.writing() as connection:
            moments = connection.execute(
                sa.select(of.watermark_ms, of.edge_ms, of.version).where(of.model == model).order_by(of.watermark_ms)
            ).all()
            newest_ms = max(moment.edge_ms for moment in moments)
            needed: dict[Hashable, int] = {}
            for at_ms, edge_ms, version in moments:
                width = next((width for kept, width in ages if newest_ms - edge_ms <= kept), None)
                if width is None:
                    needed["behind all"] = at_ms
                elif width == ages[0][1]:
                    needed[at_ms] = at_ms
                else:
                    needed.setdefault((width, edge_ms // width, version), at_ms)
            gone = {moment.watermark_ms for moment in moments} - set(needed.values())
            for part in chunks(sorted(gone)):
                connection.execute(sa.delete(EVALUATED_MOMENTS).where(of.model == model, of.watermark_ms.in_(part)))


def _locked(replica: str) -> sa.Select[tuple[str]]:
    leases = EVALUATIONS.c
    return sa.select(leases.model).where(leases.owner == replica).order_by(leases.model).with_for_update()
