"""The settings of alerts: their budget, their detectors, and who receives them."""

import base64
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr, model_validator

from monitor.section import Address, Section, Text, check_http_url

_MIN_SECRET_BYTES: Final = 24


def check_webhook_url(text: str) -> str:
    """Return an http or https URL, or raise ValueError."""
    check_http_url(text, "https://alerts.example.com/calibration")
    return text


def _check_secret(secret: SecretStr) -> SecretStr:
    try:
        size = len(base64.b64decode(secret.get_secret_value(), validate=True))
    except ValueError:
        size = 0
    if size < _MIN_SECRET_BYTES:
        raise ValueError(
            f"must be base64 of {_MIN_SECRET_BYTES} bytes or more, such as `openssl rand -base64 32` prints"
        )
    return secret


def _base_url(text: str) -> str:
    return check_webhook_url(text).rstrip("/") if text else ""


_Weight = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class DetectorWeights(Section):
    """How the budget of false alarms is shared out by detectors; 0 switches one off, and the others get its part."""

    calibration: _Weight = 1.0
    """Weight of the detector that predictions are wrong, by their shape or because the prevalence moved."""
    prevalence: _Weight = 1.0
    """Weight of the detector that their shape is wrong, which no change of prevalence moves."""
    change: _Weight = 1.0
    """Weight of the detector that calibration is not that of the reference any more."""
    serving_map: _Weight = 1.0
    """Weight of the detector that the serving map does harm, which only versions with a map have."""

    @model_validator(mode="after")
    def _some_watch(self) -> "DetectorWeights":
        if self.calibration == self.prevalence == self.change == self.serving_map == 0.0:
            raise ValueError(
                "must have a weight above 0 for one detector at least, such as {calibration: 1}, or nothing is watched"
            )
        return self


class WebhookSettings(Section):
    """A receiver of alerts, in the format of Alertmanager's webhooks."""

    url: Annotated[Address, AfterValidator(check_webhook_url), Field(repr=False)]
    """Where each change of an alert is sent, by POST. A password in it is hidden wherever settings are shown."""
    secret: Annotated[SecretStr, AfterValidator(_check_secret)] | None = None
    """Key of the signature of requests, base64 of 24 bytes or more; null does not sign them."""
    send_resolved: bool = True
    """Whether the end of an alert is sent, too."""


class AlertsSettings(Section):
    """Alerts about models that the service raises itself, by sequential evidence."""

    false_alarms_per_year: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 1.0
    """How many false alarms a year there may be on average, of all models and detectors together."""
    detectors: DetectorWeights = DetectorWeights()
    webhooks: dict[Text, WebhookSettings] = Field(default_factory=dict)
    """Receivers of alerts by name. For example: {oncall: {url: https://alerts.example.com/calibration}}"""
    external_url: Annotated[str, AfterValidator(_base_url)] = ""
    """Where readers of alerts reach this service, for the links in webhooks, such as https://calibration.example.com."""
