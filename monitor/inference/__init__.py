"""Intervals, null levels and p-values."""
