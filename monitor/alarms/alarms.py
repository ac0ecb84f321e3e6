"""Turns findings into alerts, in the transaction that saves the evaluation of their models."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from monitor.alarms.lifecycle import Step, advance
from monitor.store import alerts, audit, servings
from monitor.store.alert import OPEN, SERVICE, Alert, Finding, Resolution
from monitor.store.database import Database

Key = tuple[str, str, str]
"""Model, version and kind."""

Findings = Mapping[str, Sequence[Finding]]
"""Model -> the latest findings about it, of all of its versions that have events and all kinds.

A model that is not in it was not evaluated yet. A version without any finding has stopped: its alerts are resolved. The
findings of the kinds that an open alert is about go on describing what it was raised for; once that is over, or a map
was promoted or rolled back, the evidence begins anew, and a next alert needs it to have been below the line.
"""


@dataclass(frozen=True)
class Alarms:
    """Keeps the alerts of the models that are evaluated here.

    Attributes
    ----------
    database
        Of the store.
    rolls_back
        Model -> whether a map of it that does harm is rolled back without a person.
    """

    database: Database
    rolls_back: Callable[[str], bool]

    def save(self, connection: sa.Connection, held: Collection[str], findings: Findings) -> dict[Key, Alert | None]:
        """Save what becomes of alerts, in the transaction that holds the leases of models.

        Parameters
        ----------
        held
            The models whose lease is held.
        findings
            The latest; only those about held models count.

        Returns
        -------
        (model, version, kind) -> the alert that this kind of finding leads, None where it leads none; of every finding.
        """
        now_ms = self.database.clock.now_ms()
        models = [model for model in findings if model in held]
        if not models:
            return {}
        by_version: dict[tuple[str, str], list[Finding]] = {}
        for finding in (finding for model in models for finding in findings[model]):
            by_version.setdefault((finding.model, finding.version), []).append(finding)

        def steps() -> list[Step]:
            current = alerts.read_current(connection, models)
            revisions = {(one.model, one.version): one.revision for one in servings.read(connection, models)}
            taken: list[Step] = []
            for version in sorted({*current, *by_version}):
                of_version = by_version.get(version, [])
                # Findings about what another map served, or none, say nothing any more.
                if all(finding.revision == revisions.get(version, 0) for finding in of_version):
                    taken += advance(current.get(version, []), of_version, now_ms)
            return taken

        taken = steps()
        if any(alerts.is_transition(*step) or self._is_to_roll_back(step[1]) for step in taken):
            # Somebody may have acknowledged or resolved one meanwhile: from now on nobody does.
            audit.wait_for_turn(self.database, connection)
            taken = steps()
        alerts.save(self.database, connection, [step for step in taken if step[0] != step[1]], now_ms)
        for _, alert in taken:
            if alert is not None and self._is_to_roll_back(alert):
                self._roll_back(connection, alert, now_ms)
        shown: dict[Key, Alert | None] = {
            (*version, finding.kind): None for version, of_version in by_version.items() for finding in of_version
        }
        return shown | {(*after.key, after.finding.kind): after for _, after in taken if after is not None}

    def _is_to_roll_back(self, alert: Alert | None) -> bool:
        if alert is None or alert.state not in OPEN:
            return False
        return alert.finding.kind == "map" and self.rolls_back(alert.finding.model)

    def _roll_back(self, connection: sa.Connection, alert: Alert, now_ms: int) -> None:
        """Roll back the map that an alert is about, if it still serves."""
        model, version = alert.key
        serving = servings.current(connection, model, version)
        if serving is None or serving.revision != alert.finding.document.get("revision"):
            return
        evidence = f"evidence 10^{alert.finding.log10_evidence:.1f} where 10^{alert.finding.log10_line:.1f} is an alarm"
        note = f"automatic, alert {alert.id}: {alert.finding.summary} ({evidence})"
        servings.roll_back(connection, model, version, actor=SERVICE, now_ms=now_ms, note=note)
        alerts.resolve(
            self.database,
            connection,
            [model],
            Resolution.ROLLED_BACK,
            version=version,
            note=f"the map {serving.map_id} was rolled back by the service",
            now_ms=now_ms,
        )
