"""The series of alerts and webhooks."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from monitor.alarms.alarms import Key
from monitor.alarms.webhooks import Webhook
from monitor.metrics.series import Family, Series, read_families
from monitor.store.alerts import AlertState

_NUMBERS: Final = {AlertState.PENDING: 1, AlertState.FIRING: 2, AlertState.ACKNOWLEDGED: 3}

ALERTS: Final[tuple[Series[AlertState | None], ...]] = (
    Series(
        "calibration_alert_state",
        "State of the alert that is raised by sequential evidence: 0 none, 1 pending (within a factor of ten of the "
        "line), 2 firing, 3 firing and acknowledged. Absent where there is no evidence.",
        lambda state: 0 if state is None else _NUMBERS.get(state, 0),
        ("model", "version", "kind"),
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
    states
        State of the alert of every model, version and kind, as last saved.
    held
        Models whose lease this process has.
    webhooks
        What delivers.
    """

    def __init__(
        self,
        states: Callable[[], Mapping[Key, AlertState | None]],
        held: Callable[[], Collection[str]],
        webhooks: Sequence[Webhook],
    ) -> None:
        self._states = states
        self._held = held
        self._webhooks = webhooks

    def __call__(self) -> Iterator[Family]:
        """Read the last state."""
        held = frozenset(self._held())
        yield from read_families(ALERTS, [(key, state) for key, state in self._states().items() if key[0] in held])
        yield from read_families(WEBHOOKS, [((webhook.target.name,), webhook) for webhook in self._webhooks])
