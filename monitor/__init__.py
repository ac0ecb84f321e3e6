"""Watches the calibration of probabilistic classifiers in production."""

import importlib
from typing import TYPE_CHECKING, Any, Final

from monitor.version import VERSION

if TYPE_CHECKING:
    from monitor.functions import apply, compare, evaluate, recalibrate, refit
    from monitor.reports.evaluation.local import evaluate_local
    from monitor.scores import ScoreTable

__version__ = VERSION

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
    "apply": "monitor.functions",
    "compare": "monitor.functions",
    "evaluate": "monitor.functions",
    "evaluate_local": "monitor.reports.evaluation.local",
    "recalibrate": "monitor.functions",
    "refit": "monitor.functions",
}


def __getattr__(name: str) -> Any:
    # On first use, so that whoever wants a score table alone does not wait for the measures to load.
    if name in _ROOMS:
        return getattr(importlib.import_module(_ROOMS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})
