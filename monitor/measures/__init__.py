"""Calibration measures, one a file."""
