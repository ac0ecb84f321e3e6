"""Snapshots and status become Prometheus series."""
