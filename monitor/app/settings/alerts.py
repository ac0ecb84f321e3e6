"""Settings of alerts: their budget, and who gets them."""

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from monitor.alarms.webhooks import WebhookSettings, check_webhook_url
from monitor.section import Section, Text


def _base_url(text: str) -> str:
    return check_webhook_url(text).rstrip("/") if text else ""


Weight = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class DetectorWeights(Section):
    """How the budget of false alarms is shared out by detectors; 0 switches one off, and the others get its part."""

    calibration: Weight = 1.0
    """Weight of the detector that predictions are wrong, by their shape or because the prevalence moved."""
    prevalence: Weight = 1.0
    """Weight of the detector that their shape is wrong, which no change of prevalence moves."""
    change: Weight = 1.0
    """Weight of the detector that calibration is not that of the reference any more."""
    serving_map: Weight = 1.0
    """Weight of the detector that the serving map does harm, which only versions with a map have."""

    @model_validator(mode="after")
    def _some_watch(self) -> "DetectorWeights":
        if self.calibration == self.prevalence == self.change == self.serving_map == 0.0:
            raise ValueError(
                "must have a weight above 0 for one detector at least, such as {calibration: 1}, or nothing is watched"
            )
        return self


class AlertsSettings(Section):
    """Alerts about models that the service raises itself, by sequential evidence."""

    false_alarms_per_year: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 1.0
    """How many false alarms a year there may be on average, of all models and detectors together."""
    detectors: DetectorWeights = DetectorWeights()
    webhooks: dict[Text, WebhookSettings] = Field(default_factory=dict)
    """Receivers of alerts by name. For example: {oncall: {url: https://alerts.example.com/calibration}}"""
    external_url: Annotated[str, AfterValidator(_base_url)] = ""
    """Where readers of alerts reach this service, for the links in webhooks, such as https://calibration.example.com."""
