"""Watches the calibration of probabilistic classifiers in production."""

import importlib
from typing import TYPE_CHECKING, Any, Final

from monitor.version import VERSION

if TYPE_CHECKING:
    from monitor.alarm_functions import simulate_alarms
    from monitor.functions import apply, compare, evaluate, evaluate_by, recalibrate
    from monitor.reports.evaluation.local import evaluate_local
    from monitor.scores import ScoreTable

__version__ = VERSION

__all__ = [
    "ScoreTable",
    "__version__",
    "apply",
    "compare",
    "evaluate",
    "evaluate_by",
    "evaluate_local",
    "recalibrate",
    "simulate_alarms",
]

_MODULES: Final = {
    "ScoreTable": "monitor.scores",
    "apply": "monitor.functions",
    "compare": "monitor.functions",
    "evaluate": "monitor.functions",
    "evaluate_by": "monitor.functions",
    "evaluate_local": "monitor.reports.evaluation.local",
    "recalibrate": "monitor.functions",
    "simulate_alarms": "monitor.alarm_functions",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that a program that needs only a score table starts quickly.
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
