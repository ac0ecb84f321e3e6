"""Spark: score tables and reports of more rows than one machine reads, in Catalyst expressions."""

from monitor.spark.reports import report, reports
from monitor.spark.tables import merge, score_tables

__all__ = ["merge", "report", "reports", "score_tables"]
