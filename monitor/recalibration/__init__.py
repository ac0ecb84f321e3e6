"""Recalibration: refits, their comparison on data that they never saw, promotion, and the way back."""
