"""A model with a past, in a service for a browser: it went wrong, an alert says so, and its windows are kept."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from monitor.clock import ManualClock
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.http.server import ApiServer
from monitor.maps import RecalibrationMap
from monitor.measures import MEASURES
from monitor.store import evidence_history, history
from monitor.store.alerts import AlertStore, save
from monitor.store.model_evidence import ModelEvidence
from monitor.windows.evidence_history import EvidenceHistory
from monitor.windows.history import History, points_of
from monitor.windows.windows import Window
from tests.alarms.findings import advanced
from tests.evaluations import Alone
from tests.http.refits import Refits
from tests.http.service import Service
from tests.page.site import finding_of_shape
from tests.snapshots import NOW_MS, evidence, evidence_level
from tests.windows.memory import HOUR_MS, MINUTE_MS, MemoryPanes, calibrated

START_MS: Final = NOW_MS - 12 * HOUR_MS
CHANGE_MS: Final = START_MS + 8 * HOUR_MS
"""Since when predictions for region=eu are too sure of themselves."""
STEPS: Final = 8
SEGMENTS: Final = {ALL: 1.5, "region=eu": 1.9, "region=us": 1.0}
"""The slope of each since the change."""
POLICY: Final = ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=5 * MINUTE_MS, segments=("region",))


class Churn(NamedTuple):
    """A service at a URL, whose model churn has an alert and a history of the windows that ended in each step."""

    url: str
    alert: str
    points: int

    @property
    def page(self) -> str:
        """The model's own."""
        return f"{self.url}/models/churn"


@contextmanager
def churn_site(folder: Path, serves: RecalibrationMap | None = None) -> Iterator[Churn]:
    """The service; it stops at the end. With a map that serves since the alert, which its promotion resolves."""
    refits = Refits(folder)
    store = refits.database.database
    panes = MemoryPanes(POLICY)
    # All evidence begins anew when a map is promoted.
    level = evidence_level(6.4, raised=True) if serves is None else evidence_level(0.4)
    evaluator = Alone(
        panes,
        [Window("1h", HOUR_MS), Window("6h", 6 * HOUR_MS)],
        measures={name: MEASURES[name] for name in ("tce", "smce")},
        draws=59,
        clock=ManualClock(NOW_MS),
    )
    step_ms = (NOW_MS - START_MS) // STEPS
    for step in range(STEPS):
        times = START_MS + step * step_ms + np.arange(2_000) * (step_ms // 2_000)
        for at, (segment, slope) in enumerate(SEGMENTS.items()):
            p, y = calibrated(times.size, STEPS * at + step, slope=slope if times[0] >= CHANGE_MS else 1.0)
            panes.add(SeriesKey("churn", "7", segment), times, p, y)
        evaluator.evaluate(
            {"churn": ModelEvidence({"7": evidence(calibration=level)._replace(revision=0 if serves is None else 1)})}
        )
        with store.writing() as connection:
            history.append(connection, points_of(evaluator.latest.reports.values()))
    levels = np.zeros(STEPS, evidence_history.POINT)
    levels["to_ms"] = START_MS + step_ms * np.arange(1, STEPS + 1)
    levels["log10_evidence"][:], levels["log10_line"][:] = np.nan, np.nan
    levels["log10_evidence"][:, 0], levels["log10_line"][:, 0] = np.linspace(0.0, 6.4, STEPS), 4.0
    levels["firing"][-2:, 0] = True
    finding = replace(
        finding_of_shape(), version="7", since_ms=CHANGE_MS, from_ms=CHANGE_MS - HOUR_MS, to_ms=CHANGE_MS + HOUR_MS
    )
    alert = advanced(None, finding, NOW_MS)
    assert alert is not None
    with store.writing() as connection:
        evidence_history.append(connection, {("churn", "7"): levels})
        save(store, connection, [(None, alert)], NOW_MS)
    if serves is not None:
        asked = refits.request(refits.make_request("churn", version="7"), actor="ada")[0]
        refits.promote(refits.end(asked.id, chosen=serves).id, actor="ada", note="")
    service = Service(
        evaluator=evaluator,  # type: ignore[arg-type]
        refits=refits,
        alerts=AlertStore(store),
        history=History(store),
        evidence_history=EvidenceHistory(store),
        policies={"churn": POLICY},
    )
    server = ApiServer(service.app(), port=0)
    server.start()
    yield Churn(server.url, alert.id, STEPS)
    server.stop()
    refits.close()
