"""Alerts and their changes, in SQLite or PostgreSQL.

An alert is *current* until its evidence has fallen below its line after it was resolved. Changes are appended, and
numbered in the order in which they become visible: the stream of REST and the webhooks read on after the last number
that they have. A pending alert has no changes, and is removed where it falls back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from monitor.errors import Conflict, UnknownAlert
from monitor.events.times import format_time
from monitor.known_types import learn
from monitor.store import audit
from monitor.store.alert import OPEN, SERVICE, SHOWN, Alert, AlertChange, AlertState, Resolution
from monitor.store.database import Database, chunks
from monitor.store.recalibrations import AuditEntry
from monitor.store.schema import ALERT_CHANGES as CHANGES
from monitor.store.schema import ALERTS

_MEANINGS: Final = {
    Resolution.OVER: "the data speak against it",
    Resolution.STOPPED: "the version has no more events",
    Resolution.PROMOTED: "another map serves",
    Resolution.ROLLED_BACK: "the map was rolled back",
    Resolution.SETTINGS: "the settings changed: its detector was switched off, or starts again at 0",
}


_OF_ALERT: Final = tuple(one.name for one in fields(Alert) if one.name != "finding")
_COLUMNS: Final = ("model", "version", "kind")
"""Fields of a finding that are columns of their own: lists are filtered by them."""
_SAVED: Final = [path.removeprefix("finding.") for path, *_ in SHOWN if path.startswith("finding.")]
_MOVING: Final = ("kind", "finding", "document")
"""Columns that a new finding changes."""
_PENDING: Final = ALERTS.c.state == AlertState.PENDING
_IS_OPEN: Final = ALERTS.c.state.in_(OPEN)

_read_json: Final = msgspec.json.Decoder(dict).decode
learn(Alert)


def read_current(connection: sa.Connection, models: Collection[str]) -> dict[tuple[str, str], list[Alert]]:
    """The current alerts of these models, by model and version, the oldest first."""
    current: dict[tuple[str, str], list[Alert]] = {}
    for some in chunks(models):
        of_models = _select(documents=True).where(ALERTS.c.is_current == 1, ALERTS.c.model.in_(some))
        for alert in map(_alert, connection.execute(of_models.order_by(ALERTS.c.number))):
            current.setdefault(alert.key, []).append(alert)
    return current


def save(
    database: Database, connection: sa.Connection, steps: Sequence[tuple[Alert | None, Alert | None]], now_ms: int
) -> None:
    """Save what became of alerts: (before, after); None where there was or is none.

    Of steps that change a state, call :func:`monitor.store.audit.wait_for_turn` before the alerts are read.
    """
    for before, after in steps:
        if before is not None and (after is None or after.id != before.id):
            of = ALERTS.c.id == before.id
            if before.state is AlertState.PENDING:
                connection.execute(sa.delete(ALERTS).where(of))
            else:
                connection.execute(sa.update(ALERTS).where(of).values(is_current=0))
    changed = [(before, after) for before, after in steps if after is not None and is_transition(before, after)]
    moved = [after for before, after in steps if after is not None and not is_transition(before, after)]
    _upsert(database, connection, [after for _, after in changed], (*_OF_ALERT, *_MOVING))
    # Not their states, which somebody may be changing.
    _upsert(database, connection, moved, _MOVING)
    changes = [after for _, after in changed if after.state is not AlertState.PENDING]
    notes = {after.id: "" if after.reason is None else _MEANINGS[after.reason] for after in changes}
    notes |= {
        after.id: "it was muted until now"
        for before, after in changed
        if before is not None and (before.state, after.state) == (AlertState.ACKNOWLEDGED, AlertState.FIRING)
    }
    _append(connection, [(after.id, after.state, notes[after.id]) for after in changes], now_ms, SERVICE)


def is_transition(before: Alert | None, after: Alert | None) -> bool:
    """Whether one of them is another alert, or in another state."""
    return (before and (before.id, before.state)) != (after and (after.id, after.state))


def resolve(
    database: Database,
    connection: sa.Connection,
    models: Collection[str],
    reason: Resolution,
    *,
    version: str | None = None,
    actor: str = SERVICE,
    note: str = "",
    now_ms: int,
) -> None:
    """Resolve the open alerts of models, or of one version, and remove the pending ones.

    Those that are resolved stay current, so that the same evidence raises no other; not those of models that stopped,
    of which there is no more evidence.
    """
    if not models:
        return
    audit.wait_for_turn(database, connection)
    of = ALERTS.c.model.in_(models) if version is None else ALERTS.c.model.in_(models) & (ALERTS.c.version == version)
    connection.execute(sa.delete(ALERTS).where(of, _PENDING))
    values = {"state": AlertState.RESOLVED, "resolved_ms": now_ms, "reason": reason}
    update = sa.update(ALERTS).where(of, _IS_OPEN).values(**values).returning(ALERTS.c.id)
    resolved = sorted(connection.execute(update).scalars())
    if reason is Resolution.STOPPED:
        connection.execute(sa.update(ALERTS).where(of, ALERTS.c.is_current == 1).values(is_current=0))
    note = note or _MEANINGS[reason]
    _append(connection, [(alert, AlertState.RESOLVED, note) for alert in resolved], now_ms, actor)


def remove_old(database: Database, before_ms: int) -> int:
    """Remove the alerts that were resolved before; returns their number."""
    old = sa.select(ALERTS.c.id).where(ALERTS.c.resolved_ms < before_ms, ALERTS.c.is_current == 0)
    ids = [alert for (alert,) in database.rows(old)]
    if ids:
        with database.writing() as connection:
            connection.execute(sa.delete(CHANGES).where(CHANGES.c.alert.in_(ids)))
            connection.execute(sa.delete(ALERTS).where(ALERTS.c.id.in_(ids)))
    return len(ids)


class AlertStore:
    """Read alerts, and acknowledge them. Each method is one transaction; any thread and process may call it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def alerts(
        self,
        models: Collection[str] | None = None,
        *,
        states: Collection[str] = (),
        kind: str | None = None,
        version: str | None = None,
        since_ms: int | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> Sequence[Alert]:
        """Alerts without their documents, the newest first.

        Parameters
        ----------
        models
            Only of these; None: all.
        states, kind, version
            Only of one of these states, of this kind, of this version; all if left out.
        since_ms
            Only those that were not resolved before this time.
        before
            Only those older than the alert of this id. Raises UnknownAlert.
        limit
            At most so many.
        """
        of = ALERTS.c
        statement = _select(documents=False).order_by(of.number.desc()).limit(limit)
        for column, value in ((of.kind, kind), (of.version, version)):
            statement = statement if value is None else statement.where(column == value)
        if models is not None:
            statement = statement.where(of.model.in_(sorted(models)))
        if states:
            statement = statement.where(of.state.in_(states))
        if since_ms is not None:
            statement = statement.where(of.resolved_ms.is_(None) | (of.resolved_ms >= since_ms))
        with self._database.reading() as connection:
            if before is not None:
                statement = statement.where(of.number < _find(connection, before).number)
            return [_alert(row) for row in connection.execute(statement)]

    def alert(self, alert_id: str) -> Alert:
        """One alert. Raises UnknownAlert."""
        with self._database.reading() as connection:
            return _alert(_find(connection, alert_id))

    def changes_of(self, alert_id: str) -> Sequence[AlertChange]:
        """The changes of one alert, the oldest first."""
        of_alert = sa.select(CHANGES).where(CHANGES.c.alert == alert_id).order_by(CHANGES.c.number)
        return [_change(row) for row in self._database.rows(of_alert)]

    def newest_change(self) -> int:
        """The number of the newest change; 0 if there is none."""
        with self._database.reading() as connection:
            return newest_change(connection)

    def changes(self, after: int, models: Collection[str] | None, limit: int) -> Sequence[tuple[AlertChange, Alert]]:
        """Changes with a greater number, ascending, with their alerts as they are now."""
        with self._database.reading() as connection:
            return read_changes(connection, after, models=models, limit=limit)

    def acknowledge(
        self,
        alert_id: str,
        *,
        actor: str,
        note: str,
        now_ms: int,
        assigned_to: str | None = None,
        muted_until_ms: int | None = None,
    ) -> Alert:
        """Note that somebody has an alert; again, where somebody has it already.

        Parameters
        ----------
        assigned_to
            Who works on it, if that is said.
        muted_until_ms
            When it fires again, unless it is over by then; None: never.

        Raises
        ------
        UnknownAlert
            There is no such alert.
        Conflict
            It is not firing.
        """
        with audit.changing(self._database) as connection:
            alert = _alert(_find(connection, alert_id))
            if alert.state not in OPEN:
                raise Conflict(f"the alert {alert_id} is {alert.state}: only one that is firing can be acknowledged")
            taken = {"assigned_to": assigned_to, "muted_until_ms": muted_until_ms}
            values = {"state": AlertState.ACKNOWLEDGED, "acknowledged_by": actor, **taken}
            connection.execute(sa.update(ALERTS).where(ALERTS.c.id == alert_id).values(**values))
            until = None if muted_until_ms is None else f"{format_time(muted_until_ms)[:16].replace('T', ' ')} UTC"
            terms = [assigned_to and f"assigned to {assigned_to}", until and f"muted until {until}"]
            said = ", ".join(filter(None, terms))
            whole = ": ".join(filter(None, (said, note)))
            _append(connection, [(alert_id, AlertState.ACKNOWLEDGED, whole)], now_ms, actor)
            model, version = alert.key
            entry = AuditEntry(0, now_ms, actor, "acknowledged", model, version, alert_id, {"note": whole})
            audit.append(connection, [entry])
            return _alert(_find(connection, alert_id))


def newest_change(connection: sa.Connection) -> int:
    """The number of the newest change; 0 if there is none."""
    return connection.execute(sa.select(sa.func.max(CHANGES.c.number))).scalar_one() or 0


def read_changes(
    connection: sa.Connection,
    after: int,
    *,
    models: Collection[str] | None = None,
    states: Collection[str] = (),
    limit: int,
) -> Sequence[tuple[AlertChange, Alert]]:
    """Changes with a greater number, ascending, with their alerts as they are now."""
    columns = [CHANGES.c[name].label(f"change_{name}") for name in AlertChange._fields]
    statement = _select(documents=True).add_columns(*columns).join(CHANGES, CHANGES.c.alert == ALERTS.c.id)
    statement = statement.where(CHANGES.c.number > after).order_by(CHANGES.c.number).limit(limit)
    if models is not None:
        statement = statement.where(ALERTS.c.model.in_(sorted(models)))
    if states:
        statement = statement.where(CHANGES.c.state.in_(states))
    rows = connection.execute(statement)
    return [(_change(row, "change_"), _alert(row)) for row in rows]


def _select(*, documents: bool) -> sa.Select[Any]:
    columns = [ALERTS.c[name] for name in (*_OF_ALERT, *_COLUMNS, "finding")]
    return sa.select(*columns, ALERTS.c.document if documents else sa.literal("{}").label("document"))


def _find(connection: sa.Connection, alert_id: str) -> "sa.Row[Any]":
    statement = _select(documents=True).add_columns(ALERTS.c.number).where(ALERTS.c.id == alert_id)
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise UnknownAlert(f"no alert is called {alert_id!r}")
    return row


def _alert(row: "sa.Row[Any]") -> Alert:
    # In the order of `_select`.
    of_alert = dict(zip(_OF_ALERT, row, strict=False))
    of_finding = dict(zip(_COLUMNS, row[len(_OF_ALERT) :], strict=False))
    finding = {**of_finding, **_read_json(row.finding), "document": _read_json(row.document)}
    return msgspec.convert({**of_alert, "finding": finding}, Alert)


def _change(row: "sa.Row[Any]", prefix: str = "") -> AlertChange:
    values = {name: getattr(row, f"{prefix}{name}") for name in AlertChange._fields}
    return AlertChange(**values | {"state": AlertState(values["state"])})


def _upsert(database: Database, connection: sa.Connection, alerts: Sequence[Alert], columns: Iterable[str]) -> None:
    if not alerts:
        return
    rows = [
        {
            **{name: getattr(alert, name) for name in _OF_ALERT},
            **{name: getattr(alert.finding, name) for name in _COLUMNS},
            "finding": _json({name: getattr(alert.finding, name) for name in _SAVED if name not in _COLUMNS}),
            "document": _json(alert.finding.document),
            "is_current": 1,
        }
        for alert in alerts
    ]
    insert = database.insert(ALERTS)
    upsert = insert.on_conflict_do_update(
        index_elements=["id"], set_={name: insert.excluded[name] for name in columns if name != "id"}
    )
    # With RETURNING all rows are one statement: a pipeline of many would outlast the lease if it were paused.
    connection.execute(upsert.returning(ALERTS.c.number), rows)


def _json(document: Mapping[str, Any]) -> str:
    return msgspec.json.encode(document).decode()


def _append(connection: sa.Connection, changes: Sequence[tuple[str, AlertState, str]], now_ms: int, actor: str) -> None:
    rows = [
        {"alert": alert, "at_ms": now_ms, "state": state, "actor": actor, "note": note}
        for alert, state, note in changes
    ]
    if rows:
        connection.execute(sa.insert(CHANGES).returning(CHANGES.c.number), rows)
