"""The input of alerts: what the evidence about each model says now, and where it comes from."""

from collections.abc import Callable, Collection, Mapping, Sequence

from monitor.store.alerts import Finding, Kind

__all__ = ["Finding", "Kind", "ReadFindings"]

ReadFindings = Callable[[Collection[str]], Mapping[str, Sequence[Finding]]]
"""Models -> the latest findings about each of them, of all of its versions that have events and all kinds.

A model that is not in it was not evaluated yet. A version without any finding has stopped: its alerts are resolved. The
findings about a version and kind with an open alert go on describing what it was raised for; once that is over, or a
map was promoted or rolled back, the evidence begins anew, and a next alert needs it to have been below the line.
"""
