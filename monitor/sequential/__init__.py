"""Alarms by sequential evidence: bets, the evidence they add up to, a budget of false alarms, change points."""
