"""What is compared at the end of each simulated month, and the table by month."""

import re
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import sqlalchemy as sa

from monitor.alarms.watch import WEIGHTS, VersionWatch
from monitor.events.model import ALL, SeriesKey
from monitor.measures import MEASURES
from monitor.store.schema import COUNTERS, MODELS, STRATA
from tests.alarms.receiver import Receiver
from tests.patience import PATIENCE_SECONDS
from tests.year.fleet import DAY_MS, HORIZON_MS, LATENESS_MS, NAMES_DAY, Fault, Fleet
from tests.year.service import LOOK_BACK_DAYS, PANE_MS, WINDOWS, Service
from tests.year.truth import Truth

FLAT: Final = 1.15
"""From the third month on, the last three months may take so many times what the first three did ..."""
FLAT_MORE: Final = {"memory_mib": 32.0, "tables_mib": 4.0, "samples": 0.0, "rest_seconds": 0.1}
"""... and so much more."""
_MODEL: Final = re.compile(r'[{,]model="([^"]+)"')
_VERSION: Final = re.compile(r'[{,]version="([^"]+)"')
_KEPT_DAYS: Final = 28 + LOOK_BACK_DAYS
_GONE_DAYS: Final = _KEPT_DAYS + (HORIZON_MS + LATENESS_MS) // DAY_MS + 12
"""After so many days without a prediction nothing may be left of a name."""
_REPORTS: Final = 200
"""Reports that are compared each month."""
_AFTER_DAYS: Final = 30
"""After the end of a fault, in which windows and references still hold it."""
_MOST_FALSE: Final = 5
"""Of a budget of one a year: as many or more come in one year of 270."""


class Month(NamedTuple):
    """A row of the table."""

    month: int
    events: int
    models: str
    """Models that live, and that ever lived."""
    versions: str
    strata: int
    """Rows of names that the store holds."""
    samples: int
    """Samples of /metrics, of all replicas."""
    memory_mib: float
    """Of all replicas."""
    tables_mib: float
    """In use, of the store."""
    store_mib: float
    evaluation_seconds: float
    """Median over the month. Where the machine is busy, more days have passed from one to the next."""
    rest_seconds: float
    """Of an evaluation when nothing is to be read any more."""

    @classmethod
    def head(cls) -> str:
        """Two lines: the names of the columns."""
        return (
            "| month | events so far | models: live / ever | versions: live / ever | names stored | samples "
            "| memory, MiB | tables, MiB | store, MiB | evaluation, s | at rest, s |\n" + "|---:" * 11 + "|"
        )

    def text(self) -> str:
        """A line of the table."""
        return (
            f"| {self.month} | {self.events:,} | {self.models} | {self.versions} | {self.strata:,} | {self.samples:,} "
            f"| {self.memory_mib:,.0f} | {self.tables_mib:,.1f} | {self.store_mib:,.1f} "
            f"| {self.evaluation_seconds:.2f} | {self.rest_seconds:.3f} |"
        )


class Months:
    """Compares what the service says with the offline computation.

    Parameters
    ----------
    fleet, truth
        What was published, and what must come of it.
    service, receiver
        What is asked, and where alerts are sent.
    """

    def __init__(self, fleet: Fleet, service: Service, truth: Truth, receiver: Receiver) -> None:
        self._fleet, self._service, self._truth, self._receiver = fleet, service, truth, receiver
        self._rows: list[Month] = []
        self._tables: list[Mapping[str, float]] = []
        """MiB of each table of the store, by month."""
        self._seconds: list[float] = []
        self._alerts: dict[str, Mapping[str, Any]] = {}
        """By id, as last seen."""
        self._fired_ms: dict[str, int] = {}
        """Up to when there was evidence on each when it was first seen to fire: by the clock, where days pass in
        seconds, it fires days later."""
        self._moments: list[tuple[str, dict[str, str], Any]] = []
        """Path and parameters of a report, and the report."""

    # ------------------------------------------------------------------ each week

    def look(self, now_ms: int) -> None:
        """Note how long evaluations take, and acknowledge every other new alert."""
        # A replica that has just started has evaluated nothing yet.
        self._seconds += self._last_evaluations()
        for alert in self._all("/v1/alerts", "alerts"):
            if alert["id"] not in self._alerts and alert["state"] == "firing" and int(alert["id"][-1], 16) % 2:
                body = {"note": f"seen {now_ms}"}
                self._service.request("POST", f"/v1/alerts/{alert['id']}/acknowledgement", json=body)
            if alert["firing_since"]:
                self._alerts[alert["id"]] = alert
                self._fired_ms.setdefault(alert["id"], _ms(alert["settled_to"]))

    def _last_evaluations(self) -> list[float]:
        """How long the last evaluation of each replica took, in seconds."""
        took = [line for line in self._service.samples() if line.startswith("calibration_evaluation_duration_seconds")]
        return [float(line.split()[-1]) for line in took]

    # ------------------------------------------------------------------ as of a past moment

    def note_moment(self) -> None:
        """Note the reports of the declared models, once nothing moves any more."""
        for model in self._stable():
            if model["model"].startswith("m") and model["settled_to"]:
                path = f"/v1/models/{model['model']}/report"
                for window in WINDOWS:
                    parameters = {"version": model["current_version"], "window": window}
                    report = self._service.get(path, parameters)
                    self._moments.append((path, {"as_of": model["watermark"], **parameters}, report))

    def compare_moments(self) -> list[str]:
        """Ask for those reports as of then."""
        wrong = []
        for path, parameters, report in self._moments:
            then = self._service.get(path, parameters)
            different = [key for key in report if key != "evidence" and report[key] != then[key]]
            if different:
                pairs = {key: (report[key], then[key]) for key in different[:3]}
                wrong.append(f"as of a past moment, {path} {parameters}: {pairs}")
        self._moments = []
        return wrong

    def _stable(self) -> list[Any]:
        """The models, once they stay as they are for some evaluations and checkpoints."""
        deadline, before = time.monotonic() + PATIENCE_SECONDS, None
        while time.monotonic() < deadline:
            models = self._all("/v1/models", "models")
            now = [(one["model"], one["watermark"], one["settled_to"]) for one in models]
            if now == before:
                return models
            before = now
            time.sleep(22.0)
        raise RuntimeError("the models do not come to rest")

    # ------------------------------------------------------------------ each month

    def compare(self, now_ms: int, events: int) -> list[str]:
        """Compare everything, and print a row of the table."""
        month = len(self._rows) + 1
        models = self._stable()
        rest_seconds = statistics.median(self._last_evaluations())
        self.look(now_ms)
        wrong = [
            *self._count(),
            *self._watch(models, now_ms),
            *self._measure(),
            *self._remember(models),
            *self._weigh(models, now_ms),
            *self._retire(models, now_ms),
            *self._deliver(),
        ]
        lives = [life for _, life in self._fleet.living(now_ms)]
        ever = [life for life in self._fleet.lives if life.born_ms <= now_ms]
        with self._service.store.database.reading() as connection:
            strata = connection.execute(sa.select(sa.func.count()).select_from(STRATA)).scalar_one()
        self._tables.append(self._service.tables_mib())
        row = Month(
            month,
            events,
            f"{len(lives)} / {len(ever)}",
            f"{sum(len(one['versions']) for one in models)} / {sum(life.version(now_ms) for life in ever)}",
            strata,
            len(self._service.samples()),
            sum(replica.memory_mib() for replica in self._service.replicas),
            sum(self._tables[-1].values()),
            self._service.store_mib(),
            statistics.median(self._seconds),
            rest_seconds,
        )
        self._seconds = []
        self._rows.append(row)
        self._tables.append(self._service.tables_mib())
        print(row.text(), flush=True)
        return [f"month {month}: {line}" for line in wrong]

    def _count(self) -> Iterator[str]:
        of = COUNTERS.c
        with self._service.store.database.reading() as connection:
            rows = connection.execute(
                sa.select(of.type, of.result, sa.func.sum(of.events)).group_by(of.type, of.result)
            )
            counted = {(type_, result): int(count) for type_, result, count in rows}
        # Of invented models some have found a place.
        refused = counted.get(("prediction", "refused"), 0)
        counted["prediction", "accepted"] = counted.get(("prediction", "accepted"), 0) + refused
        for key, expected in self._truth.counts.items():
            if counted.get(key, 0) != expected:
                yield f"{' '.join(key)}: {counted.get(key, 0):,} counted, {expected:,} published"
        for key in (("prediction", "late"), ("outcome", "late"), ("prediction", "duplicate"), ("outcome", "duplicate")):
            if counted.get(key):
                yield f"{' '.join(key)}: {counted[key]:,} counted, and there are none"

    def _watch(self, models: list[Any], now_ms: int) -> Iterator[str]:
        """Every declared model is measured, by its newest events."""
        known = {one["model"]: one for one in models}
        for life in self._fleet.lives:
            if life.name.startswith("m"):
                one = known.get(life.name)
                if one is None or one["state"] != "measured" or now_ms - _ms(one["watermark"]) > DAY_MS:
                    yield f"the declared model {life.name} is not watched: {one and (one['state'], one['watermark'])}"

    def _measure(self) -> Iterator[str]:
        """Windows are those of the offline computation."""
        reports = [one for one in self._all("/v1/reports", "reports") if self._is_known(one["model"])]
        rng = np.random.default_rng(len(self._rows))
        for at in rng.permutation(len(reports))[:_REPORTS].tolist():
            report = reports[at]
            series = SeriesKey(report["model"], report["version"], report["segment"])
            if report["from"] is None:
                continue
            table = self._truth.table(series, _ms(report["from"]), _ms(report["to"]))
            scores = table.to_scores()
            expected: dict[str, float] = {
                "predictions": table.predictions,
                "n": table.labelled,
                "positives": int(scores.positives.sum()),
            }
            got = {name: report[name] for name in expected}
            if got == expected:
                for name, result in report["measures"].items():
                    expected[name], got[name] = MEASURES[name].value(scores), result["value"]
            if got != expected:
                yield f"{series} {report['window']} to {report['to']}: {got}, not {expected}"

    def _remember(self, models: list[Any]) -> Iterator[str]:
        """The history is that of the offline computation."""
        for model in models[: len(models) : 5]:
            if not self._is_known(model["model"]):
                continue
            found = self._service.get(f"/v1/models/{model['model']}/history", {"window": "7d"})
            series = SeriesKey(model["model"], found["version"], ALL)
            kept_ms = self._truth.rows.time_ms.min()
            for point in found["points"]:
                if _ms(point["from"]) >= kept_ms:
                    table = self._truth.table(series, _ms(point["from"]), _ms(point["to"]))
                    if (point["n"], point["predictions"]) != (table.labelled, table.predictions):
                        yield f"history of {series}: {point}, not {table.labelled} of {table.predictions}"
                        break

    def _weigh(self, models: list[Any], now_ms: int) -> Iterator[str]:
        """Evidence on versions without alerts is that of the offline computation."""
        alerted = {(alert["model"], alert["version"]) for alert in self._alerts.values()}
        kept_ms = self._truth.rows.time_ms.min()
        # A model that stopped keeps the evidence on its last versions for longer than all predictions are remembered.
        began_ms = {
            (life.name, str(number)): release_ms
            for life in self._fleet.lives
            for number, release_ms in enumerate(life.releases_ms, 1)
        }
        for model in models:
            name = model["model"]
            if not self._is_known(name) or name in {"m00", "m01", "m02"} or not model["settled_to"]:
                continue
            found = self._service.get(f"/v1/models/{name}/evidence")["versions"]
            for version in found[-1:]:
                of = name, version["version"]
                if of not in alerted and began_ms[of] >= kept_ms:
                    yield from self._weigh_version(name, version["version"], version)

    def _weigh_version(self, name: str, version: str, found: Mapping[str, Any]) -> Iterator[str]:
        to_ms = _ms(found["settled_to"])
        segments = {ALL} | {f"region={one}" for one in self._truth.regions(name, int(version))}
        steps = {one: self._truth.steps(SeriesKey(name, version, one), PANE_MS, to_ms) for one in sorted(segments)}
        steps = {one: of for one, of in steps.items() if of.end_ms.size}
        if not steps:
            return
        watch = VersionWatch(name, version, 0.05, min(int(of.end_ms[0]) for of in steps.values()) - 1)
        lines = lines_for(WEIGHTS)
        watch.update(steps, lines)
        levels = watch.levels(lines)
        for detector in found["detectors"]:
            got, expected = detector["log10_evidence"], levels[detector["detector"]].log10_evidence
            if got is not None and abs(got - expected) > 1e-6 * max(1.0, abs(expected)):
                yield f"evidence of {detector['detector']} on {name} {version}: {got}, not {expected}"

    def _retire(self, models: list[Any], now_ms: int) -> Iterator[str]:
        """Nothing is exported, listed or stored of what has retired."""
        live = self._live(now_ms)
        invented = now_ms - self._fleet.start_ms < (NAMES_DAY + _GONE_DAYS) * DAY_MS
        with self._service.store.database.reading() as connection:
            # Names of versions and segments stay until a cap that is half used gets places back by them.
            stored = {(row.name, "") for row in connection.execute(sa.select(MODELS.c.name))}
        exported = {
            (model[1], "" if version is None else version[1])
            for line in self._service.samples()
            # A cap that is not of one model has no name of a model.
            if (model := _MODEL.search(line))
            for version in [_VERSION.search(line)]
        }
        listed = {(one["model"], version["version"]) for one in models for version in one["versions"]}
        for where, names in (("stored", stored), ("exported", exported), ("listed", listed)):
            for model, version in sorted(names):
                if model.startswith("invented") and invented:
                    continue
                if model not in live or (version and version not in live[model]):
                    yield f"{model} {version} is {where}, and has retired"
                    break

    def _live(self, now_ms: int) -> dict[str, set[str]]:
        """The versions of each model of which something may be left."""
        live: dict[str, set[str]] = {}
        for life in self._fleet.lives:
            newest_ms = min(now_ms, life.dies_ms)
            if life.born_ms <= now_ms and newest_ms > now_ms - _GONE_DAYS * DAY_MS:
                first = life.version(max(life.born_ms, newest_ms - _GONE_DAYS * DAY_MS))
                live[life.name] = {str(one) for one in range(first, len(life.releases_ms) + 2)}
        return live

    def _deliver(self) -> Iterator[str]:
        """What became of each alert was sent to the receiver."""
        if self._receiver.statuses:
            return
        sent: dict[str, list[str]] = defaultdict(list)
        for body in self._receiver.taken():
            for alert in body["alerts"]:
                sent[f"al_{alert['fingerprint']}"].append(alert["status"])
        for alert in self._all("/v1/alerts", "alerts"):
            if alert["firing_since"]:
                last = "resolved" if alert["state"] == "resolved" else "firing"
                if sent[alert["id"]][-1:] != [last]:
                    yield f"alert {alert['id']} is {alert['state']}, and the receiver got {sent[alert['id']]}"

    # ------------------------------------------------------------------ at the end

    def verdict(self) -> Iterator[str]:
        """What is wrong with alerts and with the growth of the year."""
        faults = {life.name: life.faults for life in self._fleet.lives}
        fired: dict[str, list[int]] = defaultdict(list)
        for alert in self._alerts.values():
            fired[alert["model"]].append(self._fired_ms[alert["id"]])
        end_ms = self._fleet.start_ms + self._fleet.days * DAY_MS - HORIZON_MS - LATENESS_MS
        delays = []
        for model, of_model in faults.items():
            for fault in of_model:
                if fault.to_ms > end_ms:
                    continue
                delay_ms = min((at - fault.from_ms for at in fired[model] if at > fault.from_ms), default=None)
                if delay_ms is None or fault.from_ms + delay_ms > fault.to_ms:
                    yield f"the fault of {model} from {_days(fault, self._fleet)} was not found: {fired[model]}"
                else:
                    delays.append(delay_ms / DAY_MS)
        false = [
            alert
            for alert in self._alerts.values()
            if not any(
                fault.from_ms <= _ms(alert["firing_since"]) <= fault.to_ms + _AFTER_DAYS * DAY_MS
                for fault in faults.get(alert["model"], ())
            )
        ]
        print(f"{len(delays)} faults found, {len(self._alerts)} alerts, {len(false)} of them false")
        if delays:
            print(f"days of predictions that it took: median {statistics.median(delays):.1f}, most {max(delays):.1f}")
        if len(false) >= _MOST_FALSE:
            yield f"{len(false)} false alarms, of a budget of one a year: {[one['summary'] for one in false]}"
        yield from self._growth()

    def _growth(self) -> Iterator[str]:
        rows = self._rows[2:]
        if len(rows) < 4:
            print(f"growth is not judged: {len(rows)} months from the third one on, 4 are needed")
            return
        for name, more in FLAT_MORE.items():
            first, last = (
                statistics.mean(getattr(row, name) for row in part)
                for part in (rows[: min(3, len(rows) // 2)], rows[-min(3, len(rows) // 2) :])
            )
            if last > FLAT * first + more:
                yield f"{name} grew from {first:,.2f} to {last:,.2f}"
        tables = {name: [of_month.get(name, 0.0) for of_month in self._tables] for name in self._tables[-1]}
        print("MiB of the largest tables of the store, by month:")
        for name, sizes in sorted(tables.items(), key=lambda one: -max(one[1]))[:10]:
            print(f"{name:>20} {' '.join(f'{size:6.1f}' for size in sizes)}")

    # ------------------------------------------------------------------ reading

    def _is_known(self, model: str) -> bool:
        return not model.startswith("invented")

    def _all(self, path: str, name: str) -> list[Any]:
        """All pages of a list."""
        found: list[Any] = []
        cursor: dict[str, str] = {}
        while True:
            page = self._service.get(path, {"limit": "1000", **cursor})
            found += page[name]
            if not page.get("next_cursor"):
                return found
            cursor = {"cursor": page["next_cursor"]}


def lines_for(detectors: Mapping[str, float]) -> dict[str, float]:
    """Lines at which nothing fires."""
    return dict.fromkeys(detectors, 1e12)


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _days(fault: Fault, fleet: Fleet) -> str:
    return f"day {(fault.from_ms - fleet.start_ms) / DAY_MS:.0f} to {(fault.to_ms - fleet.start_ms) / DAY_MS:.0f}"
