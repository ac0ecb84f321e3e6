"""The scorer's client: sends predictions and outcomes without ever blocking or failing the scorer.

::

    predictions = PredictionLogger("churn", "7", to=Kafka("localhost:9092", "predictions", "outcomes"))
    identifier = predictions.log(0.83, segments={"region": "eu"})
    predictions.outcome(identifier, 1)
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from monitor.logging.classifier import MonitoredClassifier
    from monitor.logging.file import File
    from monitor.logging.kafka import Kafka
    from monitor.logging.logger import PredictionLogger
    from monitor.logging.outbox import Stats
    from monitor.logging.rest import Rest

__all__ = ["File", "Kafka", "MonitoredClassifier", "PredictionLogger", "Rest", "Stats"]

_MODULES: Final = {
    "File": "monitor.logging.file",
    "Kafka": "monitor.logging.kafka",
    "MonitoredClassifier": "monitor.logging.classifier",
    "PredictionLogger": "monitor.logging.logger",
    "Rest": "monitor.logging.rest",
    "Stats": "monitor.logging.outbox",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: a scorer that writes to a file loads neither an HTTP nor a Kafka client.
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
