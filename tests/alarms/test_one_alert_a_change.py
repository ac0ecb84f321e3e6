"""One change is one alert, and two are two: simulated models, from settled panes to alerts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from monitor.alarms.attribution import Attribution, ChangeSet
from monitor.alarms.findings import Explainer
from monitor.alarms.lifecycle import advance, resolve
from monitor.alarms.watch import WEIGHTS, VersionWatch
from monitor.events.model import ALL, SeriesKey
from monitor.sequential.detector import Detector
from monitor.sequential.evidence import YEAR_MS
from monitor.store.alert import OPEN, Alert, AlertState, Resolution
from monitor.store.model_evidence import ModelEvidence, VersionEvidence
from tests.alarms.streams import no_map
from tests.long import longer
from tests.sequential.streams import logistic, steps_of

PANE = 50
PANE_MS = 20_930
"""Of 8,600 events an hour."""
EVALUATED = 1000
"""Events from one evaluation to the next."""
REFERENCE = 25_000


class Change(NamedTuple):
    """What true logits are of those that are predicted."""

    slope: float = 1.0
    offset: float = 0.0


CALM = Change()


class WithoutWords(Attribution):
    """Leaves out what is said of an alarm, which needs the panes."""

    def __init__(self) -> None:
        pass

    def change_set(self, series: SeriesKey, detector: Detector, since_ms: int, until_ms: int) -> ChangeSet:
        del series, detector, until_ms
        return ChangeSet.at(since_ms)

    def explain(self, *_: object, **__: object) -> tuple[str, int, dict[str, Any]]:
        return "", 0, {}


@dataclass
class Model:
    """A model that is watched."""

    seed: int
    budget: float = 1.0
    """False alarms a year, in equal parts for the detectors."""
    current: list[Alert] = field(default_factory=list)
    fired: dict[str, Alert] = field(default_factory=dict)
    """Every alert that ever fired, as it was last."""

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.lines = dict.fromkeys(WEIGHTS, len(WEIGHTS) / self.budget)
        self.watch = VersionWatch("churn", "7", 0.05, 0)
        self.explainer = Explainer(WithoutWords(), lambda _: 0.05, no_map)

    def live(self, events: int, change: Change = CALM, *, centre: float = 0.0) -> None:
        """Draw so many events, and evaluate."""
        for _ in range(events // EVALUATED):
            p, y = logistic(self.rng, EVALUATED, change.slope, change.offset, centre)
            self.watch.update({ALL: steps_of(p, y, PANE, PANE_MS, self.watch.to_ms)}, self.lines)
            known = VersionEvidence(self.watch.to_ms, self.watch.levels(self.lines))
            findings, _ = self.explainer.findings("churn", ModelEvidence({"7": known}))
            self._keep([after for _, after in advance(self.current, findings, self.watch.to_ms)])

    def repair(self) -> None:
        """Promote a map that makes predictions right: evidence begins anew."""
        self.watch.restart()
        self._keep([resolve(one, Resolution.PROMOTED, self.watch.to_ms) for one in self.current if one.state in OPEN])

    def _keep(self, alerts: Sequence[Alert | None]) -> None:
        self.current = [alert for alert in alerts if alert is not None]
        self.fired |= {alert.id: alert for alert in self.current if alert.state is not AlertState.PENDING}


CHANGES = [
    Change(offset=0.5),
    Change(offset=-0.3),
    Change(slope=1.5),
    Change(slope=0.6),
    Change(slope=1.3, offset=0.4),
]
ROUNDS = longer(2, 40)


@pytest.mark.longer
@pytest.mark.parametrize("centre", [0.0, -2.5])
def test_one_change_is_one_alert(centre: float) -> None:
    """In 95 of 100 changes, whatever detectors speak."""
    models, joined = [], 0
    for seed in range(ROUNDS):
        for change in CHANGES:
            model = Model(seed)
            model.live(REFERENCE, centre=centre)
            calm = len(model.fired)
            model.live(15_000 if centre == 0.0 else 30_000, change, centre=centre)
            models.append(len(model.fired) - calm)
            joined += any(len(alert.finding.witnesses) > 1 for alert in model.fired.values())
    print(f"\nalerts: {np.bincount(models)}; several detectors in {joined} of {len(models)}")
    assert min(models) >= 1
    assert np.mean(np.equal(models, 1)) >= 0.95
    # Else there was nothing to be joined.
    assert joined >= 0.9 * len(models)


@pytest.mark.longer
def test_two_changes_in_a_row_are_two_alerts() -> None:
    """The first was repaired by a map, or stands as somebody accepted it."""
    counts = []
    for seed in range(ROUNDS):
        repaired = Model(seed)
        repaired.live(REFERENCE)
        repaired.live(15_000, Change(offset=0.5))
        repaired.repair()
        repaired.live(REFERENCE)
        repaired.live(15_000, Change(slope=0.6))
        standing = Model(seed)
        standing.live(REFERENCE + 5000, Change(offset=0.5))
        first = list(standing.fired)
        standing.live(15_000, Change(slope=0.6, offset=0.5))
        counts += [len(repaired.fired), len(standing.fired)]
        # The second is about the change: what was accepted stays as it was.
        assert [standing.fired[one].state for one in first] == [AlertState.FIRING] * len(first)
        assert [alert.finding.kind for alert in standing.fired.values()] == ["calibration", "change"]
    print(f"\nalerts: {np.bincount(counts)}")
    assert np.mean(np.equal(counts, 2)) >= 0.95


@pytest.mark.longer
def test_alerts_of_a_calibrated_model_are_within_the_budget() -> None:
    """All detectors together: at a budget that is high enough to be measured."""
    events = 200_000
    years = events / EVALUATED * EVALUATED / PANE * PANE_MS / YEAR_MS
    budget = 10.0 / years
    alerts = []
    for seed in range(ROUNDS):
        model = Model(seed, budget)
        model.live(events)
        alerts.append(len(model.fired))
    print(f"\n{np.mean(alerts):.1f} alerts a run, the bound is 10")
    assert np.mean(alerts) <= 10.0
    assert np.mean(alerts) >= 1.0
