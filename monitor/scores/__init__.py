"""Score tables: the sufficient statistic of every measure."""

from monitor.scores.class_table import ClassTable
from monitor.scores.grid_table import GridTable
from monitor.scores.recalibrated import recalibrate_steps
from monitor.scores.steps import Steps
from monitor.scores.table import ScoreTable

__all__ = ["ClassTable", "GridTable", "ScoreTable", "Steps", "recalibrate_steps"]
