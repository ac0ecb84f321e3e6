"""Watches the calibration of probabilistic classifiers in production."""

from monitor.version import VERSION as __version__

__all__ = ["__version__"]
