"""Alerts: from what the evidence says of a model to the people who are to know."""
