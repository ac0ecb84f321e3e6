"""Samples of labelled events with their features: what recalibration maps are fitted on."""

from monitor.samples.labelled import LabelledEvents

__all__ = ["LabelledEvents"]
