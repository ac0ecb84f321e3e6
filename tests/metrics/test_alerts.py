"""What Prometheus sees of alerts and webhooks."""

from pathlib import Path

from monitor.alarms.webhooks import Target, Webhook
from monitor.clock import ManualClock
from monitor.metrics.alerts import AlertFamilies
from monitor.metrics.exposition import Exposition
from monitor.store.alerts import AlertState
from monitor.store.sql import SqlStore
from monitor.store.webhooks import WebhookStore
from tests.metrics.library import ExpositionCollector
from tests.real.promtool import check_metrics

NAMES = ("model", "version", "kind", "webhook", "result")
STATES = {
    ("churn", "7", "calibration"): AlertState.FIRING,
    ("churn", "7", "change"): None,
    ("churn", "7", "map"): AlertState.RESOLVED,
    ("churn", "8", "calibration"): AlertState.ACKNOWLEDGED,
    ("churn", "8", "change"): AlertState.PENDING,
    ("other replica's", "1", "change"): AlertState.FIRING,
}


def test_the_state_of_each_alert_is_a_number_and_only_the_owner_exports_it(tmp_path: Path) -> None:
    with SqlStore.open(f"sqlite:///{tmp_path}/monitor.db") as store:
        target = Target(name="oncall", url="http://127.0.0.1:1/")
        webhook = Webhook(target, WebhookStore(store.database), owner="a", clock=ManualClock())
    webhook.results["failed"] += 2
    webhook.waiting = 3
    exposition = Exposition([AlertFamilies(lambda: STATES, lambda: {"churn"}, [webhook])])
    found = {
        (sample.name, *(sample.labels[name] for name in NAMES if name in sample.labels)): sample.value
        for metric in ExpositionCollector(exposition, process=False).collect()
        for sample in metric.samples
        if not sample.name.startswith("calibration_build")
    }
    assert found == {
        ("calibration_alert_state", "churn", "7", "calibration"): 2,
        ("calibration_alert_state", "churn", "7", "change"): 0,
        ("calibration_alert_state", "churn", "7", "map"): 0,
        ("calibration_alert_state", "churn", "8", "calibration"): 3,
        ("calibration_alert_state", "churn", "8", "change"): 1,
        ("calibration_webhook_deliveries_total", "oncall", "delivered"): 0,
        ("calibration_webhook_deliveries_total", "oncall", "refused"): 0,
        ("calibration_webhook_deliveries_total", "oncall", "failed"): 2,
        ("calibration_webhook_waiting_changes", "oncall"): 3,
    }
    said = check_metrics(exposition.render(False)[0])
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
