"""Principals, roles, API keys and tokens."""
