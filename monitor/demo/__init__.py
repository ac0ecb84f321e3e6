"""Simulated models and their events."""

from monitor.demo.models import MODELS, SimulatedModel
from monitor.demo.simulator import Pace, Simulator
from monitor.demo.traffic import HORIZON_MS, LATENESS_MS, Traffic

__all__ = ["HORIZON_MS", "LATENESS_MS", "MODELS", "Pace", "SimulatedModel", "Simulator", "Traffic"]
