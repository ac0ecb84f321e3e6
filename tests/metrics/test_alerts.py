"""What Prometheus sees of alerts and webhooks."""

from pathlib import Path
from typing import Any

from monitor.alarms.settings import WebhookSettings
from monitor.alarms.webhooks import Target, Webhook
from monitor.clock import ManualClock, SystemClock
from monitor.metrics.alerts import AlertFamilies
from monitor.metrics.exposition import Exposition
from monitor.store.alert import Alert, AlertState
from monitor.store.sql import SqlStore
from monitor.store.webhooks import WebhookStore
from tests.alarms.findings import NOW_MS, finding
from tests.metrics.library import ExpositionCollector
from tests.real.promtool import check_metrics

NAMES = ("model", "version", "kind", "label", "segment", "webhook", "result")


def alert(state: AlertState, **document: Any) -> Alert:
    return Alert(id="al_1", state=state, finding=finding(7.2, document=document), pending_ms=NOW_MS)


ALERTS = {
    ("churn", "7", "calibration"): alert(
        AlertState.FIRING, label="both", segment="region=eu", after={"offset": 0.41, "slope": 0.8}
    ),
    ("churn", "7", "change"): None,
    ("churn", "7", "map"): alert(AlertState.RESOLVED, label="shape"),
    ("churn", "8", "calibration"): alert(AlertState.ACKNOWLEDGED, label="prior_shift", segment=None),
    ("churn", "8", "change"): alert(AlertState.PENDING, after={"offset": None}),
    ("other replica's", "1", "change"): alert(AlertState.FIRING),
}


def test_the_state_of_each_alert_is_a_number_and_only_the_owner_exports_it(tmp_path: Path) -> None:
    with SqlStore.open(f"sqlite:///{tmp_path}/monitor.db", clock=SystemClock()) as store:
        target = Target("oncall", WebhookSettings(url="http://127.0.0.1:1/"))
        webhook = Webhook(target, WebhookStore(store.database), owner="a", clock=ManualClock())
    webhook.results["failed"] += 2
    webhook.waiting = 3
    exposition = Exposition([AlertFamilies(lambda: ALERTS, lambda: {"churn"}, [webhook])])
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
        ("calibration_alert_info", "churn", "7", "calibration", "both", "region=eu"): 1,
        ("calibration_alert_info", "churn", "8", "calibration", "prior_shift", "all"): 1,
        ("calibration_alert_info", "churn", "8", "change", "unclear", "all"): 1,
        ("calibration_alert_offset_logit", "churn", "7", "calibration"): 0.41,
        ("calibration_alert_slope", "churn", "7", "calibration"): 0.8,
        ("calibration_webhook_deliveries_total", "oncall", "delivered"): 0,
        ("calibration_webhook_deliveries_total", "oncall", "refused"): 0,
        ("calibration_webhook_deliveries_total", "oncall", "failed"): 2,
        ("calibration_webhook_waiting_changes", "oncall"): 3,
    }
    said = check_metrics(exposition.render(False)[0])
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
