"""Simulated models and the alarms that a service would raise on them, to choose tolerance and budget by.

The events that `monitor simulate` writes into a log are those of :mod:`monitor.demo`.
"""
