"""Score tables: the sufficient statistic of every measure."""

from monitor.scores.class_table import ClassTable
from monitor.scores.grid_table import GridTable
from monitor.scores.table import ScoreTable

__all__ = ["ClassTable", "GridTable", "ScoreTable"]
