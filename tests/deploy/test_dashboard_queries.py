"""Every query of every dashboard, asked of a real Prometheus that scrapes three running replicas."""

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest
import yaml

from deploy.dashboards.__main__ import DASHBOARDS
from monitor.app.service import Service
from monitor.app.settings import Settings
from monitor.cli.demo import demo_settings
from monitor.clock import SystemClock
from monitor.simulation.simulator import Pace, Simulator
from monitor.simulation.traffic import HORIZON_MS, LATENESS_MS
from tests.deploy.boards import AskedQuery, queries, variables
from tests.deploy.chart import CHART
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.prometheus import JOB, Prometheus, Sample

pytestmark = pytest.mark.timeout(1800)  # the first time, Prometheus may have to be fetched or built

MODEL: Final = "overconfident"
DRIFTED: Final = "rare-event"
"""What is not repaired."""
METHOD: Final = "temperature"
"""What repairs it, and is quick."""
TOPIC: Final = "calibration-events"
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
NAMESPACE: Final = "ml (eu)"
ROLES: Final = {
    "replica-0:8000": ("consume", "evaluate", "serve"),
    "replica-1:8000": ("evaluate", "serve"),
    "replica-2:8000": ("evaluate",),
}
BEGAN_MS: Final = time.time() * 1000
"""Before anything happened here."""
INTERVALS: Final = {"__rate_interval": "1m", "__range": "5m", "__interval": "5s"}


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Watched"]:
    """Three replicas, and a Prometheus with everything that dashboards show.

    The replicas have the demonstration's events, up to some hours after its models changed; one of them was repaired.
    The chart's alerts fire without delay.
    """
    directory = tmp_path_factory.mktemp("watched")
    tree = demo_settings(directory, 0).model_dump(exclude_unset=True)
    # Few resamples and frequent looks: what is measured is tested elsewhere. Caps are shown from a half on.
    tree |= {"evaluation": {"interval": "4s", "draws": 19}, "caps": {"versions": 2}}
    settings = Settings.model_validate(tree)
    clock = SystemClock()
    replicas = [Service(settings.model_copy(update={"roles": roles}), clock=SystemClock()) for roles in ROLES.values()]
    service = replicas[0]
    pace = Pace(history_ms=HOUR_MS, calm_ms=HOUR_MS // 2)
    simulator = Simulator(service.log.writer.write, TOPIC, clock, pace=pace, seed=32, rate=1.0)
    for replica in replicas:
        # Maps are looked at twice a minute.
        replica.recalibration._live_maps._seconds = 0.5
        replica.start()
    try:
        addresses = [replica.server.url.removeprefix("http://") for replica in replicas]
        scraped = _scraped(addresses, _hasty(directory))
        with Prometheus(directory / "prometheus", settings=scraped) as running:
            simulator.write_until(simulator.change_ms + 5 * HOUR_MS // 2)
            _wait_until_evaluated(replicas, simulator)
            _wait_until_sampled(service, simulator)
            _repair(service.server.url)
            simulator.write_until(simulator.now_ms + HOUR_MS // 4)
            _wait_until_evaluated(replicas, simulator)
            running.wait_for(f'calibration_map_events{{model="{MODEL}",map="champion"}} > 0')
            running.wait_for('ALERTS{alertstate="firing",model!=""}')
            yield Watched(running, replicas)
    finally:
        ended_well = [replica.stop() for replica in replicas]
    assert all(ended_well)


@pytest.fixture
def watched(replicas: "Watched") -> Prometheus:
    """The Prometheus that scrapes the replicas."""
    return replicas.prometheus


class Watched(NamedTuple):
    """Running replicas, and what scrapes them."""

    prometheus: Prometheus
    replicas: list[Service]


def _wait_until_evaluated(replicas: list[Service], simulator: Simulator) -> None:
    """Until all that was written is read and measured, with its intervals, and each replica has models."""
    service = replicas[0]

    def evaluated() -> bool:
        latest = service.snapshots.latest
        newest = max((model.watermark_ms for model in latest.models.values()), default=0)
        behind = sum(lag or 0 for lag in service.status.lag.values())
        stale = sum(replica.evaluator.staleness for replica in replicas)
        exported = sorted(model for replica in replicas for model in replica.snapshots.exported().models)
        each_once = exported == sorted(latest.models)
        return newest > simulator.now_ms - MINUTE_MS and behind == 0 and stale == 0 and each_once

    eventually(evaluated, shown=lambda: [(one.status, one.evaluator.staleness, one.leases.held()) for one in replicas])


def _wait_until_sampled(service: Service, simulator: Simulator) -> None:
    """Until what a refit is made of is saved, which is later than it is measured: up to what can change no more."""
    settled_ms = simulator.now_ms - HORIZON_MS - LATENESS_MS - 2 * MINUTE_MS
    seen = [0]

    def sampled() -> bool:
        sample = service.store.read_sample(MODEL, "1")
        seen.append(sample.population)
        return bool(len(sample.events)) and int(sample.events.time_ms.max()) > settled_ms and seen[-2] == seen[-1]

    eventually(sampled, shown=lambda: seen, pause_seconds=0.5)


def _scraped(addresses: list[str], rules: Iterator[Path]) -> Mapping[str, Any]:
    return {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            {
                "job_name": JOB,
                "static_configs": [
                    {"targets": [address], "labels": {"instance": replica, "namespace": NAMESPACE}}
                    for address, replica in zip(addresses, ROLES, strict=True)
                ],
            }
        ],
    }


def _hasty(directory: Path) -> Iterator[Path]:
    """The chart's rules, as fast as a test: an alert fires at the first evaluation that finds it."""
    for path in sorted((CHART / "rules").glob("*.yaml")):
        groups = yaml.safe_load(path.read_text())
        for group in groups["groups"]:
            for rule in group["rules"]:
                rule.pop("for", None)
        (directory / path.name).write_text(yaml.safe_dump(groups))
        yield directory / path.name


def _repair(url: str) -> None:
    """Refit a model, and promote the map."""
    with httpx.Client(base_url=f"{url}/v1", timeout=PATIENCE_SECONDS) as service:
        started = service.post(f"/models/{MODEL}/recalibrations", json={"method": METHOD})
        assert started.status_code == 202, started.text
        address = f"/recalibrations/{started.json()['id']}"

        def ended() -> Mapping[str, Any] | None:
            found: dict[str, Any] = service.get(address).raise_for_status().json()
            return None if found["state"] in {"queued", "running"} else found

        found = eventually(ended)
        assert found is not None
        assert found["state"] == "candidate", found
        service.post(f"{address}/promotion", json={}).raise_for_status()


def chosen(name: str, running: Prometheus, **wanted: str) -> dict[str, str]:
    """A value of each of a dashboard's variables: what Grafana would offer first, or what is wanted."""
    values: dict[str, str] = {}
    for variable in variables(name):
        asked = variable["query"]["query"]
        match = re.fullmatch(r"label_values\((.+), (\w+)\)", asked)
        assert match, asked
        found = running.label_values(match[2], filled(match[1], values))
        assert found, f"{variable['name']} has no value: {asked}"
        value = wanted.get(variable["name"], variable.get("current", {}).get("value", found[0]))
        if value == "$__all":
            values[variable["name"]] = variable["allValue"]
            continue
        assert value in found, (variable["name"], value, found)
        values[variable["name"]] = value
    return values


def filled(expression: str, values: Mapping[str, str]) -> str:
    """With the values of its variables, as Grafana fills them in."""
    values = {**values, **INTERVALS}
    return re.sub(r"\$\{?(\w+)\}?", lambda used: values[used[1]], expression)


def results(running: Prometheus, query: AskedQuery, values: Mapping[str, str]) -> list[tuple[Mapping[str, str], float]]:
    """The labels and the last value of each result that has a number."""
    expression = filled(query.expr, values)
    if query.instant:
        found = [(each.labels, each.value) for each in running.query(expression)]
    else:
        found = [(each["metric"], float(each["values"][-1][1])) for each in running.query_range(expression, seconds=30)]
    return [(labels, value) for labels, value in found if not math.isnan(value)]


def answered(running: Prometheus, expression: str, count: int) -> list[Sample]:
    """The answer, once it has so many elements: it has fewer where a scrape took too long."""
    found: list[Sample] = []

    def look() -> bool:
        found[:] = running.query(expression)
        return len(found) == count

    eventually(look, shown=lambda: found)
    return found


def named(legend: str, labels: Mapping[str, str]) -> str:
    """What a result is called, as Grafana fills in a legend."""
    return re.sub(r"\{\{(\w+)\}\}", lambda used: labels.get(used[1], ""), legend)


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_every_query_returns_data(name: str, watched: Prometheus) -> None:
    values = chosen(name, watched, **({"model": MODEL} if name == "model" else {}))
    waiting = list(queries(name))

    def look() -> bool:
        waiting[:] = [
            query
            for query in waiting
            # The alert of the one that was repaired is over.
            if not results(watched, query, values | ({"model": DRIFTED} if query.title == "Change points" else {}))
        ]
        return not waiting

    # What is told first after a while, such as a rate over a minute, gets its time once for all.
    eventually(
        look, shown=lambda: [f"{query.title}: {filled(query.expr, values)}" for query in waiting], pause_seconds=1.0
    )


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_of_several_replicas_no_two_lines_have_one_name(name: str, watched: Prometheus) -> None:
    values = chosen(name, watched, **({"model": MODEL} if name == "model" else {}))
    for query in queries(name):
        found = [labels for labels, _ in results(watched, query, values)]
        names = [named(query.legend, labels) for labels in found]
        if query.legend:
            assert len(set(names)) == len(names), (query.title, names)
        elif not query.instant:
            assert len(found) <= 1, (query.title, found)


def test_a_choice_of_several_is_taken_for_each_of_them(watched: Prometheus) -> None:
    """Grafana hands over a regular expression, with what has a meaning there escaped."""
    running = watched
    values = chosen("fleet", running) | {"model": "calibrated|rare-event", "namespace": r"ml \\(eu\\)"}
    (models,) = [query for query in queries("fleet") if query.title == "Models"]
    eventually(lambda: [value for _, value in results(running, models, values)] == [2])
    values["namespace"] = "elsewhere"
    assert results(running, models, values) == []


def test_sum_and_maximum_over_replicas_are_the_value_of_the_model(replicas: Watched) -> None:
    running, services = replicas
    exporting = [set(service.snapshots.exported().models) for service in services]
    assert sum(map(bool, exporting)) > 1, exporting
    by = "by (model, version, segment, window)"
    for name, read in {
        "calibration_tce_ratio": lambda report: report["measures"]["tce"]["value"] / 100,
        "calibration_smce": lambda report: report["measures"]["smce"]["value"],
        "calibration_window_labelled": lambda report: report["n"],
        "calibration_window_predictions": lambda report: report["predictions"],
    }.items():

        def look(name: str = name, read: Callable[[Mapping[str, Any]], float] = read) -> bool:
            # Every replica that serves says the same; the third one does not serve.
            answers = [
                httpx.get(f"{service.server.url}/v1/reports?limit=1000").raise_for_status().json()["reports"]
                for service in services[:2]
            ]
            expected = [
                {
                    tuple(report[label] for label in ("model", "version", "segment", "window")): read(report)
                    for report in reports
                    if report["measures"]
                }
                for reports in answers
            ]
            sums, maxima, counts = (
                {
                    tuple(sample.labels[label] for label in ("model", "version", "segment", "window")): sample.value
                    for sample in running.query(f"{function} {by} ({name})")
                }
                for function in ("sum", "max", "count")
            )
            wanted = {key: pytest.approx(value, rel=1e-12) for key, value in expected[0].items()}
            return (
                expected[0] == expected[1]
                and len(wanted) > 0
                and all(sums.get(key) == value == maxima.get(key) for key, value in wanted.items())
                and set(counts.values()) == {1.0}
            )

        eventually(look, shown=lambda: exporting, pause_seconds=0.5)
    # The rules that alerts and dashboards read have each model once, too.
    recorded = running.query(
        "count by (__name__, model, version, segment, window, cohort) ({__name__=~'calibration:.+',model!=''})"
    )
    assert recorded
    assert {sample.value for sample in recorded} == {1.0}


def test_of_refits_each_model_is_exported_once(watched: Prometheus) -> None:
    for name in ("calibration_refits_total", "calibration_champion_active", "calibration_map_events"):
        labels = "by (model, version, result, map)"
        counted: list[Sample] = []

        def look(expression: str = f"count {labels} ({name})", counted: list[Sample] = counted) -> bool:
            counted[:] = watched.query(expression)
            return bool(counted)

        eventually(look)
        assert {sample.value for sample in counted} == {1.0}, name


def test_bins_add_up_to_what_the_windows_say(watched: Prometheus) -> None:
    running = watched
    labels = "(model, version, segment, window)"
    labelled = answered(
        running, f"sum by {labels} (calibration_bin_labelled) / sum by {labels} (calibration_window_labelled)", 10
    )
    assert {each.value for each in labelled} == {1.0}
    mean = f"sum by {labels} (calibration_bin_summed_predictions) / sum by {labels} (calibration_bin_labelled)"
    (off,) = answered(running, f"max(abs({mean} - max by {labels} (calibration_mean_prediction_ratio)))", 1)
    assert off.value < 1e-12
    prevalence = f"sum by {labels} (calibration_bin_positives) / sum by {labels} (calibration_bin_labelled)"
    (off,) = answered(running, f"max(abs({prevalence} - max by {labels} (calibration_prevalence_ratio)))", 1)
    assert off.value < 1e-12


def test_intervals_of_the_reliability_diagram_are_wilsons(watched: Prometheus) -> None:
    running = watched
    values = chosen("model", running, model="calibrated")
    asked = [query for query in queries("model") if query.title == "Reliability diagram"]
    # One moment for all: two queries in a row may have a scrape between them.
    whole = " or ".join(
        f'label_replace({filled(query.expr, values)}, "query", "{at}", "", "")' for at, query in enumerate(asked)
    )
    found = {(each.labels["query"], each.labels["bin"]): each.value for each in answered(running, whole, 6 * 10)}
    assert len(found) == 6 * 10
    for at in range(10):
        said, was, diagonal, lower, upper, n = (found[str(query), f"0.{at}"] for query in range(6))
        assert said == diagonal
        middle, z2 = was * n, 1.96**2
        half = 1.96 * math.sqrt(middle * (n - middle) / n + z2 / 4)
        assert lower == pytest.approx((middle + z2 / 2 - half) / (n + z2), rel=1e-4)
        assert upper == pytest.approx((middle + z2 / 2 + half) / (n + z2), rel=1e-4)
        assert lower < was < upper


def test_the_fleet_puts_the_model_that_is_off_before_the_one_that_is_not(watched: Prometheus) -> None:
    above, *others = (query for query in queries("fleet") if query.title.startswith("Versions, the"))

    def of(query: AskedQuery) -> dict[str, float]:
        return {labels["model"]: value for labels, value in results(watched, query, chosen("fleet", watched))}

    # Of the model that a map was promoted for, evidence starts again: it has a row, and may have no number yet.
    eventually(lambda: of(above).keys() | {MODEL} == set().union(*map(of, others)), shown=lambda: of(above))
    found = eventually(lambda: (now := of(above)).get(DRIFTED, -1.0) >= 0.0 and now, shown=lambda: of(above))
    assert found
    assert found[DRIFTED] >= 0.0 > max(found[name] for name in ("calibrated", "prior-shift", "local-error"))
    assert len(found.keys() | {MODEL}) == 5


def test_marks_stand_at_the_times_of_refits_and_promotions(watched: Prometheus) -> None:
    running = watched
    values = chosen("model", running, model=MODEL)
    refits, serving = queries("model")[-2:]
    assert (refits.title, serving.title) == ("Refits", "Maps that came to serve")
    changed = next(query for query in queries("model") if query.title == "Change points")
    marks = eventually(lambda: results(running, changed, values | {"model": DRIFTED}))
    assert {labels["detector"] for labels, _ in marks} <= {"calibration", "prevalence", "change"}
    (newest,) = running.query(f'max(calibration_watermark_timestamp_seconds{{model="{DRIFTED}"}})')
    assert all(newest.value * 1000 - 4 * HOUR_MS < at < newest.value * 1000 for _, at in marks)
    ((labels, ended),) = eventually(lambda: results(running, refits, values))
    assert labels["result"] == "passed"
    ((_, promoted),) = eventually(lambda: results(running, serving, values))
    assert BEGAN_MS < ended <= promoted <= time.time() * 1000
