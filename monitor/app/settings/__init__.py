"""The settings: monitor.yaml, the environment on top of it, and what both may say."""

from monitor.app.settings.load import load_settings
from monitor.app.settings.model import Settings

__all__ = ["Settings", "load_settings"]
