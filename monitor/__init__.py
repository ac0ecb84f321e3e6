"""Watches the calibration of probabilistic classifiers in production."""

import importlib
from typing import TYPE_CHECKING, Any, Final

from monitor import version

if TYPE_CHECKING:
    from monitor.evaluation.local import evaluate_local
    from monitor.reports.functions import apply, compare, evaluate, recalibrate, refit
    from monitor.scores import ScoreTable

__version__ = version.VERSION

__all__ = [
    "ScoreTable",
    "__version__",
    "apply",
    "compare",
    "evaluate",
    "evaluate_local",
    "recalibrate",
    "refit",
]

_ROOMS: Final = {
    "ScoreTable": "monitor.scores",
    "apply": "monitor.reports.functions",
    "compare": "monitor.reports.functions",
    "evaluate": "monitor.reports.functions",
    "evaluate_local": "monitor.evaluation.local",
    "recalibrate": "monitor.reports.functions",
    "refit": "monitor.reports.functions",
}


def __getattr__(name: str) -> Any:
    # On first use, so that whoever wants a score table alone does not wait for the measures to load.
    if name in _ROOMS:
        return getattr(importlib.import_module(_ROOMS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
