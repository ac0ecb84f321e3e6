"""Simulated models: their labelled predictions, their messages in a log, and the alarms that a service would raise.

:mod:`monitor.simulation.generator` draws outcomes for all of them, and for the benchmark of alarms.
"""
