"""Turns findings into alerts, in the transaction that saves the evaluation of their models."""

from collections.abc import Callable, Collection, Iterator, Mapping

import sqlalchemy as sa

from monitor.alarms.finding import Finding, ReadFindings
from monitor.alarms.lifecycle import advance, without_finding
from monitor.store import alerts, audit, servings
from monitor.store.alerts import OPEN, SERVICE, Alert, Resolution
from monitor.store.database import Database

Key = tuple[str, str, str]
"""Model, version and kind."""


class Alarms:
    """Keeps the alerts of the models that are evaluated here.

    Parameters
    ----------
    database
        Of the store.
    findings
        Their source. It must not wait: the leases of the models are held meanwhile.
    rolls_back
        Model -> whether a map of it that does harm is rolled back without a person.

    Attributes
    ----------
    current
        (model, version, kind) -> its alert, None where there is none, as last committed; of every finding.
    """

    def __init__(
        self, database: Database, findings: ReadFindings, rolls_back: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._database = database
        self._rolls_back = rolls_back
        self.findings = findings
        self.current: Mapping[Key, Alert | None] = {}

    def save(self, connection: sa.Connection, models: Collection[str]) -> Callable[[], None]:
        """Save what becomes of the alerts of models whose lease is held in this transaction.

        Returns what is to be called once it is committed.
        """
        now_ms = self._database.clock.now_ms()
        found: dict[str, dict[Key, Finding]] = {
            model: {(model, finding.version, finding.kind): finding for finding in findings}
            for model, findings in self.findings(models).items()
            if model in models
        }

        def steps() -> Iterator[tuple[Alert | None, Alert | None]]:
            current = alerts.read_current(connection, found.keys())
            # A finding about what another map served, or none, says nothing any more.
            revisions = {(one.model, one.version): one.revision for one in servings.read(connection, found.keys())}
            for findings in found.values():
                for key, finding in findings.items():
                    if finding.revision == revisions.get(key[:2], 0):
                        yield current.get(key), advance(current.get(key), finding, now_ms)
            for key, alert in current.items():
                if key not in found[key[0]]:
                    runs = any(version == key[1] for _, version, _ in found[key[0]])
                    yield alert, without_finding(alert, now_ms, version_runs=runs)

        if not found:
            return lambda: None
        taken = list(steps())
        if any(alerts.is_transition(*step) or self._is_to_roll_back(step[1]) for step in taken):
            # Somebody may have acknowledged or resolved one meanwhile: from now on nobody does.
            audit.wait_for_turn(self._database, connection)
            taken = list(steps())
        alerts.save(self._database, connection, [step for step in taken if step[0] != step[1]], now_ms)
        for _, alert in taken:
            if alert is not None and self._is_to_roll_back(alert):
                self._roll_back(connection, alert, now_ms)
        shown = {after.key: after for _, after in taken if after is not None}
        none = {key: None for of_model in found.values() for key in of_model}
        others = {key: alert for key, alert in self.current.items() if key[0] in models and key[0] not in found}

        def committed() -> None:
            self.current = others | none | shown

        return committed

    def _is_to_roll_back(self, alert: Alert | None) -> bool:
        if alert is None or alert.state not in OPEN:
            return False
        return alert.finding.kind == "map" and self._rolls_back(alert.finding.model)

    def _roll_back(self, connection: sa.Connection, alert: Alert, now_ms: int) -> None:
        """Roll back the map that an alert is about, if it still serves."""
        model, version, _ = alert.key
        serving = servings.current(connection, model, version)
        if serving is None or serving.revision != alert.finding.document.get("revision"):
            return
        evidence = f"evidence 10^{alert.finding.log10_evidence:.1f} where 10^{alert.finding.log10_line:.1f} is an alarm"
        note = f"automatic, alert {alert.id}: {alert.finding.summary} ({evidence})"
        servings.roll_back(connection, model, version, actor=SERVICE, now_ms=now_ms, note=note)
        alerts.resolve(
            self._database,
            connection,
            [model],
            Resolution.ROLLED_BACK,
            version=version,
            note=f"the map {serving.map_id} was rolled back by the service",
            now_ms=now_ms,
        )
