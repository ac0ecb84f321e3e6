"""Score tables: everything is one."""

from monitor.scores.grid_table import GridTable
from monitor.scores.table import ScoreTable

__all__ = ["GridTable", "ScoreTable"]
