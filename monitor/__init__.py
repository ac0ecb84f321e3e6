"""Watches the calibration of probabilistic classifiers in production."""

from typing import TYPE_CHECKING, Any

from monitor import version

if TYPE_CHECKING:
    from monitor.evaluation.either import evaluate

__version__ = version.VERSION

__all__ = ["__version__", "evaluate"]


def __getattr__(name: str) -> Any:
    # On first use, so that whoever wants a score table alone does not wait for the measures to load.
    if name == "evaluate":
        from monitor.evaluation.either import evaluate  # noqa: PLC0415

        return evaluate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
