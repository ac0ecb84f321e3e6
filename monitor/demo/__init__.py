"""Simulated models and their events."""

from typing import Final

from monitor.demo.models import MODELS, SimulatedModel
from monitor.demo.simulator import Pace, Simulator
from monitor.demo.traffic import HORIZON_MS, LATENESS_MS, Traffic

__all__ = ["DEMO_SEED", "HORIZON_MS", "LATENESS_MS", "MODELS", "Pace", "SimulatedModel", "Simulator", "Traffic"]

DEMO_SEED: Final = 32
"""A seed without false alarms in the first hours, as with most seeds but not all."""
