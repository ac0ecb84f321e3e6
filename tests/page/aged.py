"""A large fleet and an old model for a browser: 200 models, of which one has a past of a year; the same in each run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from monitor.clock import ManualClock
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.http.server import ApiServer
from monitor.maps.temperature import Temperature
from monitor.measures import MEASURES
from monitor.reports.formatting import minute_text
from monitor.store import evidence_history, history
from monitor.store.alert import Alert, AlertState, Resolution
from monitor.store.alerts import AlertStore, save
from monitor.store.model_evidence import Explanation, ModelEvidence, VersionEvidence
from monitor.windows.evidence_history import EvidenceHistory
from monitor.windows.history import History, points_of
from monitor.windows.snapshot import Snapshot
from monitor.windows.windows import Window
from tests.alarms.findings import advanced
from tests.evaluations import Alone
from tests.http.refits import Refits
from tests.http.service import Service
from tests.page.site import finding_of_shape
from tests.snapshots import NOW_MS, evidence, evidence_level, report, snapshot, with_evidence
from tests.windows.memory import MINUTE_MS, MemoryPanes, calibrated

MODELS: Final = 200
OLD: Final = "churn"
"""The model with a past, of version 7."""
DAY_MS: Final = 86_400_000
START_MS: Final = NOW_MS - 365 * DAY_MS
FIRST_CHANGE_MS: Final = NOW_MS - 60 * DAY_MS
"""Since when it is too sure of itself; a map repairs it ten days later."""
CHANGE_MS: Final = NOW_MS - 6 * DAY_MS
"""Since when it is so again, in Europe."""
SERVES_MS: Final = FIRST_CHANGE_MS + 10 * DAY_MS
SLOPE: Final = 1.5
POLICY: Final = ModelPolicy(horizon_ms=DAY_MS, lateness_ms=60 * MINUTE_MS, segments=("region",))

_AREAS: Final = ("credit", "fraud", "pricing", "returns", "leads", "support", "ads", "claims", "supply", "search")
_PLACES: Final = ("at", "be", "br", "ca", "ch", "cz", "de", "dk", "es", "fr", "gb", "ie", "in", "it", "jp", "nl", "no")


class Aged(NamedTuple):
    """A service at a URL."""

    url: str

    @property
    def model(self) -> str:
        """The page of the model with a past, as far back as a page looks."""
        return f"{self.url}/models/{OLD}?range=90+days"


@contextmanager
def aged_site(folder: Path) -> Iterator[Aged]:
    """The service; it stops at the end."""
    refits = Refits(folder)
    store = refits.database.database
    refits.clock._start_ms = SERVES_MS  # a map served long ago: the clock goes on to NOW_MS below
    asked = refits.request(refits.make_request(OLD, version="7"), actor="ada")[0]
    refits.promote(refits.end(asked.id, chosen=Temperature(SLOPE)).id, actor="ada", note="")
    refits.clock.advance((NOW_MS - refits.clock.now_ms()) / 1000)
    says = Explanation("shape", f"{_summary(OLD, '7', CHANGE_MS)} Refit on the events since then.", is_firing=True)
    firing = evidence(calibration=evidence_level(6.4, raised=True))._replace(
        explanations={"calibration": says}, revision=1
    )
    panes = MemoryPanes(POLICY)
    evaluator = Alone(
        panes,
        [Window("24h", DAY_MS), Window("7d", 7 * DAY_MS)],
        measures={name: MEASURES[name] for name in ("tce", "smce")},
        draws=29,
        clock=ManualClock(NOW_MS),
    )
    for day in range(365):
        _live(panes, day)
        # A page shows the last 90 days: what is older need not be as dense.
        if day >= 270 or day % 7 == 0:
            evaluator.evaluate({OLD: ModelEvidence({"7": firing})})
            with store.writing() as connection:
                history.append(connection, points_of(evaluator.latest.reports.values()))
    fleet, levels = _fleet()
    old = evaluator.latest.models[OLD]
    evaluator._shown.latest = replace(fleet, models=dict(sorted({**fleet.models, OLD: old}.items())))
    with store.writing() as connection:
        evidence_history.append(connection, {**levels, (OLD, "7"): _evidence_of_a_year()})
        save(store, connection, [(None, alert) for alert in _alerts(fleet)], NOW_MS)
    service = Service(
        evaluator=evaluator,  # type: ignore[arg-type]
        refits=refits,
        alerts=AlertStore(store),
        history=History(store),
        evidence_history=EvidenceHistory(store),
        policies=dict.fromkeys(evaluator.latest.models, POLICY),
    )
    server = ApiServer(service.app(), port=0)
    server.start()
    try:
        yield Aged(server.url)
    finally:
        server.stop()
        refits.close()


def _live(panes: MemoryPanes, day: int) -> None:
    """Add a day of the model with a past."""
    times = START_MS + day * DAY_MS + np.arange(600) * (DAY_MS // 600)
    wrong = SLOPE if times[0] >= FIRST_CHANGE_MS else 1.0
    slopes = {ALL: wrong, "region=eu": wrong, "region=us": wrong}
    if times[0] >= CHANGE_MS:
        slopes |= {ALL: 1.6 * wrong, "region=eu": 2.2 * wrong}
    for at, (segment, slope) in enumerate(slopes.items()):
        p, y = calibrated(times.size, 3 * day + at, slope=slope)
        panes.add(SeriesKey(OLD, "7", segment), times, p, y)


def _evidence_of_a_year() -> evidence_history.Points:
    """Evidence every six hours: two alarms, of which the first ends with the promotion."""
    levels = np.zeros(4 * 365, evidence_history.POINT)
    to_ms = START_MS + DAY_MS // 4 * np.arange(1, levels.size + 1)
    levels["to_ms"] = to_ms
    levels["log10_evidence"][:], levels["log10_line"][:] = np.nan, np.nan
    walk = np.random.default_rng(0).normal(0.0, 0.4, levels.size)
    levels["log10_evidence"][:, 0] = walk
    levels["log10_line"][:, 0] = 4.0
    for begins_ms, ends_ms in ((FIRST_CHANGE_MS, SERVES_MS), (CHANGE_MS, NOW_MS)):
        inside = (to_ms > begins_ms) & (to_ms <= ends_ms)
        levels["log10_evidence"][inside, 0] = np.minimum(np.arange(inside.sum()) / 2, 6.4)
        levels["firing"][inside, 0] = levels["log10_evidence"][inside, 0] >= 4.0
    return levels


def _names() -> list[str]:
    """Names of the models beside the one with a past."""
    names = [f"{area}-{place}" for area in _AREAS for place in _PLACES]
    names += [f"{area}-{place}-v2" for area in _AREAS[:2] for place in _PLACES]
    return names[: MODELS - 1]


def _fleet() -> tuple[Snapshot, dict[tuple[str, str], evidence_history.Points]]:
    """The others: every twentieth fires, every fortieth is near, and few have too little data; with their past."""
    rng = np.random.default_rng(1)
    steps = 14 * 8
    reports, states, past = [], dict[tuple[str, str], VersionEvidence](), {}
    for at, name in enumerate(_names()):
        key = (name, str(1 + at % 3))
        few = "12 labelled predictions, at least 100 are needed" if at % 50 == 7 else None
        reports.append(report(*key, window="24h", n=int(rng.integers(2_000, 90_000)), seed=at, insufficient=few))
        level = 6.0 if at % 20 == 3 else 3.4 if at % 40 == 11 else float(rng.normal(-1.0, 0.8))
        says = Explanation("shape" if at % 40 == 3 else "prior_shift", f"Predictions of {name} are off.", level > 4.0)
        one = evidence() if few else evidence(calibration=evidence_level(level, raised=level > 4.0))
        states[key] = one._replace(explanations={"calibration": says} if level > 3.0 else {})
        points = np.zeros(steps, evidence_history.POINT)
        points["to_ms"] = NOW_MS - 14 * DAY_MS + DAY_MS // 8 * np.arange(1, steps + 1)
        points["log10_evidence"][:], points["log10_line"][:] = np.nan, np.nan
        rise = np.clip((np.arange(steps) - 80) / 25, 0.0, 1.0)
        points["log10_evidence"][:, 0] = rng.normal(0.0, 0.2, steps) + level * rise
        points["log10_line"][:, 0] = 4.0
        points["firing"][:, 0] = points["log10_evidence"][:, 0] > 4.0
        past[key] = points
    return with_evidence(snapshot(reports), states), past


def _alerts(fleet: Snapshot) -> Iterator[Alert]:
    """Those of the models that fire, of which somebody has every third; of the one with a past one is over."""
    firing = [
        name
        for name, of in fleet.models.items()
        if "firing" in {fleet.state(name, v).state for v in of.evidence.versions}
    ]
    for at, name in enumerate(firing):
        (version,) = fleet.models[name].evidence.versions
        alert = _alert(name, version, NOW_MS - 2 * DAY_MS)
        yield replace(alert, state=AlertState.ACKNOWLEDGED, acknowledged_by="ada") if at % 3 == 0 else alert
    first = _alert(OLD, "7", FIRST_CHANGE_MS)
    yield replace(first, state=AlertState.RESOLVED, resolved_ms=SERVES_MS, reason=Resolution.PROMOTED)
    yield _alert(OLD, "7", CHANGE_MS)


def _summary(model: str, version: str, since_ms: int) -> str:
    return (
        f"Predictions of {model} {version} are too sure of themselves since {minute_text(since_ms)}: slope 0.59 "
        "(0.52 to 0.65), where 1 is right; from 0.6% to 62%: too low (33% predicted, 40% came true)."
    )


def _alert(model: str, version: str, since_ms: int) -> Alert:
    finding = replace(
        finding_of_shape(),
        model=model,
        version=version,
        since_ms=since_ms,
        from_ms=since_ms - DAY_MS // 4,
        to_ms=since_ms + DAY_MS // 4,
        summary=f"{_summary(model, version, since_ms)} Refit on the events since then.",
    )
    alert = advanced(None, finding, since_ms + DAY_MS)
    assert alert is not None
    return alert
