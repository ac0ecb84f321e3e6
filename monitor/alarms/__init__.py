"""Alerts: evidence on every version, and from evidence to the person who is told."""
