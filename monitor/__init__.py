"""Watches the calibration of probabilistic classifiers in production."""

import importlib
from typing import TYPE_CHECKING, Any, Final

from monitor.version import VERSION

if TYPE_CHECKING:
    from monitor import measures
    from monitor.alarm_functions import NormalLogits, simulate_alarms
    from monitor.data import Table, read, show_progress
    from monitor.functions import apply, compare, evaluate, evaluate_by, recalibrate
    from monitor.reports.evaluation.local import evaluate_local
    from monitor.scores import ScoreTable
    from monitor.simulation.simulate import Fleet
    from monitor.sources.tables import Columns

__version__ = VERSION

__all__ = [
    "Columns",
    "Fleet",
    "NormalLogits",
    "ScoreTable",
    "Table",
    "__version__",
    "apply",
    "compare",
    "evaluate",
    "evaluate_by",
    "evaluate_local",
    "measures",
    "read",
    "recalibrate",
    "show_progress",
    "simulate_alarms",
]

_MODULES: Final = {
    "Columns": "monitor.sources.tables",
    "Fleet": "monitor.simulation.simulate",
    "NormalLogits": "monitor.alarm_functions",
    "ScoreTable": "monitor.scores",
    "Table": "monitor.data",
    "apply": "monitor.functions",
    "compare": "monitor.functions",
    "evaluate": "monitor.functions",
    "evaluate_by": "monitor.functions",
    "evaluate_local": "monitor.reports.evaluation.local",
    "read": "monitor.data",
    "recalibrate": "monitor.functions",
    "show_progress": "monitor.data",
    "simulate_alarms": "monitor.alarm_functions",
}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that a program that needs only a score table starts quickly.
    if name == "measures":  # a module, so that `monitor.measures.smce(p, y)` needs no further import
        return importlib.import_module("monitor.measures")
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
