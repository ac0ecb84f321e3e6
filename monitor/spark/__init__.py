"""Spark: score tables and reports of more rows than one machine reads, in Catalyst expressions."""

from monitor.spark.join import LogColumns, join
from monitor.spark.maps import apply_map
from monitor.spark.refit import refit
from monitor.spark.reports import compare, report, reports
from monitor.spark.tables import merge, score_tables

__all__ = ["LogColumns", "apply_map", "compare", "join", "merge", "refit", "report", "reports", "score_tables"]
