"""Writes what the chart has of generated files: ``python -m deploy.chart``."""
