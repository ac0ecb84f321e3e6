"""Deliver changes of alerts to webhooks, in Alertmanager's format, signed as Standard Webhooks are.

A change is tried until the receiver takes it: after failures, 5xx, 408 and 429 again, in order, also after a restart
and by another replica. A receiver that refuses one gets the next.
"""

import asyncio
import base64
import hashlib
import hmac
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx
import msgspec
import structlog

from monitor.alarms.settings import AlertsSettings, WebhookSettings
from monitor.clock import Clock
from monitor.errors import StoreError
from monitor.events.times import format_time
from monitor.reports.formatting import evidence_text
from monitor.store.alert import SHOWN, Alert, AlertChange, AlertState
from monitor.store.webhooks import WebhookDelivery, WebhookStore
from monitor.urls import wrong_path
from monitor.version import VERSION

ALERT_NAME: Final = "CalibrationEvidence"
RUNBOOK: Final = "docs/alerts.md#what-to-do"
"""A path in the repository, as in the rules of Prometheus."""
RESULTS: Final = ("delivered", "refused", "failed")
POLL_SECONDS: Final = 1.0

_TIMEOUT_SECONDS: Final = 10.0
"""For one delivery, from the connection to the head of the answer."""
_NEVER: Final = "0001-01-01T00:00:00Z"
"""How Alertmanager writes that an alert has not ended."""
_AGAIN: Final = frozenset({httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """A webhook.

    Attributes
    ----------
    name
        Its name in the settings.
    settings
        How changes are sent. The URL may hold a secret: it is not logged.
    alerts
        Settings of all receivers.
    labels
        Model -> its labels in the settings, such as its team: receivers route by them.
    """

    name: str
    settings: WebhookSettings
    alerts: AlertsSettings = field(default_factory=AlertsSettings)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def states(self) -> tuple[AlertState, ...]:
        """States of which the changes are sent."""
        sent = (AlertState.FIRING, AlertState.ACKNOWLEDGED, AlertState.RESOLVED)
        return sent if self.settings.send_resolved else sent[:-1]


class Webhook:
    """Delivers changes to one receiver, from when it is made on. One thread calls :meth:`deliver_due`.

    Parameters
    ----------
    target
        The receiver.
    store
        How far it was delivered.
    owner
        Id of this replica.
    clock
        The wall clock.

    Attributes
    ----------
    results
        Result -> attempts since the start: one of RESULTS.
    waiting
        Changes that are not delivered yet, by any replica.
    """

    def __init__(self, target: Target, store: WebhookStore, *, owner: str, clock: Clock) -> None:
        self.target = target
        self._store = store
        self._owner = owner
        self._clock = clock
        # Here, so that the first evaluation finds it: a new one begins with the next change.
        store.register([target.name])
        self.results = Counter(dict.fromkeys(RESULTS, 0))
        self.waiting = 0

    def deliver_due(self) -> None:
        """Deliver what waits and is due."""
        name, states = self.target.name, self.target.states
        try:
            while self._count_waiting():
                delivery = self._store.claim(name, self._owner, states)
                if delivery is None:
                    return
                self._deliver(delivery)
        except StoreError as error:
            # Whatever else uses the store reports it.
            _log.debug("webhooks are not delivered", webhook=name, detail=str(error))

    def _count_waiting(self) -> int:
        self.waiting = self._store.progress(self.target.name, self.target.states).waiting
        return self.waiting

    def _deliver(self, delivery: WebhookDelivery) -> None:
        name, change = self.target.name, delivery.change
        error, is_refused = self._send(delivery)
        if error is None or is_refused:
            self._store.delivered(name, self._owner, change.number, error)
        else:
            self._store.failed(name, self._owner, delivery.attempts, error)
        self.results["delivered" if error is None else "refused" if is_refused else "failed"] += 1
        about = {"webhook": name, "alert": change.alert, "state": change.state.value}
        if error is None:
            if delivery.attempts:
                _log.info("a webhook is delivered again", **about, attempts=delivery.attempts + 1)
        elif is_refused:
            _log.error("a webhook was refused; it is not tried again", **about, detail=error)
        elif not delivery.attempts:
            _log.warning("a webhook cannot be delivered; it is tried again", **about, detail=error)

    def _send(self, delivery: WebhookDelivery) -> tuple[str | None, bool]:
        """Send one change; returns the error, if there is one, and whether it is for good."""
        body = payload(self.target, delivery.change, delivery.alert)
        headers = headers_of(self.target, delivery.change, body, self._clock.now_ms() // 1000)
        try:
            response = asyncio.run(self._post(body, headers))
        except (TimeoutError, httpx.TimeoutException):
            return f"no answer within {_TIMEOUT_SECONDS:g} s", False
        except httpx.HTTPError as error:
            return _cause_of(error), False
        if response.is_success:
            return None, False
        status = response.status_code
        return f"the receiver answered {status} {response.reason_phrase}", status < 500 and status not in _AGAIN

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        """Send a request and read the head of its answer. Raises TimeoutError."""
        # The limit is for all together: httpx limits each read, so that an answer by drips would hold the thread.
        # A connection of its own each time: there is one in hours.
        async with (
            httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as http,
            asyncio.timeout(_TIMEOUT_SECONDS),
            http.stream("POST", self.target.settings.url, content=body, headers=headers) as response,
        ):
            return response


def _cause_of(error: BaseException) -> str:
    """Why a connection failed: the libraries in between say only that it did."""
    while (
        cause := error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__
    ):
        error = cause
    if isinstance(error, OSError) and error.errno is not None:
        # The text of asyncio has the address.
        return os.strerror(error.errno) if error.errno > 0 else str(error.strerror)
    return str(error) or type(error).__name__


def payload(target: Target, change: AlertChange, alert: Alert) -> bytes:
    """The body for one change: Alertmanager's webhook, version 4."""
    finding = alert.finding
    # The same from the first request about an alert to the last: which kind of finding leads may change.
    own = {"alertname": ALERT_NAME, "model": finding.model, "version": finding.version, "alert": alert.id}
    labels = {**target.labels.get(finding.model, {}), **own}
    status = "resolved" if change.state is AlertState.RESOLVED else "firing"
    annotations = {
        "summary": finding.summary,
        "description": f"{finding.events:,} events since {format_time(finding.since_ms)}. The evidence is "
        f"{evidence_text(finding.log10_evidence, finding.log10_line)}.",
        "kind": finding.kind,
        "since": format_time(finding.since_ms),
        "runbook_url": RUNBOOK,
    }
    for one in SHOWN:
        value = attrgetter(one.attribute)(alert) if one.shown.label else None
        if value is not None:
            annotations[one.place[-1]] = format_time(value) if one.is_time else str(value)
    command = finding.document.get("remedy", {}).get("command")
    if command is not None:
        annotations["command"] = command
    if target.alerts.external_url and not wrong_path(finding.model):
        query = urlencode({"version": finding.version})
        annotations["report_url"] = f"{target.alerts.external_url}/reports/{quote(finding.model)}?{query}"
    if change.state is AlertState.ACKNOWLEDGED:
        annotations |= {"acknowledged_by": change.actor, "note": change.note}
    elif change.state is AlertState.RESOLVED:
        annotations["resolved_because"] = change.note
    document: Mapping[str, Any] = {
        "version": "4",
        "groupKey": f"{{}}:{{alert={msgspec.json.encode(alert.id).decode()}}}",
        "truncatedAlerts": 0,
        "status": status,
        "receiver": target.name,
        "groupLabels": labels,
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": target.alerts.external_url,
        "alerts": [
            {
                "status": status,
                "labels": labels,
                "annotations": annotations,
                "startsAt": format_time(alert.pending_ms if alert.firing_ms is None else alert.firing_ms),
                "endsAt": format_time(change.at_ms) if status == "resolved" else _NEVER,
                "generatorURL": f"{target.alerts.external_url}/v1/alerts/{alert.id}",
                "fingerprint": alert.id.removeprefix("al_"),
            }
        ],
    }
    return msgspec.json.encode(document)


def headers_of(target: Target, change: AlertChange, body: bytes, seconds: int) -> dict[str, str]:
    """The headers for one change: the same id whenever it is tried, and the signature of Standard Webhooks."""
    delivery_id = f"{change.alert}.{change.number}"
    headers = {
        "content-type": "application/json",
        "user-agent": f"calibration-monitor/{VERSION}",
        "webhook-id": delivery_id,
        "webhook-timestamp": str(seconds),
    }
    secret = target.settings.secret
    if secret is not None:
        signed = f"{delivery_id}.{seconds}.".encode() + body
        digest = hmac.digest(base64.b64decode(secret.get_secret_value()), signed, hashlib.sha256)
        headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
    return headers
