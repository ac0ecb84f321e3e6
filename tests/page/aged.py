"""A fleet for a browser: of 1 or 200 models, just started or with a past of a year; the same in each run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from monitor.clock import ManualClock
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.events.times import format_time, parse_time
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

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AREAS: Final = ("credit", "fraud", "pricing", "returns", "leads", "support", "ads", "claims", "supply", "search")
_PLACES: Final = ("at", "be", "br", "ca", "ch", "cz", "de", "dk", "es", "fr", "gb", "ie", "in", "it", "jp", "nl", "no")


class Aged(NamedTuple):
    """A service at a URL."""

    url: str
    alert_id: str = ""
    refit_id: str = ""

    @property
    def model(self) -> str:
        """The page of the model with a past, as far back as a page looks."""
        return f"{self.url}/models/{OLD}?range=90+days"

    @property
    def report(self) -> str:
        """The page of its last window."""
        return f"{self.url}/reports/{OLD}?window=24h"

    @property
    def alert(self) -> str:
        """The page of its open alert."""
        return f"{self.url}/alerts/{self.alert_id}"

    @property
    def refit(self) -> str:
        """The page of the refit whose map serves."""
        return f"{self.url}/recalibrations/{self.refit_id}"


@contextmanager
def fresh_site(folder: Path, models: int) -> Iterator[Aged]:
    """The service three hours after its start, when no outcome is settled; it stops at the end."""
    refits = Refits(folder)
    panes = MemoryPanes(POLICY)
    evaluator = _evaluator(panes)
    _live(panes, NOW_MS - DAY_MS // 8, NOW_MS, 75)
    evaluator.evaluate()
    with refits.database.database.writing() as connection:
        history.append(connection, points_of(evaluator.latest.reports.values()))
    few = "no labelled prediction is settled, at least 100 are needed"
    others = [
        replace(report(name, "1", window="24h", n=0, insufficient=few), predictions=75) for name in _names(models)
    ]
    fleet = snapshot(others)
    evaluator._shown.latest = replace(fleet, models=dict(sorted({**fleet.models, **evaluator.latest.models}.items())))
    with _served(evaluator, refits) as url:
        yield Aged(url)


@contextmanager
def aged_site(folder: Path, models: int = MODELS) -> Iterator[Aged]:
    """The service after a year; it stops at the end."""
    refits = Refits(folder)
    store = refits.database.database
    refits.clock._start_ms = SERVES_MS  # a map served long ago: the clock goes on to NOW_MS below
    asked = refits.request(refits.make_request(OLD, version="7"), actor="ada")[0]
    refits.promote(refits.end(asked.id, chosen=Temperature(SLOPE)).id, actor="ada", note="")
    refits.clock.advance((NOW_MS - refits.clock.now_ms()) / 1000)
    evaluator, points = _year()
    with store.writing() as connection:
        for of_day in points:
            history.append(connection, of_day)
    fleet, levels = _fleet(models)
    old = evaluator.latest.models[OLD]
    evaluator._shown.latest = replace(fleet, models=dict(sorted({**fleet.models, OLD: old}.items())))
    with store.writing() as connection:
        evidence_history.append(connection, {**levels, (OLD, "7"): _evidence_of_a_year()})
        alerts = list(_alerts(fleet))
        for alert in alerts:
            save(store, connection, [(None, alert)], alert.resolved_ms or alert.firing_ms or NOW_MS)
    with _served(evaluator, refits) as url:
        yield Aged(url, alerts[-1].id, asked.id)


@cache
def _year() -> tuple[Alone, Sequence[dict[SeriesKey, history.Points]]]:
    """The evaluator of the model with a past, and the points of its windows at each evaluation."""
    says = Explanation("shape", f"{_summary(OLD, '7', CHANGE_MS)} Refit on the events since then.", is_firing=True)
    firing = evidence(calibration=evidence_level(6.4, raised=True))._replace(
        explanations={"calibration": says}, revision=1
    )
    panes = MemoryPanes(POLICY)
    evaluator, points = _evaluator(panes), list[dict[SeriesKey, history.Points]]()
    for day in range(365):
        from_ms = START_MS + day * DAY_MS
        _live(panes, from_ms, from_ms + DAY_MS, 600)
        # A page shows the last 90 days: what is older need not be as dense.
        if day >= 270 or day % 7 == 0:
            evaluator.evaluate({OLD: ModelEvidence({"7": firing})})
            points.append(points_of(evaluator.latest.reports.values()))
    return evaluator, points


def _evaluator(panes: MemoryPanes) -> Alone:
    return Alone(
        panes,
        [Window("24h", DAY_MS), Window("7d", 7 * DAY_MS)],
        measures={name: MEASURES[name] for name in ("tce", "smce")},
        draws=29,
        clock=ManualClock(NOW_MS),
    )


@contextmanager
def _served(evaluator: Alone, refits: Refits) -> Iterator[str]:
    store = refits.database.database
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
        yield server.url
    finally:
        server.stop()
        refits.close()


def _live(panes: MemoryPanes, from_ms: int, to_ms: int, count: int) -> None:
    """Add some events to the model with a past."""
    times = from_ms + np.arange(count) * ((to_ms - from_ms) // count)
    wrong = SLOPE if times[0] >= FIRST_CHANGE_MS else 1.0
    slopes = {ALL: wrong, "region=eu": wrong, "region=us": wrong}
    if times[0] >= CHANGE_MS:
        slopes |= {ALL: 1.6 * wrong, "region=eu": 2.2 * wrong}
    for at, (segment, slope) in enumerate(slopes.items()):
        p, y = calibrated(times.size, 3 * ((from_ms - START_MS) // DAY_MS) + at, slope=slope)
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


def _names(models: int) -> list[str]:
    """Names of the models beside the one with a past."""
    names = [f"{area}-{place}" for area in _AREAS for place in _PLACES]
    names += [f"{area}-{place}-v2" for area in _AREAS[:2] for place in _PLACES]
    return names[: models - 1]


def _fleet(models: int) -> tuple[Snapshot, dict[tuple[str, str], evidence_history.Points]]:
    """The others: every twentieth fires, every fortieth is near, and few have too little data; with their past."""
    rng = np.random.default_rng(1)
    steps = 14 * 8
    reports, states, past = [], dict[tuple[str, str], VersionEvidence](), {}
    for at, name in enumerate(_names(models)):
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


def _later(part: Any, by_ms: int) -> Any:
    """A part of an alert's document, with its times moved."""
    if isinstance(part, Mapping):
        return {name: _later(value, by_ms) for name, value in part.items()}
    if isinstance(part, list):
        return [_later(value, by_ms) for value in part]
    if isinstance(part, str):
        return _TIME.sub(lambda time: format_time(parse_time(time.group()) + by_ms), part)
    return part


def _alert(model: str, version: str, since_ms: int) -> Alert:
    shape = finding_of_shape()
    finding = replace(
        shape,
        model=model,
        version=version,
        since_ms=since_ms,
        from_ms=since_ms - DAY_MS // 4,
        to_ms=since_ms + DAY_MS // 4,
        settled_ms=shape.settled_ms + since_ms - shape.since_ms,
        log10_evidence=6.4,
        log10_line=4.0,
        document=_later(shape.document, since_ms - shape.since_ms),
        summary=f"{_summary(model, version, since_ms)} Refit on the events since then.",
    )
    alert = advanced(None, finding, since_ms + DAY_MS)
    assert alert is not None
    return alert
