"""Prometheus series of snapshots, pipeline, refits and HTTP."""
