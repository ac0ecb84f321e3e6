"""Refits: schedule, fit, compare on later events, guard, promote, roll back."""
