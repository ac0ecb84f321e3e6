"""Watches the calibration of probabilistic classifiers in production."""

from monitor import version

__version__ = version.VERSION

__all__ = ["__version__"]
