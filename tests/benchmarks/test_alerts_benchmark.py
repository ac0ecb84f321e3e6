"""Alerts over a fleet: the list, and saving them with each evaluation. ``make bench`` prints the numbers."""

import time
from collections.abc import Callable

import pytest

from monitor.alarms.alarms import Alarms
from monitor.clock import SystemClock
from monitor.store.alerts import AlertStore
from monitor.store.sql import SqlStore
from tests.alarms.findings import Script, finding
from tests.http.service import Service

pytestmark = pytest.mark.benchmark

MODELS = [f"model-{number:04}" for number in range(1000)]
ROUNDS = 9


def milliseconds(work: Callable[[], object]) -> float:
    """The least processor time of some rounds: the machine has other work."""
    taken = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return 1000 * min(taken)


def test_alerts_of_a_thousand_models(store_url: str) -> None:
    kind = store_url.partition(":")[0]
    with SqlStore.open(store_url, clock=SystemClock()) as store:
        script = Script(*(finding(9.0, model=model) for model in MODELS))
        alarms, minute = Alarms(store.database, lambda _: False), 0

        def save() -> None:
            nonlocal minute
            minute += 1
            script.say(*(finding(9.0, model=model, settled_minute=minute) for model in MODELS))
            with store.database.writing() as connection:
                alarms.save(connection, MODELS, script.now)

        save()
        saving = milliseconds(save)
        alerts = AlertStore(store.database)
        client = Service(alerts=alerts).client()
        assert len(client.get("/v1/alerts?limit=1000").json()["alerts"]) == len(MODELS)
        reading = milliseconds(lambda: alerts.alerts(limit=1001))
        page = milliseconds(lambda: client.get("/v1/alerts?limit=1000"))
        usual = milliseconds(lambda: client.get("/v1/alerts?state=open"))
    print(
        f"\n{kind}, {len(MODELS)} models with an alert: listed in {page:.1f} ms, of which the store {reading:.1f} ms; "
        f"a page of 100 in {usual:.1f} ms; new findings of all saved in {saving:.0f} ms"
    )
