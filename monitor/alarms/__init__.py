"""Alerts: evidence on every version, what it says, and the notice that a person gets."""
