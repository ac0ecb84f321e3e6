"""The settings: monitor.yaml, the environment on top of it, and what both may say."""

from monitor.settings.load import load_settings
from monitor.settings.model import Settings

__all__ = ["Settings", "load_settings"]
