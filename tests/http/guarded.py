"""One service with access control on, for tests that only ask: two models, and a key of every role for each."""

from functools import cache

from monitor.access.settings import AccessSettings
from monitor.store.alerts import AlertStore, save
from tests.alarms.findings import NOW_MS, advanced, finding
from tests.http.keys import Keys
from tests.http.refits import of_this_process
from tests.http.service import Client, Service
from tests.snapshots import report, snapshot

MODEL = "churn"
OTHER = "fraud"

KEYS = Keys()
ALL = ("read", "write", "promote")
for each in (*ALL, *(f"{role}:{model}" for role in ALL for model in (MODEL, OTHER, "ghost"))):
    KEYS(each)
EVERYTHING = KEYS(*ALL)
AUTOMATON = KEYS("write", f"promote:{MODEL}")
TWO = KEYS("read:churn", "write:org/model")
REFITS = of_this_process()
SERVICE = Service(
    refits=REFITS,
    alerts=AlertStore(REFITS.database.database),
    access=AccessSettings(failures_per_minute=10**6, requests_per_second=10**6),
)
SERVICE.authenticator = KEYS.authenticator(SERVICE.clock)
SERVICE.show(snapshot([report(MODEL, window="24h"), report(OTHER, window="24h")]))
APP = SERVICE.app()
CLIENT = Client(APP)


@cache
def alert_id() -> str:
    """Raise an alert about the model, once."""
    alert = advanced(None, finding(9.0, model=MODEL), NOW_MS)
    assert alert is not None
    with REFITS.database.database.writing() as connection:
        save(REFITS.database.database, connection, [(None, alert)], NOW_MS)
    return alert.id
