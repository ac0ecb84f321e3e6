"""The series of alerts and webhooks."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from monitor.alarms.alarms import Key
from monitor.alarms.attribution import MISSING_LABELS, UNCLEAR
from monitor.alarms.webhooks import Webhook
from monitor.events.model import ALL
from monitor.metrics.series import Family, Series, read_families
from monitor.store.alert import Alert, AlertState

_NUMBERS: Final = {AlertState.PENDING: 1, AlertState.FIRING: 2, AlertState.ACKNOWLEDGED: 3}

_LABELS: Final = ("model", "version", "kind")


def _after(alert: Alert, name: str) -> float | None:
    """A number about the events since the change."""
    after: Mapping[str, Any] = alert.finding.document.get("after", {})
    return after.get(name)


ALERTS: Final[tuple[Series[Alert | None], ...]] = (
    Series(
        "calibration_alert_state",
        "State of the alert that is raised by sequential evidence and led by this kind of finding: 0 none, 1 pending "
        "(within a factor of ten of the line), 2 firing, 3 firing and acknowledged. A kind that speaks for the alert "
        "of another one has 0. Absent where there is no evidence.",
        lambda alert: 0 if alert is None else _NUMBERS.get(alert.state, 0),
        _LABELS,
    ),
)

OPEN_ALERTS: Final[tuple[Series[Alert], ...]] = (
    Series(
        "calibration_alert_info",
        "What the alert says, while calibration_alert_state is not 0: label `prior_shift`, `missing_labels` (looks the "
        "same), `shape`, `both`, `unclear` (too little is kept of the time since the change), `not_worse` of a change, "
        "or `harm` of a map; and the segment whose evidence is largest. Always 1.",
        lambda alert: [
            ((alert.finding.document.get("label", UNCLEAR), alert.finding.document.get("segment") or ALL), 1)
        ],
        (*_LABELS, "label", "segment"),
    ),
    Series(
        "calibration_alert_offset_logit",
        "What has to be added to every logit since the change that the alert is about, while calibration_alert_state "
        "is not 0. Absent when the data is insufficient, or labels may be missing because of what they are.",
        lambda alert: None if alert.finding.document.get("label") == MISSING_LABELS else _after(alert, "offset"),
        _LABELS,
    ),
    Series(
        "calibration_alert_slope",
        "Slope of the true logits over the predicted ones since the change that the alert is about, as "
        "calibration_alert_offset_logit.",
        lambda alert: _after(alert, "slope"),
        _LABELS,
    ),
)

WEBHOOKS: Final[tuple[Series[Webhook], ...]] = (
    Series(
        "calibration_webhook_deliveries_total",
        "Attempts of this process to deliver a change of an alert, by result: `delivered`, `refused` by the receiver "
        "for good, or `failed`, and tried again.",
        lambda webhook: [((result,), count) for result, count in list(webhook.results.items())],
        ("webhook", "result"),
    ),
    Series(
        "calibration_webhook_waiting_changes",
        "Changes of alerts that are not delivered to the webhook yet. Every replica that evaluates counts all of them.",
        lambda webhook: webhook.waiting,
        ("webhook",),
    ),
)


class AlertFamilies:
    """The families of alerts and webhooks.

    Parameters
    ----------
    alerts
        The alert that findings of each model, version and kind lead, as last saved; None where they lead none.
    held
        Models whose lease this process has.
    webhooks
        What delivers.
    """

    def __init__(
        self,
        alerts: Callable[[], Mapping[Key, Alert | None]],
        held: Callable[[], Collection[str]],
        webhooks: Sequence[Webhook],
    ) -> None:
        self._alerts = alerts
        self._held = held
        self._webhooks = webhooks

    def __call__(self) -> Iterator[Family]:
        """Read the last state."""
        held = frozenset(self._held())
        alerts = [(key, alert) for key, alert in self._alerts().items() if key[0] in held]
        yield from read_families(ALERTS, alerts)
        current = [(key, alert) for key, alert in alerts if alert is not None and alert.state in _NUMBERS]
        yield from read_families(OPEN_ALERTS, current)
        yield from read_families(WEBHOOKS, [((webhook.target.name,), webhook) for webhook in self._webhooks])
